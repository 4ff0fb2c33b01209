package watchdog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Lease is for how long a host may run guests without contact with the control plane, and when it last had
// contact. The zero value is none: guests go on.
type Lease struct {
	LastContact Moment        `json:"last_contact"` // before the last report that was answered was sent
	Timeout     time.Duration `json:"timeout"`      // without contact for so long no guest runs here any more; 0: there is no lease
}

// Expired reports whether no guest may run any more. A machine that was booted since has had no contact.
func (l Lease) Expired(now Moment) bool {
	return l.Timeout > 0 && (l.LastContact.Boot != now.Boot || now.Since-l.LastContact.Since >= l.Timeout)
}

// LeaseFiles are where a host's lease is written down.
//
// Run is in a folder that a boot empties. It is written with each contact, and never synced: a
// disk that is full, slow or broken is no reason to stop guests. State is on disk, and written
// only when there is another timeout, or none any more: it says after a boot that there has been no contact since.
//
// Take and Renew are called one after another. Read may be called at any time, and never waits for them: a disk may hang.
type LeaseFiles struct {
	Run, State string
	Former     string // where an earlier release kept it, on disk; "": nowhere

	state *time.Duration // the timeout that State has; nil: it is not known

	mu   sync.Mutex
	held *Lease // that this process wrote
}

// Read gives the lease; none where there is no file. The process that writes it knows it without.
func (f *LeaseFiles) Read() (Lease, error) {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != nil {
		return *held, nil
	}
	lease, err := readLease(f.Run)
	if errors.Is(err, fs.ErrNotExist) {
		lease, err = readLease(f.State)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Lease{}, nil
	}
	return lease, err
}

// Take writes a lease down that the control plane is about to be told of: both files have it, or it is
// not taken.
func (f *LeaseFiles) Take(l Lease) error {
	if err := f.writeState(l); err != nil {
		return err
	}
	if err := write(f.Run, l, false); err != nil {
		return err
	}
	f.hold(l)
	return nil
}

// Renew notes a lease that the control plane has answered, or that it knows of none any more. This process
// knows it also when it cannot be written.
func (f *LeaseFiles) Renew(l Lease) error {
	f.hold(l)
	if l.Timeout > 0 {
		return errors.Join(write(f.Run, l, false), f.writeState(l))
	}
	if !exists(f.Run) && !exists(f.State) {
		return nil
	}
	// Should State not be removed, Run says that the lease is released.
	said, removed := write(f.Run, l, false), remove(f.State)
	if f.state = nil; removed == nil {
		return errors.Join(remove(f.Run), said)
	}
	return errors.Join(said, removed)
}

// RemoveFormer removes what an earlier release left. A watchdog of that release may read it until the
// control plane has answered a worker that writes the other files.
func (f *LeaseFiles) RemoveFormer() error {
	if f.Former == "" || !exists(f.Former) && !exists(f.Former+".new") {
		return nil
	}
	return errors.Join(remove(f.Former), remove(f.Former+".new"))
}

func (f *LeaseFiles) hold(l Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = &l
}

func (f *LeaseFiles) writeState(l Lease) error {
	if f.state != nil && *f.state == l.Timeout {
		return nil
	}
	f.state = nil
	if is, err := readLease(f.State); err != nil || is.Timeout != l.Timeout {
		if err := write(f.State, l, true); err != nil {
			return err
		}
	}
	f.state = &l.Timeout
	return nil
}

// leaseSize is a file's: it is written where it is, so that a full file system is no reason to stop guests.
const leaseSize = 512

func readLease(file string) (Lease, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Lease{}, err
	}
	sum, said, _ := bytes.Cut(bytes.TrimRight(text, " "), []byte("\n"))
	var l Lease
	if string(sum) != sumOf(said) || json.Unmarshal(said, &l) != nil {
		return Lease{}, fmt.Errorf("%s is broken", file)
	}
	return l, nil
}

func write(file string, l Lease, durable bool) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o711); err != nil {
		return err
	}
	said, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text := bytes.Repeat([]byte(" "), leaseSize)
	if copy(text, sumOf(said)+"\n"+string(said)) == leaseSize {
		return errors.New("the lease is too long")
	}
	sync := (*os.File).Sync
	if !durable {
		sync = func(*os.File) error { return nil }
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return create(file, text, sync)
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(text, 0); err == nil {
		err = sync(f)
	}
	return errors.Join(err, f.Close())
}

// create makes the file whole or not at all.
func create(file string, text []byte, sync func(*os.File) error) error {
	temporary := file + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, bytes.NewReader(text)); err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, file)
	}
	return errors.Join(err, syncFolder(file, sync))
}

func remove(file string) error {
	err := os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncFolder(file, (*os.File).Sync))
}

func syncFolder(file string, sync func(*os.File) error) error {
	f, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(sync(f), f.Close())
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

func sumOf(said []byte) string {
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
}
