package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/activities/share/local"
	"strongroom/activities/share/sharetest"
	"strongroom/compute"
)

var (
	owner = compute.Credential{ProjectID: "11111111111111111111111111111111", UserID: "u1"}
	other = compute.Credential{ProjectID: "22222222222222222222222222222222", UserID: "u2"}
)

func open(t testing.TB, dir string) *local.Service {
	t.Helper()
	s, err := local.Open(dir)
	require.NoError(t, err)
	return s
}

func create(t testing.TB, s *local.Service) share.Share {
	t.Helper()
	made, err := s.Create(t.Context(), owner, "documents", 1)
	require.NoError(t, err)
	return made
}

func TestConformance(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shares")
	s := open(t, dir)
	sharetest.Run(t, sharetest.Harness{
		Service: s, Again: open(t, dir), Owner: owner, Other: other,
		Make:   func(t testing.TB) share.Share { return create(t, s) },
		Remove: func(t testing.TB, id share.ID) { require.NoError(t, s.Delete(t.Context(), owner, id)) },
	})
}

func TestTheLocationIsAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	made := create(t, s)
	locations, err := s.Locations(t.Context(), owner, made.ID)
	require.NoError(t, err)
	require.Len(t, locations, 1)
	file := filepath.Join(locations[0].Path(), "letter")
	require.NoError(t, os.WriteFile(file, []byte("dear"), 0o644))

	again := open(t, dir) // a restart keeps it
	got, err := again.Get(t.Context(), owner, made.ID)
	require.NoError(t, err)
	require.Equal(t, made, got)
	require.FileExists(t, file)
	require.NoError(t, again.Delete(t.Context(), owner, made.ID))
	require.NoFileExists(t, file)
	require.Equal(t, compute.NotFound, compute.KindOf(again.Delete(t.Context(), owner, made.ID)))
}

// A share that a server uses is not deleted (SH-09), and only its owner deletes it.
func TestAShareInUseIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	made := create(t, s)
	in := share.AllowInput{
		Credential: owner, Share: made.ID, Server: compute.ServerID{UUID: uuid.New()},
		To: share.Grantee{Kind: share.Address, Name: "192.0.2.1"}, Level: share.ReadWrite,
	}
	_, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, compute.Conflict, compute.KindOf(s.Delete(t.Context(), owner, made.ID)))
	require.Equal(t, compute.NotFound, compute.KindOf(s.Delete(t.Context(), other, made.ID)))
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: owner, Share: made.ID, Server: in.Server}))
	require.NoError(t, s.Delete(t.Context(), owner, made.ID))
}

// A Create or Delete that died half way leaves nothing that counts.
func TestTheNextOpenClearsWhatDied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	half := share.ID{UUID: uuid.New()}
	data := filepath.Join(dir, half.String(), "data", "deep")
	require.NoError(t, os.MkdirAll(data, 0o700))
	s := open(t, dir)
	require.NoDirExists(t, filepath.Join(dir, half.String()))
	_, err := s.Get(t.Context(), owner, half)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
}

func TestADamagedRuleIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	made := create(t, s)
	rule := uuid.NewString() + ".rule"
	require.NoError(t, os.WriteFile(filepath.Join(dir, made.ID.String(), rule), []byte("{"), 0o600))
	_, err := s.List(t.Context(), owner)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.ErrorContains(t, err, rule)
	require.NotContains(t, err.Error(), dir)
}
