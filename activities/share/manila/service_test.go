package manila_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/activities/share/manila"
	"strongroom/activities/share/sharetest"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// logins are clients by project: a client that is logged in as a user of it.
type logins map[string]*gophercloud.ServiceClient

func (l logins) Client(_ context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if client, ok := l[cred.ProjectID]; ok {
		return client, nil
	}
	return nil, compute.Errorf(compute.Forbidden, "nobody is logged in to project %s", cred.ProjectID)
}

func (l logins) add(t *testing.T, provider *gophercloud.ProviderClient) compute.Credential {
	t.Helper()
	userID, projectID := cloudtest.Who(t, provider)
	client, err := gopher.NewSharedFileSystemV2(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	strongroom := cloudtest.Login(t, cloud.Service)
	client.MoreHeaders = map[string]string{"X-Service-Token": strongroom.Token()} // as strongroom's clients do
	l[projectID] = client
	own, err := gopher.NewSharedFileSystemV2(strongroom, cloudtest.Endpoint)
	require.NoError(t, err)
	l[compute.DeploymentCredential().ProjectID] = own
	return compute.Credential{ID: uuid.New(), ProjectID: projectID, UserID: userID}
}

// kinds are the shares that the suite is run on.
var kinds = map[string]struct {
	shareType string
	protocol  share.Protocol
}{
	"dummy":  {cloudtest.DummyShares, share.NFS},
	"cephfs": {cloudtest.CephFSShares, share.CephFS},
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if kind.protocol == share.CephFS {
				cloudtest.OpenCeph(t)
			}
			mine, theirs := cloudtest.NewProject(t), cloudtest.NewProject(t)
			one, two := logins{}, logins{}
			provider := mine.Login(t)
			owner, other := one.add(t, provider), one.add(t, theirs.Login(t))
			two.add(t, mine.Login(t)) // another user of the owner's project
			sharetest.Run(t, sharetest.Harness{
				Service: &manila.Service{Clients: one}, Again: &manila.Service{Clients: two}, Owner: owner, Other: other,
				Make:   func(t testing.TB) share.Share { return newShare(t, provider, kind.shareType, kind.protocol) },
				Remove: func(t testing.TB, id share.ID) { cloudtest.RemoveShare(t, provider, id.String()) },
			})
		})
	}
}

func newShare(t testing.TB, provider *gophercloud.ProviderClient, shareType string, protocol share.Protocol) share.Share {
	t.Helper()
	made := cloudtest.NewShare(t, provider, shareType, string(protocol))
	return share.Share{
		ID: share.ID{UUID: uuid.MustParse(made.ID)}, Name: made.Name, ProjectID: made.ProjectID,
		Protocol: protocol, SizeGiB: 1, Status: made.Status, Zone: made.AvailabilityZone,
	}
}
