package tpm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities of a server whose vTPM changes on its host, and may be brought back.
var (
	Keep = durable.HostActivity[KeepInput, durable.None]{Name: "tpm.Keep",
		Summary: func(in KeepInput) string { return "keep a copy of the TPM state of server " + in.Server.String() }}
	PutBack = durable.HostActivity[PutBackInput, durable.None]{Name: "tpm.PutBack",
		Summary: func(in PutBackInput) string {
			if in.Kept == "" {
				return "empty the TPM state of server " + in.Server.String()
			}
			return "bring back the TPM state of server " + in.Server.String()
		}}
)

// KeepInput asks for a copy of the state of a server that is off, beside it.
type KeepInput struct {
	Server compute.ServerID `json:"server"`
	Kept   string           `json:"kept"` // the copy's name: compute.KeptTPM
	// New says that the first boot of the server's vTPM is to come, or that its state is lost: where there is none, the copy says that.
	New bool `json:"new,omitempty"`
}

// PutBackInput asks that the state of a server that is off is what a copy has.
type PutBackInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"`
	Kept      string              `json:"kept,omitempty"` // the copy's name; "": there is no state, and the next boot makes a new one
}

// Keep is the activity tpm.Keep: it ensures that there is the copy, bit for bit, with owners and
// modes. Corrupt: there is no state, and it is not to come.
func (a *Activities) Keep(ctx context.Context, in KeepInput) error {
	kept, err := a.kept(in.Server, in.Kept)
	if err != nil {
		return err
	}
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return failed(in.Server, err)
		}
		return nil // it got its name when it was whole
	}
	data, err := pack(a.dir(in.Server))
	is := readMark(a.dir(in.Server))
	switch is.None = false; {
	case in.New && errors.Is(err, fs.ErrNotExist):
		data, err, is.None = nil, nil, true
	case in.New && errors.Is(err, errEmpty): // what else is there, as a folder that somebody moved away, is kept all the same
		err, is.None = nil, true
	case errors.Is(err, fs.ErrNotExist):
		return compute.Errorf(compute.Corrupt, "server %s: its TPM state is not on this host", in.Server)
	}
	if err == nil {
		err = a.lay(ctx, in.Server, data, is, kept)
	}
	if err != nil {
		return failed(in.Server, err)
	}
	return nil
}

// PutBack is the activity tpm.PutBack. What it put there once is left alone, since the guest may
// have started since. Corrupt: there is no such copy.
func (a *Activities) PutBack(ctx context.Context, in PutBackInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	dir := a.dir(in.Server)
	want := readMark(dir)
	done := in.Kept + " " + string(in.Operation)
	if want.PutBack == done {
		return nil
	}
	want.PutBack = done
	var data []byte
	if in.Kept != "" {
		kept, err := a.kept(in.Server, in.Kept)
		if err != nil {
			return err
		}
		data, err = packCopy(kept)
		if errors.Is(err, fs.ErrNotExist) {
			return compute.Errorf(compute.Corrupt, "server %s: the copy of its TPM state is not on this host", in.Server)
		}
		if err != nil {
			return failed(in.Server, err)
		}
		want.Operation, want.SHA256 = readMark(kept).Operation, readMark(kept).SHA256
	}
	if err := a.lay(ctx, in.Server, data, want, dir); err != nil {
		return failed(in.Server, err)
	}
	return nil
}

// packCopy is pack for a copy, which may say that there was no state.
func packCopy(kept string) ([]byte, error) {
	data, err := pack(kept)
	if errors.Is(err, errEmpty) && readMark(kept).None {
		return data, nil
	}
	return data, err
}

// lay makes a state folder of a tar, or one without state, in the place of what is there. The
// folder has its name once it is whole.
func (a *Activities) lay(ctx context.Context, server compute.ServerID, data []byte, m mark, dir string) error {
	return a.fill(ctx, server, data, m, dir, func(string) error { return nil })
}

// fill is lay of a folder to which add adds.
func (a *Activities) fill(ctx context.Context, server compute.ServerID, data []byte, m mark, dir string, add func(draft string) error) error {
	draft := a.draft(server)
	defer os.RemoveAll(draft)
	err := os.RemoveAll(draft)
	if err == nil {
		err = a.Owner.unpack(data, draft)
	}
	if err == nil {
		err = add(draft)
	}
	if err == nil && m != (mark{}) {
		err = m.write(draft)
	}
	if err == nil {
		err = syncDir(draft)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = exchange(draft, dir)
	}
	if err == nil {
		err = syncDir(a.SwtpmDir)
	}
	return err
}

// exchange gives a folder the name of another one, which is there all the time.
func exchange(draft, dir string) error {
	err := unix.Renameat2(unix.AT_FDCWD, draft, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Rename(draft, dir)
	}
	return err
}

// giveUp removes a copy. While it is not decided that the state is to be another one, it is put
// back first, also where libvirt removed what it could not set up. Unavailable: the guest runs
// on the state that is there.
func (a *Activities) giveUp(ctx context.Context, server compute.ServerID, t compute.Thing) error {
	kept, err := a.kept(server, t.Name)
	if err != nil {
		return err
	}
	if t.Reference == compute.KeptUndecided {
		if err := a.putBack(ctx, server, kept); err != nil {
			return err
		}
	}
	// Half of it must not be put back by another attempt.
	gone := a.draft(server)
	err = os.RemoveAll(gone)
	if err == nil {
		err = os.Rename(kept, gone)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return failed(server, err)
	}
	return nil
}

// putBack makes the state what a copy has, if there is still a copy.
func (a *Activities) putBack(ctx context.Context, server compute.ServerID, kept string) error {
	data, err := packCopy(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(server, err)
	}
	if a.Guests != nil {
		if err := a.Guests.IsOff(ctx, server); err != nil {
			return compute.Errorf(compute.Unavailable, "the state of its TPM is put back when its guest is off: %w", err)
		}
	}
	if err := a.lay(ctx, server, data, readMark(kept), a.dir(server)); err != nil {
		return failed(server, err)
	}
	return nil
}

// kept is the path of a copy.
func (a *Activities) kept(server compute.ServerID, name string) (string, error) {
	if of, ok := keptOf(name); !ok || of != server {
		return "", compute.Errorf(compute.Invalid, "%q is no copy of the TPM state of server %s", name, server)
	}
	return filepath.Join(a.SwtpmDir, name), nil
}
