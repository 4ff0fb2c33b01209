package devcloud

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"
)

// usersFile is the users' file as requests use it.
type usersFile struct {
	path    string
	log     *slog.Logger
	writing sync.Mutex
	read    atomic.Pointer[directory]
}

func openUsers(path string, log *slog.Logger) (*usersFile, error) {
	d, err := loadUsers(path)
	if err != nil {
		return nil, err
	}
	f := &usersFile{path: path, log: log}
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
		f.log.Error("the users' file was edited and cannot be read", "error", err)
		return fault(http.StatusConflict, "The users' file was edited and cannot be read as it is now: the log of devcloud says why. Nothing was changed.")
	}
	for _, r := range d.roles() { // one that nobody has any more can be given again
		if !slices.Contains(knownRoles, r.Name) && !slices.Contains(d.Roles, r.Name) {
			d.Roles = append(d.Roles, r.Name)
		}
	}
	if err := fn(d); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("devcloud: change of the users file: %w", err)
	}
	d.number()
	if err := d.makeNobody(); err != nil { // the costs may have changed
		return err
	}
	if err := d.write(f.path); err != nil {
		return fmt.Errorf("devcloud: users file: %w", err)
	}
	f.read.Store(d)
	return nil
}

// write makes the file, if it can be read again.
func (d *directory) write(path string) error {
	out, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	var back directory
	if err := yaml.Unmarshal(out, &back); err != nil {
		return err
	}
	if fmt.Sprint(d.Projects, d.Users, d.Roles) != fmt.Sprint(back.Projects, back.Users, back.Roles) { // which tells no empty list from none
		return errors.New("what is to be written would not be read again as it is")
	}
	return writeFile(path, out)
}
