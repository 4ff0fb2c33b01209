package tpm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"strongroom/activities/folder"
	"strongroom/compute"
)

// Objects is what the activities need of an object store.
type Objects interface {
	// Put ensures that the object has the data; Conflict: it has other data.
	Put(ctx context.Context, cred compute.Credential, name string, size int64, data io.ReaderAt) error
	// Open streams the object. NotFound: there is none, or it is not whole; the last Read
	// gives Corrupt where it is not what was stored.
	Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error)
}

// Save is the activity tpm.Save: it ensures that the object has the state folder of a
// server that is off, as a tar (TPM-21). Corrupt: there is no state, or it is none of
// swtpm's; otherwise as the object store says.
func (a *Activities) Save(ctx context.Context, in SaveInput) (SaveResult, error) {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return SaveResult{}, err
	}
	defer unlock()
	data, err := a.packed(in.Server, packWhole)
	if err != nil {
		return SaveResult{}, err
	}
	if err := a.Objects.Put(ctx, in.Credential, in.Object, int64(len(data)), bytes.NewReader(data)); err != nil {
		return SaveResult{}, err
	}
	return SaveResult{SizeBytes: int64(len(data)), SHA256: digest(data)}, nil
}

// packed gives a server's state folder as the tar that a packer makes of it. Corrupt: there is
// none, or it is none of swtpm's.
func (a *Activities) packed(server compute.ServerID, packer func(dir string) ([]byte, error)) ([]byte, error) {
	data, err := packer(a.dir(server))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, compute.Errorf(compute.Corrupt, "server %s: its TPM state is not on this host", server)
	case err != nil:
		return nil, failed(server, err)
	}
	return data, nil
}

// markName is the file in a state folder that says which operation laid it down. swtpm does
// not know it.
const markName = ".strongroom"

type mark struct {
	Operation compute.OperationID `json:"operation"`
	SHA256    string              `json:"sha256,omitempty"`   // of what was laid down; "": it is a new one
	Began     time.Time           `json:"began,omitzero"`     // when the operation did
	PutBack   string              `json:"put_back,omitempty"` // what PutBack did last
	None      bool                `json:"none,omitempty"`     // of a copy: there was no state
}

// Restore is the activity tpm.Restore: it ensures that the server's state folder is what
// the object has, with swtpm's owner (TPM-02, TPM-25). What is there of another operation
// makes room; what this operation laid down is left alone, since the guest may have started
// since. Corrupt: the object is not what was stored; NotFound: it is not there.
func (a *Activities) Restore(ctx context.Context, in RestoreInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	want := mark{Operation: in.Operation, SHA256: in.Stored.SHA256, Began: in.Began}
	if has := readMark(a.dir(in.Server)); has.Operation == want.Operation && has.SHA256 == want.SHA256 {
		return nil
	}
	data, err := a.fetch(ctx, in)
	if err != nil {
		return err
	}
	return a.layDown(ctx, in.Server, data, want)
}

// layDown makes the state folder of a tar, under the server's lock. What is there makes room.
func (a *Activities) layDown(ctx context.Context, server compute.ServerID, data []byte, by mark) error {
	if err := a.lay(ctx, server, data, by, a.dir(server)); err != nil {
		return failed(server, err)
	}
	return nil
}

// NoteNew notes which operation is about to make a server's state folder, and when that
// began: it is not what an earlier one left to be removed.
func (a *Activities) NoteNew(ctx context.Context, server compute.ServerID, op compute.OperationID, began time.Time) error {
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	err = os.Mkdir(a.dir(server), 0o711) // as libvirt makes it
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = mark{Operation: op, Began: began, PutBack: readMark(a.dir(server)).PutBack}.write(a.dir(server))
	}
	if err != nil {
		return failed(server, err)
	}
	return nil
}

// fetch reads the object and compares it with what the server's record says.
func (a *Activities) fetch(ctx context.Context, in RestoreInput) ([]byte, error) {
	name := in.Stored.Object
	from, err := a.Objects.Open(ctx, in.Credential, name)
	if compute.Is(err, compute.NotFound) {
		return nil, compute.Errorf(compute.NotFound, "object %s, which keeps the state of the server's TPM, is not there", name)
	}
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxState+1))
	switch {
	case compute.KindOf(err) != "":
		return nil, err
	case err != nil:
		return nil, compute.Errorf(compute.Unavailable, "object %s broke off: %w", name, err)
	case len(data) > maxState:
		return nil, compute.Errorf(compute.Corrupt, "object %s is not the state of a TPM: it has more than %d MiB", name, maxState>>20)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != in.Stored.SHA256 {
		return nil, compute.Errorf(compute.Corrupt, "object %s is not the state of the server's TPM: its sha256 is another one than %s", name, in.Stored.SHA256)
	}
	return data, nil
}

// readMark gives the mark of a state folder, an empty one where there is none.
func readMark(dir string) (m mark) {
	text, err := folder.ReadIn(dir, markName)
	if err != nil || json.Unmarshal(text, &m) != nil {
		return mark{}
	}
	return m
}

func (m mark) write(dir string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return folder.ReplaceIn(dir, markName, text, 0o600)
}

func (a *Activities) dir(server compute.ServerID) string {
	return filepath.Join(a.SwtpmDir, server.String())
}

// draft is where a state folder is made.
func (a *Activities) draft(server compute.ServerID) string {
	return filepath.Join(a.SwtpmDir, "."+server.String()+".new")
}

// lock lets one attempt at a time work on a server's state: one that timed out may still
// be at it.
func (a *Activities) lock(ctx context.Context, server compute.ServerID) (unlock func(), err error) {
	if server == (compute.ServerID{}) {
		return nil, compute.Errorf(compute.Invalid, "TPM state of no server")
	}
	if err := os.MkdirAll(a.SwtpmDir, 0o711); err != nil {
		return nil, failed(server, err)
	}
	path := filepath.Join(a.SwtpmDir, "."+server.String()+".lock")
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, failed(server, err)
		}
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil && leadsTo(path, f) {
			return func() { os.Remove(path); f.Close() }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, failed(server, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// leadsTo reports whether a path is still that of an open file: its holder removes it.
func leadsTo(path string, f *os.File) bool {
	opened, err := f.Stat()
	there, terr := os.Stat(path)
	return err == nil && terr == nil && os.SameFile(opened, there)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func failed(server compute.ServerID, err error) error {
	if k := compute.KindOf(err); k != "" {
		return compute.Errorf(k, "server %s: its TPM state: %w", server, err)
	}
	return compute.Errorf(compute.Unavailable, "server %s: its TPM state: %w", server, err)
}
