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
}

// ShownResult says what a host sees.
type ShownResult struct {
	Shown bool `json:"shown"`
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
	return id, err
}

// Show is the activity tpm.Show: it notes the operation beside the state of a server, whose guest
// may run. Corrupt: there is no state.
func (a *Activities) Show(ctx context.Context, in ShowInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
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
// noted. It opens the file: a client of NFS asks its server then, whatever it remembers.
func (a *Activities) Shown(_ context.Context, in ShowInput) (ShownResult, error) {
	if in.Server == (compute.ServerID{}) {
		return ShownResult{}, compute.Errorf(compute.Invalid, "TPM state of no server")
	}
	if in.Operation == "" {
		_, err := pack(a.dir(in.Server))
		return seen(in.Server, err == nil, err)
	}
	text, err := folder.ReadIn(a.dir(in.Server), shownName)
	return seen(in.Server, err == nil && string(text) == string(in.Operation), err)
}

func seen(server compute.ServerID, shown bool, err error) (ShownResult, error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEmpty) {
		return ShownResult{}, failed(server, err)
	}
	return ShownResult{Shown: shown}, nil
}
