package tpm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
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

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Remove is the activity tpm.Remove (TPM-31). State that is not there is a success.
func (a *Activities) Remove(_ context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingTPMState {
		return in.Misdirected()
	}
	server, err := uuid.Parse(in.Thing.Name)
	if err != nil || server == uuid.Nil {
		return compute.Errorf(compute.Invalid, "%q is no server that could have TPM state", in.Thing.Name)
	}
	// A uuid is a name in this folder and nowhere else.
	if err := os.RemoveAll(filepath.Join(a.SwtpmDir, server.String())); err != nil {
		return compute.Errorf(compute.Unavailable, "server %s: its TPM state: %w", server, err)
	}
	return nil
}

// Seen is the activity tpm.Seen.
func (a *Activities) Seen(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	entries, err := os.ReadDir(a.SwtpmDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return compute.SeenResult{}, compute.Errorf(compute.Unavailable, "folder of the TPM states: %w", err)
	}
	var states []compute.Seen
	for _, e := range entries {
		if _, err := uuid.Parse(e.Name()); err == nil && e.IsDir() {
			states = append(states, compute.Seen{Kind: compute.ThingTPMState, Name: e.Name()})
		}
	}
	return in.PageOf(states), nil
}
