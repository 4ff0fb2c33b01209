package tpm

import (
	"context"
	"errors"
	"io/fs"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/compute"
	"strongroom/durable"
)

// The activities of two hosts that may have the states of vTPMs on one storage (TPM-39).
var (
	Show = durable.HostActivity[ShowInput, durable.None]{Name: "tpm.Show",
		Summary: func(in ShowInput) string {
			return "note the operation beside the TPM state of server " + in.Server.String()
		}}
	Shown = durable.HostActivity[ShowInput, ShownResult]{Name: "tpm.Shown",
		Summary: func(in ShowInput) string { return "look for the TPM state of server " + in.Server.String() }}
)

// ShowInput names an operation on a server.
type ShowInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation,omitempty"` // of Shown, "": any state will do
	// Version asks whether there is a state of such a vTPM, by which a guest that is off could start.
	Version compute.TPMVersion `json:"version,omitempty"`
}

// ShownResult says what a host sees.
type ShownResult struct {
	Shown bool `json:"shown"`
	// Damaged, of a version: there is one, and it is empty, or not as long as swtpm wrote it.
	Damaged bool `json:"damaged,omitempty"`
}

// shownName is the file in a state folder that names the operation that Show was for.
const shownName = ".strongroom-shown"

// isOurs reports whether a file in a state folder is this package's, and none of swtpm's.
func isOurs(name string) bool { return name == markName || name == shownName }

// Storage gives the id of the storage that the states are on, and makes one where there is none.
// Of several hosts that make one at once all get the same.
func (a *Activities) Storage() (uuid.UUID, error) {
	id, err := folder.Storage(a.SwtpmDir)
	if errors.Is(err, folder.ErrStorage) {
		err = compute.Errorf(compute.Corrupt, "%w", err)
	}
	if err == nil {
		a.storage.CompareAndSwap(nil, &id)
	}
	return id, err
}

// isMounted fails with Conflict where SwtpmDir is not on the storage that it was on at first: without its file system the folder is there, and empty.
func (a *Activities) isMounted(server compute.ServerID) error {
	was := a.storage.Load()
	if was == nil {
		return nil
	}
	if is, err := folder.StorageOf(a.SwtpmDir); err != nil || is != *was {
		return compute.Errorf(compute.Conflict, "server %s: the folder of TPM states is not on the storage that it was on when this worker started: mount that, or start the worker again", server)
	}
	return nil
}

// Show is the activity tpm.Show: it notes the operation beside the state of a server, whose guest
// may run. Corrupt: there is no state, or none by which the guest could start.
func (a *Activities) Show(ctx context.Context, in ShowInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	if in.Version != "" {
		if err := lost(in.Server, checkState(a.dir(in.Server), in.Version, onlyLook)); err != nil {
			return err
		}
	}
	err = folder.ReplaceIn(a.dir(in.Server), shownName, []byte(in.Operation), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return compute.Errorf(compute.Corrupt, "server %s: its TPM state is not on this host", in.Server)
	}
	if err != nil {
		return failed(in.Server, err)
	}
	return nil
}

// Shown is the activity tpm.Shown: whether this host sees the state beside which an operation was
// noted, or any, or one of a version. It opens the file: a client of NFS asks its server then, whatever it remembers. Corrupt: what is there is more than files.
// Conflict: the folder is not on the storage that it was on.
func (a *Activities) Shown(ctx context.Context, in ShowInput) (ShownResult, error) {
	if in.Server == (compute.ServerID{}) {
		return ShownResult{}, compute.Errorf(compute.Invalid, "TPM state of no server")
	}
	if in.Version != "" {
		unlock, err := a.lock(ctx, in.Server)
		if err != nil {
			return ShownResult{}, err
		}
		defer unlock()
		if err := a.isMounted(in.Server); err != nil {
			return ShownResult{}, err
		}
		err = checkState(a.dir(in.Server), in.Version, onlyLook)
		got, failure := seen(in.Server, err == nil, err)
		got.Damaged = errors.Is(err, errEmpty) || errors.Is(err, errDamaged)
		return got, failure
	}
	if in.Operation == "" {
		_, err := pack(a.dir(in.Server))
		return seen(in.Server, err == nil, err)
	}
	text, err := folder.ReadIn(a.dir(in.Server), shownName)
	return seen(in.Server, err == nil && string(text) == string(in.Operation), err)
}

func seen(server compute.ServerID, shown bool, err error) (ShownResult, error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEmpty) && !errors.Is(err, errDamaged) {
		return ShownResult{}, failed(server, err)
	}
	return ShownResult{Shown: shown}, nil
}
