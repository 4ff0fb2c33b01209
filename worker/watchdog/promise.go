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
	"time"
)

// Promise is what a host has promised the control plane, and when that last answered it. The zero
// value is none.
type Promise struct {
	Heard Moment        `json:"heard"` // before the last report that was answered was sent
	After time.Duration `json:"after"` // without an answer for so long no guest runs here any more; 0: nothing is promised
}

// Due reports whether no guest may run any more. A machine that was booted since has had no answer.
func (p Promise) Due(now Moment) bool {
	return p.After > 0 && (p.Heard.Boot != now.Boot || now.Since-p.Heard.Since >= p.After)
}

// Note is the file with a host's promise.
type Note string

// noteSize is the file's: it is written where it is, so that a full disk is no reason to stop guests.
const noteSize = 512

// Read gives the promise; none where there is no file.
func (n Note) Read() (Promise, error) {
	text, err := os.ReadFile(string(n))
	if errors.Is(err, fs.ErrNotExist) {
		return Promise{}, nil
	}
	if err != nil {
		return Promise{}, err
	}
	sum, said, _ := bytes.Cut(bytes.TrimRight(text, " "), []byte("\n"))
	var p Promise
	if string(sum) != sumOf(said) || json.Unmarshal(said, &p) != nil {
		return Promise{}, fmt.Errorf("%s is broken", n)
	}
	return p, nil
}

// Write keeps a promise, durably. Without one there is no file.
func (n Note) Write(p Promise) error {
	if p.After == 0 {
		return n.remove()
	}
	if err := os.MkdirAll(filepath.Dir(string(n)), 0o711); err != nil {
		return err
	}
	said, err := json.Marshal(p)
	if err != nil {
		return err
	}
	text := bytes.Repeat([]byte(" "), noteSize)
	if copy(text, sumOf(said)+"\n"+string(said)) == noteSize {
		return errors.New("the promise is too long")
	}
	f, err := os.OpenFile(string(n), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return n.create(text)
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(text, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// create makes the file whole or not at all.
func (n Note) create(text []byte) error {
	temporary := string(n) + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, bytes.NewReader(text)); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, string(n))
	}
	return errors.Join(err, n.syncFolder())
}

func (n Note) remove() error {
	err := os.Remove(string(n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, n.syncFolder())
}

func (n Note) syncFolder() error {
	f, err := os.Open(filepath.Dir(string(n)))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func sumOf(said []byte) string {
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
}
