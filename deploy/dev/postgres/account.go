package postgres

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that the server runs as.
type account struct {
	name       string
	credential *syscall.Credential // nil: who we are
}

// accountToUse gives postgres to root, since the server refuses to run as root,
// and everybody else to himself.
func accountToUse() (account, error) {
	if os.Geteuid() != 0 {
		me, err := user.Current()
		if err != nil {
			return account{}, err
		}
		return account{name: me.Username}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("%w: apt-get install postgresql", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, err
	}
	return account{name: u.Username, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// folder ensures a folder that belongs to the account.
func (a account) folder(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	if a.credential != nil {
		if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// reaches reports whether the account can pass through a folder and all above it.
func (a account) reaches(path string) error {
	if a.credential == nil {
		return nil
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		mode := info.Mode().Perm()
		passes := mode&0o001 != 0
		switch {
		case owner.Uid == a.credential.Uid:
			passes = mode&0o100 != 0
		case owner.Gid == a.credential.Gid:
			passes = mode&0o010 != 0
		}
		if !passes {
			return fmt.Errorf("the user %s cannot pass through %s (mode %o): choose a folder elsewhere, such as below /var/lib", a.name, dir, mode)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
