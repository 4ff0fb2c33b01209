package stack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"strongroom/activities/openstack"
	"strongroom/devcloud"
)

// ServiceEntry is the entry of a cloud's clouds.yaml with which strongroom itself
// logs in.
const ServiceEntry = "strongroom"

// account is how strongroom itself logs in.
type account struct {
	authURL, username, project, domain, region string
	shares                                     bool // the catalog names a shared file systems service
}

// devAccount is strongroom's user in the stack's own devcloud.
func (l Layout) devAccount() account {
	return account{l.AuthURL(), devcloud.ServiceUser, devcloud.ServiceProject, "Default", "RegionOne", false}
}

// cloudAccount is strongroom's user in the cloud of a clouds.yaml. It logs in,
// leaves the password in the stack's folder, and checks that the catalog sends
// clients to this stack's api.
func (l Layout) cloudAccount(ctx context.Context, file string) (account, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(file), clouds.WithCloudName(ServiceEntry))
	if err != nil {
		return account{}, fmt.Errorf("%s: %w", file, err)
	}
	client, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return account{}, openstack.Error(err, "log in at "+auth.IdentityEndpoint+" as "+auth.Username)
	}
	endpoint.Type, endpoint.Availability = "compute", gophercloud.AvailabilityPublic
	named, err := client.EndpointLocator(endpoint)
	if err != nil {
		return account{}, fmt.Errorf("the catalog at %s names no compute service in region %s: %w", auth.IdentityEndpoint, endpoint.Region, err)
	}
	if err := l.serves(named); err != nil {
		return account{}, err
	}
	result, ok := client.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return account{}, errors.New("the identity service speaks another API than version 3")
	}
	user, err := result.ExtractUser()
	if err != nil {
		return account{}, err
	}
	project, err := result.ExtractProject()
	if err != nil {
		return account{}, err
	}
	if project == nil {
		return account{}, fmt.Errorf("%s: entry %s names no project", file, ServiceEntry)
	}
	endpoint.Type = "sharev2"
	_, none := client.EndpointLocator(endpoint)
	a := account{auth.IdentityEndpoint, user.Name, project.Name, user.Domain.Name, endpoint.Region, none == nil}
	return a, os.WriteFile(l.passwordFile(), []byte(auth.Password+"\n"), 0o600)
}

// serves reports whether the compute API that a catalog names is the one of this
// stack.
func (l Layout) serves(named string) error {
	ours := l.APIURL() + "/v2.1"
	if named = strings.TrimSuffix(named, "/"); named == ours {
		return nil
	}
	problem := fmt.Sprintf("the catalog names the compute API as %s, and this one is going to be at %s", named, ours)
	there, err := url.Parse(named)
	if err == nil {
		if port, err := strconv.Atoi(there.Port()); err == nil && there.Hostname() == "127.0.0.1" && port != l.apiPort() {
			return fmt.Errorf("%s: use --port-base %d", problem, port-apiPort)
		}
	}
	return errors.New(problem)
}
