package devcloud

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/bcrypt"

	"strongroom/activities/folder"
)

// ServiceUser is the user with which strongroom's own services log in, to
// project ServiceProject.
const (
	ServiceUser    = "strongroom"
	ServiceProject = "service"
)

// firstRoles are the users of a first start: name to project to roles.
var firstRoles = map[string]map[string][]string{
	"admin":     {"admin": {"admin", "member", "reader"}, "demo": {"admin", "member", "reader"}},
	"demo":      {"demo": {"member", "reader", "creator"}},
	"reader":    {"demo": {"reader"}},
	"alt":       {"alt": {"member", "reader", "creator"}},
	ServiceUser: {ServiceProject: {"service"}},
}

// EnsureUsers makes sure that there is a users' file, in which each project has the number of its network. At a first start it makes
// the users admin (project admin and demo), demo, reader (both project demo),
// alt (project alt) and ServiceUser, each with a random password, and writes
// the file, mode 0600, with the passwords' hashes.
//
// handOver is given the clear passwords by user's name, this once, before the
// file exists: when it fails, or the process dies in it, the next start makes
// new ones, and no file is left whose passwords nobody knows.
func EnsureUsers(path string, handOver func(passwords map[string]string) error) error {
	if _, err := os.Stat(path); err == nil {
		return ensureNumbers(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("devcloud: users file: %w", err)
	}
	d, passwords, err := firstUsers()
	if err != nil {
		return err
	}
	d.number()
	if err := handOver(passwords); err != nil {
		return fmt.Errorf("devcloud: hand over the first passwords: %w", err)
	}
	if err := d.write(path); err != nil {
		return fmt.Errorf("devcloud: users file: %w", err)
	}
	return nil
}

// ensureNumbers writes the numbers of networks into a file that has not all of them.
func ensureNumbers(path string) error {
	d, err := loadUsers(path)
	if err != nil || !d.unnumbered {
		return err
	}
	if err := d.write(path); err != nil {
		return fmt.Errorf("devcloud: users file: %w", err)
	}
	return nil
}

func firstUsers() (*directory, map[string]string, error) {
	d := &directory{}
	for _, name := range []string{"admin", "demo", "alt", ServiceProject} {
		d.Projects = append(d.Projects, project{ID: newID(), Name: name})
	}
	passwords := map[string]string{}
	for _, name := range []string{"admin", "demo", "reader", "alt", ServiceUser} {
		password, err := randomPassword()
		if err != nil {
			return nil, nil, err
		}
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost) // nobody guesses 144 random bits, however fast
		if err != nil {
			return nil, nil, fmt.Errorf("devcloud: hash a password: %w", err)
		}
		passwords[name] = password
		d.Users = append(d.Users, user{ID: newID(), Name: name, PasswordHash: string(hash), Roles: firstRoles[name]})
	}
	return d, passwords, nil
}

// randomPassword gives 24 characters that need no quoting anywhere.
func randomPassword() (string, error) {
	raw := make([]byte, 18)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("devcloud: make a password: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// writeFile writes a file, mode 0600, that is whole or absent after a crash.
// Its folder keeps the mode that it has.
func writeFile(path string, data []byte) error {
	dir := folder.Folder{Path: filepath.Dir(path)}
	if err := os.MkdirAll(dir.Path, 0o700); err != nil {
		return err
	}
	return dir.Write(filepath.Base(path), data)
}
