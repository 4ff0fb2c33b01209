package tpm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
)

// DefaultSwtpmDir is where a distribution's libvirt keeps the guests' TPM state:
// a folder per domain, named by its uuid, which is the server's.
const DefaultSwtpmDir = "/var/lib/libvirt/swtpm"

// Config of a host's TPM states.
type Config struct {
	SwtpmDir string // default DefaultSwtpmDir
	User     string // that swtpm runs as (TPM-02); default DefaultUser
	Group    string // default DefaultGroup
	Objects  Objects
	Hosts    Transfers
	Endorser Endorser // nil: libvirt makes the states of new vTPMs
}

// Guests knows which guests run.
type Guests interface {
	// IsOff fails with Conflict while a server's guest runs, or is paused.
	IsOff(ctx context.Context, id compute.ServerID) error
}

// The user and the group that a distribution's swtpm runs as.
const (
	DefaultUser  = "tss"
	DefaultGroup = "tss"
)

// Owner is whose the state is.
type Owner struct{ UID, GID int }

// Activities are what workflows call of a host's TPM state.
type Activities struct {
	SwtpmDir string
	Owner    Owner
	Objects  Objects
	Hosts    Transfers
	Endorser Endorser
	Guests   Guests // nil: none runs here

	storage atomic.Pointer[uuid.UUID] // that of SwtpmDir when it was first asked for
}

// New checks where the state is, and whose. The folder itself may not be there yet:
// libvirt makes it with the first TPM.
func New(cfg Config) (*Activities, error) {
	a := &Activities{SwtpmDir: cmp.Or(cfg.SwtpmDir, DefaultSwtpmDir), Objects: cfg.Objects, Hosts: cfg.Hosts, Endorser: cfg.Endorser}
	if !filepath.IsAbs(a.SwtpmDir) {
		return nil, fmt.Errorf("tpm: folder %q is not an absolute path", a.SwtpmDir)
	}
	u, err := user.Lookup(cmp.Or(cfg.User, DefaultUser))
	if err != nil {
		return nil, fmt.Errorf("tpm: the user that swtpm runs as: %w", err)
	}
	g, err := user.LookupGroup(cmp.Or(cfg.Group, DefaultGroup))
	if err != nil {
		return nil, fmt.Errorf("tpm: the group that swtpm runs as: %w", err)
	}
	if a.Owner.UID, err = strconv.Atoi(u.Uid); err == nil {
		a.Owner.GID, err = strconv.Atoi(g.Gid)
	}
	return a, err
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Save.Register(r, a.Save)
	Restore.Register(r, durable.NoResult(a.Restore))
	Keep.Register(r, durable.NoResult(a.Keep))
	PutBack.Register(r, durable.NoResult(a.PutBack))
	Receive.Register(r, durable.NoResult(a.Receive))
	Show.Register(r, durable.NoResult(a.Show))
	Shown.Register(r, a.Shown)
	Remove.Register(r, durable.NoResult(a.Remove))
	Digest.Register(r, a.Digest)
	BackUp.Register(r, a.BackUp)
	Seen.Register(r, a.Seen)
}

// Remove is the activity tpm.Remove (TPM-31). State that is not there is a success. State
// of an operation that began after the removal was asked for is left alone. Whose the row is
// does not matter: one that was restored names another operation than the state.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingTPMState {
		return in.Misdirected()
	}
	id, kept, ok := parseName(in.Thing.Name)
	if !ok {
		return compute.Errorf(compute.Invalid, "%q is no server that could have TPM state", in.Thing.Name)
	}
	if _, err := os.Stat(a.SwtpmDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := a.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if kept {
		return a.giveUp(ctx, id, in.Thing)
	}
	if in.Precedes(readMark(a.dir(id)).Began) {
		return nil
	}
	// A uuid is a name in this folder and nowhere else.
	for _, path := range []string{a.dir(id), a.draft(id)} {
		if err := os.RemoveAll(path); err != nil {
			return failed(id, err)
		}
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
		if _, _, ok := parseName(e.Name()); ok && e.IsDir() {
			states = append(states, compute.Seen{Kind: compute.ThingTPMState, Name: e.Name()})
		}
	}
	return in.PageOf(states), nil
}

// parseName reads the name of a state folder, or of a copy of one that is kept beside it.
func parseName(name string) (server compute.ServerID, kept, ok bool) {
	folder, suffix, kept := strings.Cut(name, ".")
	id, err := uuid.Parse(folder)
	ok = err == nil && id != uuid.Nil && (!kept || keptSuffix.MatchString(suffix))
	return compute.ServerID{UUID: id}, kept, ok
}

var keptSuffix = regexp.MustCompile(`^[0-9a-f]{8}$`)

// keptOf gives the server of a copy of a TPM state.
func keptOf(name string) (server compute.ServerID, ok bool) {
	server, kept, ok := parseName(name)
	return server, kept && ok
}
