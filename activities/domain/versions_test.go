package domain_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/dev/libvirtd/libvirttest"
)

// TPM-34: a host whose QEMU is older than vTPMs need offers none and says why; so does one whose QEMU is
// older than shares need (SH-36).
func TestAnOlderQEMUOffersNoTPM(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	for version, want := range map[uint64][2]string{
		2_010_002: {"QEMU is 2.10.2, vTPMs need 2.11.0", "QEMU is 2.10.2, shares need 5.0.0"},
		4_002_000: {"", "QEMU is 4.2.0, shares need 5.0.0"},
		5_000_000: {"", ""},
	} {
		cfg := h.Config
		cfg.Shares, cfg.Client = folder("/shares"), &domain.Client{Socket: filepath.Join(newDir(t), "sock")}
		libvirttest.Listen(t, cfg.Client.Socket, h.daemon.Socket()).ClaimQEMU(version)
		a, err := domain.New(cfg)
		require.NoError(t, err)
		got, err := a.Describe(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, int(version), got.HypervisorVersion)
		require.Equal(t, want, [2]string{got.NoTPM, got.NoShares})
		require.Equal(t, want[0] == "", slices.Contains(got.Traits, compute.TraitTPM20))
		require.Equal(t, want[1] == "", slices.Contains(got.Traits, compute.TraitVirtioFS))
	}
}

// TPM-34: a host whose libvirt is older than vTPMs need offers none and says why. It still
// undefines domains, without the flag that its libvirt does not know.
func TestAnOlderLibvirtOffersNoTPM(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	for version, c := range map[uint64]struct {
		why  string
		keep libvirt.DomainUndefineFlagsValues
	}{
		8_008_000: {"libvirt is 8.8.0, vTPMs need 8.9.0", 0},
		8_009_000: {"", libvirt.DomainUndefineKeepTpm},
	} {
		cfg := h.Config
		cfg.Client = &domain.Client{Socket: filepath.Join(newDir(t), "sock")}
		older := libvirttest.Listen(t, cfg.Client.Socket, h.daemon.Socket())
		older.Claim(version)
		a, err := domain.New(cfg)
		require.NoError(t, err)
		got, err := a.Describe(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, c.why, got.NoTPM)
		require.Contains(t, got.Traits, compute.TraitEncryptionLUKS)
		if c.why == "" {
			require.Contains(t, got.Traits, compute.TraitTPM20)
		} else {
			require.NotContains(t, got.Traits, compute.TraitTPM20)
		}

		s := h.server(t, false, nil)
		h.disksOf(t, s)
		_, err = a.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		require.NoError(t, a.Remove(t.Context(), ofDomain(s.ID)))
		require.NotEmpty(t, older.Undefined())
		for _, f := range older.Undefined() {
			require.Equal(t, c.keep, f&libvirt.DomainUndefineKeepTpm)
		}
	}
}

// countedKeys counts what is read of the key manager.
type countedKeys struct {
	domain.KeySource
	reads atomic.Int64
}

func (k *countedKeys) Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	k.reads.Add(1)
	return k.KeySource.Passphrase(ctx, cred, id)
}

// TPM-41: what a vTPM adds to a start, the first and each later one, is one read of the key
// manager and the calls of libvirt that give it the secret and take it back.
func TestCallsThatAVTPMAddsToAStart(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	keys := &countedKeys{KeySource: h.keys}
	cfg := h.Config
	cfg.Client, cfg.Keys = &domain.Client{Socket: filepath.Join(newDir(t), "sock")}, keys
	through := libvirttest.Listen(t, cfg.Client.Socket, h.daemon.Socket())
	a, err := domain.New(cfg)
	require.NoError(t, err)
	for _, c := range []struct {
		tpm   *compute.TPM
		calls []int
		reads int64
	}{
		{nil, []int{0, 0, 0, 0, 0, 2}, 0},
		{&compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB}, []int{1, 1, 1, 1, 1, 2}, 1},
	} {
		s := h.server(t, false, c.tpm)
		h.disksOf(t, s)
		for _, start := range []string{"first", "second"} {
			through.Taken()
			keys.reads.Store(0)
			_, err := a.Start(t.Context(), domain.StartInput{Server: s, NewTPM: start == "first"})
			require.NoError(t, err)
			require.Equal(t, c.calls, through.TakenOfSecrets(), "%s start, TPM %v", start, c.tpm)
			require.Equal(t, c.reads, keys.reads.Load())
			_, err = a.Stop(t.Context(), domain.StopInput{Server: s.ID})
			require.NoError(t, err)
		}
		require.NoError(t, a.Remove(t.Context(), ofDomain(s.ID)))
	}
}

// folder is where a test's shares are.
type folder string

func (f folder) Path(id compute.ShareID) string { return filepath.Join(string(f), id.String()) }

func (folder) Mounted(context.Context, compute.ShareID) (bool, error) { return true, nil }

// SH-36, SH-28: a host whose libvirt is older than shares need offers none and says why; so does one
// that mounts none.
func TestSH36WhereAHostOffersShares(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	describe := func(version uint64, shares domain.Shares) domain.Description {
		cfg := h.Config
		cfg.Shares, cfg.Client = shares, &domain.Client{Socket: filepath.Join(newDir(t), "sock")}
		libvirttest.Listen(t, cfg.Client.Socket, h.daemon.Socket()).Claim(version)
		a, err := domain.New(cfg)
		require.NoError(t, err)
		got, err := a.Describe(t.Context(), false)
		require.NoError(t, err)
		return got
	}
	for _, tc := range []struct {
		version uint64
		shares  domain.Shares
		why     string
	}{
		{9_000_000, folder("/shares"), ""},
		{6_001_000, folder("/shares"), "libvirt is 6.1.0, shares need 6.2.0"},
		{9_000_000, nil, "host.shares is empty"},
	} {
		got := describe(tc.version, tc.shares)
		require.Equal(t, tc.why, got.NoShares)
		for _, trait := range []string{compute.TraitVirtioFS, compute.TraitMemoryFile} {
			require.Equal(t, tc.why == "", slices.Contains(got.Traits, trait), trait)
		}
	}
}

// The process at libvirt's socket is found: mounts are made where it sees them.
func TestTheDaemonIsFound(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	pid, err := h.Client.Daemon(t.Context())
	require.NoError(t, err)
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	require.NoError(t, err)
	require.Equal(t, "libvirtd\n", string(name))
}
