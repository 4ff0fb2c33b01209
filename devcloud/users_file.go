package devcloud

import (
	"fmt"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"
)

// usersFile is the users' file as requests use it.
type usersFile struct {
	path    string
	writing sync.Mutex
	read    atomic.Pointer[directory]
}

func openUsers(path string) (*usersFile, error) {
	d, err := loadUsers(path)
	if err != nil {
		return nil, err
	}
	f := &usersFile{path: path}
	f.read.Store(d)
	return f, nil
}

// now gives what the file says. It does not change: what is found in it stays valid through a request.
func (f *usersFile) now() *directory { return f.read.Load() }

// change has fn change the file's content, writes it, and then lets requests see it. It begins with what is in the file, so
// that what was edited there by hand counts from here on. An error of fn changes nothing.
func (f *usersFile) change(fn func(*directory) error) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	d, err := loadUsers(f.path)
	if err != nil {
		return err
	}
	if err := fn(d); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("devcloud: change of the users file: %w", err)
	}
	d.number()
	text, err := yaml.Marshal(d)
	if err == nil {
		err = writeFile(f.path, text)
	}
	if err != nil {
		return fmt.Errorf("devcloud: users file: %w", err)
	}
	f.read.Store(d)
	return nil
}
