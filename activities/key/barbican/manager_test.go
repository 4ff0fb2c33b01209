package barbican_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/key/barbican"
	"strongroom/activities/key/keytest"
	"strongroom/compute"
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
	client, err := gopher.NewKeyManagerV1(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	l[projectID] = client
	return compute.Credential{ID: uuid.New(), ProjectID: projectID, UserID: userID}
}

// manager gives a manager in which one user of the project is logged in.
func manager(t *testing.T, project cloudtest.Project, roles ...string) (*barbican.Manager, compute.Credential, *gophercloud.ServiceClient) {
	t.Helper()
	l := logins{}
	cred := l.add(t, project.Login(t, roles...))
	return &barbican.Manager{Clients: l}, cred, l[cred.ProjectID]
}

func TestConformance(t *testing.T) {
	t.Parallel()
	theirs := cloudtest.NewProject(t).Login(t)
	t.Run("suite", func(t *testing.T) { // returns once its parallel tests are through
		keytest.Run(t, func(t *testing.T) keytest.Harness {
			mine := cloudtest.NewProject(t) // in which no other test lists and makes
			one, two := logins{}, logins{}
			owner, other := one.add(t, mine.Login(t)), one.add(t, theirs)
			two.add(t, mine.Login(t)) // another user of the owner's project
			two.add(t, theirs)
			return keytest.Harness{Manager: &barbican.Manager{Clients: one}, Again: &barbican.Manager{Clients: two}, Owner: owner, Other: other}
		})
	})
}

func input(cred compute.Credential) key.CreateInput {
	return key.CreateInput{Credential: cred, ID: compute.SecretID{UUID: uuid.New()}, Name: "test " + uuid.NewString(), Bytes: compute.DiskPassphraseBytes}
}

// A user's own secret of the same name is not ours.
func TestOthersOfTheNameAreLeftAlone(t *testing.T) {
	t.Parallel()
	m, cred, client := manager(t, cloudtest.NewProject(t))
	in := input(cred)
	foreign, err := secrets.Create(t.Context(), client, secrets.CreateOpts{Name: in.Name, Payload: "mine", PayloadContentType: "text/plain"}).Extract()
	require.NoError(t, err)
	foreignID := foreign.SecretRef[len(foreign.SecretRef)-36:]
	t.Cleanup(func() { secrets.Delete(context.Background(), client, foreignID) })

	id, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	require.NotEqual(t, foreignID, id.String())
	require.NoError(t, m.Delete(t.Context(), key.DeleteInput{Credential: cred, Name: in.Name, ID: &id}))
	_, err = secrets.Get(t.Context(), client, foreignID).Extract()
	require.NoError(t, err)
}

// Barbican's filter by name is a pattern.
func TestNamesAreNoPatterns(t *testing.T) {
	t.Parallel()
	m, cred, _ := manager(t, cloudtest.NewProject(t))
	in := input(cred)
	id, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Delete(context.Background(), key.DeleteInput{Credential: cred, Name: in.Name}) })
	pattern := in.Name[:len(in.Name)-4] + "____"
	require.NoError(t, m.Delete(t.Context(), key.DeleteInput{Credential: cred, Name: pattern}))
	p, err := m.Passphrase(t.Context(), cred, id)
	require.NoError(t, err)
	p.Wipe()
}

// A Create that died leaves a candidate without a payload: the next one goes past
// it, and a Delete clears it.
func TestADeadCandidate(t *testing.T) {
	t.Parallel()
	m, cred, client := manager(t, cloudtest.NewProject(t))
	in := input(cred)
	leave := func() {
		_, err := secrets.Create(t.Context(), client, secrets.CreateOpts{Name: in.Name, SecretType: secrets.PassphraseSecret, Mode: barbican.Mode}).Extract()
		require.NoError(t, err)
	}
	leave()
	id, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	leave()
	again, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, id, again)
	leave()
	require.NoError(t, m.Delete(t.Context(), key.DeleteInput{Credential: cred, Name: in.Name}))
	got, err := m.List(t.Context(), cred, key.ListInput{})
	require.NoError(t, err)
	require.Empty(t, got.Next)
	for _, item := range got.Items {
		require.NotEqual(t, in.Name, item.Name)
	}
}

// The list is longer than a page of Barbican, which gives that many however many are asked
// for, and so many are gone between two parts that a count leads behind its end.
func TestListHasAllPages(t *testing.T) {
	t.Parallel()
	m, cred, client := manager(t, cloudtest.NewProject(t))
	prefix := uuid.NewString()
	erase := func(id string) { secrets.Delete(context.Background(), client, id) }
	const many = 105
	for i := range many {
		s, err := secrets.Create(t.Context(), client, secrets.CreateOpts{Name: fmt.Sprint(prefix, i), Mode: barbican.Mode}).Extract()
		require.NoError(t, err)
		t.Cleanup(func() { erase(s.SecretRef[len(s.SecretRef)-36:]) })
	}
	_, err := secrets.Create(t.Context(), client, secrets.CreateOpts{Name: "a user's own"}).Extract()
	require.NoError(t, err)
	first, err := m.List(t.Context(), cred, key.ListInput{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, first.Items, 100)
	rest, err := m.List(t.Context(), cred, key.ListInput{Marker: first.Next})
	require.NoError(t, err)
	require.Empty(t, rest.Next)
	found := map[string]bool{}
	for _, item := range append(first.Items, rest.Items...) {
		require.True(t, strings.HasPrefix(item.Name, prefix), item.Name)
		found[item.Name] = true
	}
	require.Len(t, found, many)

	for _, item := range first.Items {
		erase(item.ID.String())
	}
	again, err := m.List(t.Context(), cred, key.ListInput{Marker: first.Next})
	require.NoError(t, err)
	require.Equal(t, rest, again)
	_, err = m.List(t.Context(), cred, key.ListInput{Marker: "nonsense"})
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	project := cloudtest.NewProject(t)
	m, cred, _ := manager(t, project)
	in := input(cred)
	id, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Delete(context.Background(), key.DeleteInput{Credential: cred, Name: in.Name}) })
	before := everything(t, project)
	for _, role := range []string{"reader", "member", "observer"} {
		weak, as, _ := manager(t, project, role)
		err := weak.Check(t.Context(), as)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", role, err)
		_, err = weak.Create(t.Context(), input(as))
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", role, err)
		err = weak.Delete(t.Context(), key.DeleteInput{Credential: as, ID: &id, Name: in.Name})
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", role, err)
	}
	require.Equal(t, before, everything(t, project))
}

// everything counts a project's secrets, those of others too.
func everything(t *testing.T, project cloudtest.Project) int {
	t.Helper()
	_, _, client := manager(t, project)
	pages, err := secrets.List(client, nil).AllPages(t.Context())
	require.NoError(t, err)
	all, err := secrets.ExtractSecrets(pages)
	require.NoError(t, err)
	return len(all)
}

// A creator may make secrets (EE-10), and asking makes none, of no mode whatever.
func TestCheck(t *testing.T) {
	t.Parallel()
	project := cloudtest.NewProject(t)
	for _, roles := range [][]string{{"creator"}, {"member", "creator"}, {"admin"}} {
		m, cred, _ := manager(t, project, roles...)
		require.NoError(t, m.Check(t.Context(), cred), "%s", roles)
	}
	require.Zero(t, everything(t, project))
}

func TestTheOperatorListsNothing(t *testing.T) {
	t.Parallel()
	m := &barbican.Manager{Clients: logins{}}
	_, err := m.List(t.Context(), compute.Credential{}, key.ListInput{})
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
}

// A dead token is no reason to try again.
func TestADeadToken(t *testing.T) {
	t.Parallel()
	m, cred, client := manager(t, cloudtest.NewProject(t))
	client.ReauthFunc = nil
	client.SetToken("no-such-canary-token")
	_, err := m.Create(t.Context(), input(cred))
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.NotContains(t, err.Error(), "canary")
	err = m.Check(t.Context(), cred)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
}

// A secret that its owner shares by an access list is copied by whom it is shared
// with, into a project of his own (EE-15); and not after that has ended.
func TestCopyThroughAnAccessList(t *testing.T) {
	t.Parallel()
	m, owner, client := manager(t, cloudtest.NewProject(t))
	in := input(owner)
	id, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Delete(context.Background(), key.DeleteInput{Credential: owner, Name: in.Name}) })
	guests, guest, _ := manager(t, cloudtest.NewProject(t))
	ask := key.CopyInput{Credential: guest, Name: "copy of " + in.Name, From: id, FromCredential: guest}
	_, err = guests.Copy(t.Context(), ask)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)

	_, err = acls.SetSecretACL(t.Context(), client, id.String(), acls.SetOpts{{Type: "read", Users: &[]string{guest.UserID}}}).Extract()
	require.NoError(t, err)
	require.NoError(t, (&key.Activities{Manager: guests}).Check(t.Context(), key.CheckInput{Credential: guest, Secret: id}))
	copied, err := guests.Copy(t.Context(), ask)
	require.NoError(t, err)
	t.Cleanup(func() { _ = guests.Delete(context.Background(), key.DeleteInput{Credential: guest, Name: ask.Name}) })
	require.NoError(t, acls.DeleteSecretACL(t.Context(), client, id.String()).ExtractErr())
	_, err = guests.Passphrase(t.Context(), guest, id)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)

	theirs, err := m.Passphrase(t.Context(), owner, id)
	require.NoError(t, err)
	defer theirs.Wipe()
	ours, err := guests.Passphrase(t.Context(), guest, copied)
	require.NoError(t, err)
	defer ours.Wipe()
	require.NoError(t, ask.CheckCopy(copied, theirs, ours))
}

// A user may name any secret of his: what is no text is refused before a disk
// depends on it (EE-18).
func TestCheckRefusesWhatIsNoPassphrase(t *testing.T) {
	t.Parallel()
	m, cred, client := manager(t, cloudtest.NewProject(t))
	s, err := secrets.Create(t.Context(), client, secrets.CreateOpts{
		Name: "bytes", Payload: "//79/A==", PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64",
	}).Extract()
	require.NoError(t, err)
	id := s.SecretRef[len(s.SecretRef)-36:]
	t.Cleanup(func() { secrets.Delete(context.Background(), client, id) })
	err = (&key.Activities{Manager: m}).Check(t.Context(), key.CheckInput{Credential: cred, Secret: compute.SecretID{UUID: uuid.MustParse(id)}})
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
}

// EE-48: a key that Nova had Barbican make is bytes. It opens disks in hex, as Nova handed it
// to cryptsetup, and is deleted by its id with the server whose it is.
func TestEE48SymmetricKeyIsGivenInHex(t *testing.T) {
	t.Parallel()
	m, cred, client := manager(t, cloudtest.NewProject(t))
	raw := []byte{0x00, 0xff, 0xfe, 0xc0, 0xff, 0xee, 0x10, 0x80}
	s, err := secrets.Create(t.Context(), client, secrets.CreateOpts{
		SecretType: secrets.SymmetricSecret, Algorithm: "aes", BitLength: 64,
		Payload: base64.StdEncoding.EncodeToString(raw), PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64",
	}).Extract()
	require.NoError(t, err)
	id := compute.SecretID{UUID: uuid.MustParse(s.SecretRef[len(s.SecretRef)-36:])}
	p, err := m.Passphrase(t.Context(), cred, id)
	require.NoError(t, err)
	defer p.Wipe()
	require.NoError(t, p.Use(func(value []byte) error {
		require.Equal(t, "00fffec0ffee1080", string(value))
		return nil
	}))
	op := compute.Operation{ID: compute.NewOperationID(), ServerID: compute.ServerID{UUID: uuid.New()}}
	row := op.LegacyKey(compute.Server{ID: op.ServerID, ProjectID: cred.ProjectID, UserID: cred.UserID}, id)
	for range 2 {
		require.NoError(t, (&key.Activities{Manager: m}).Remove(t.Context(), compute.Removal{Thing: row, Credentials: row.Removers(cred)}))
	}
	_, err = m.Passphrase(t.Context(), cred, id)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
}
