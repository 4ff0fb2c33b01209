package tpm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"strongroom/compute"
)

// DefaultSwtpmDir is where a distribution's libvirt keeps the guests' TPM state:
// a folder per domain, named by its uuid, which is the server's.
const DefaultSwtpmDir = "/var/lib/libvirt/swtpm"

// Activities are what workflows call of a host's TPM state.
type Activities struct {
	SwtpmDir string // default DefaultSwtpmDir
}

// New checks where the state is. The folder itself may not be there yet:
// libvirt makes it with the first TPM.
func New(dir string) (*Activities, error) {
	if dir == "" {
		dir = DefaultSwtpmDir
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("tpm: folder %q is not an absolute path", dir)
	}
	return &Activities{SwtpmDir: dir}, nil
}

// Register registers the activities under their names.
func (a *Activities) Register(r worker.Registry) {
	r.RegisterActivityWithOptions(a.Delete, activity.RegisterOptions{Name: Delete})
	r.RegisterActivityWithOptions(a.Inventory, activity.RegisterOptions{Name: Inventory})
}

// Delete is the activity tpm.Delete (TPM-31). State that is not there is a success.
func (a *Activities) Delete(_ context.Context, in DeleteInput) error {
	if in.Server.UUID == uuid.Nil {
		return compute.Errorf(compute.Invalid, "TPM state of no server")
	}
	// A uuid is a name in this folder and nowhere else.
	if err := os.RemoveAll(filepath.Join(a.SwtpmDir, in.Server.String())); err != nil {
		return compute.Errorf(compute.Unavailable, "server %s: its TPM state: %w", in.Server, err)
	}
	return nil
}

// Inventory is the activity tpm.Inventory.
func (a *Activities) Inventory(_ context.Context) (InventoryResult, error) {
	entries, err := os.ReadDir(a.SwtpmDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return InventoryResult{}, compute.Errorf(compute.Unavailable, "folder of the TPM states: %w", err)
	}
	var servers []string
	for _, e := range entries {
		if _, err := uuid.Parse(e.Name()); err == nil && e.IsDir() {
			servers = append(servers, e.Name())
		}
	}
	slices.Sort(servers)
	return InventoryResult{Servers: servers}, nil
}
