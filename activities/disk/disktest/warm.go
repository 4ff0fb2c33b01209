// Package disktest spares tests what a host does once in its life.
package disktest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Warm gives a host its blank template, which is made once for all tests of a package:
// it takes two seconds of a CPU.
func Warm(t testing.TB, a *disk.Activities) {
	t.Helper()
	template, err := blank()
	require.NoError(t, err)
	file := filepath.Join(a.CacheDir, disk.BlankTemplate)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, template, 0o600))
}

// blank is the template of a host that has made one encrypted disk.
var blank = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sr-blank-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	a, err := disk.New(disk.Config{
		InstancesDir: filepath.Join(dir, "instances"), CacheDir: filepath.Join(dir, "cache"), Keys: anyKey{},
		Owner: &disk.Owner{UID: os.Getuid(), GID: os.Getgid()},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, err = a.Create(ctx, disk.CreateInput{Server: compute.ServerID{UUID: uuid.New()}, Disk: compute.Disk{
		ID: compute.DiskID{UUID: uuid.New()}, Role: compute.SwapDisk, SizeMB: 1,
		Encrypted: true, Format: compute.FormatLUKS, Secret: &compute.SecretID{UUID: uuid.New()},
	}})
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(a.CacheDir, disk.BlankTemplate))
})

type anyKey struct{}

func (anyKey) Passphrase(context.Context, compute.Credential, compute.SecretID) (*secret.Passphrase, error) {
	return secret.Generate(compute.DiskPassphraseBytes)
}
