package tpm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"strongroom/activities/folder"
	"strongroom/compute"
)

// stateOf is where libvirt has swtpm keep the state of a TPM within a server's state folder, and the file that swtpm keeps there without power.
func stateOf(version compute.TPMVersion) (dir, file string) {
	if version == compute.TPM20 {
		return stateDir, "tpm2-00.permall"
	}
	return "tpm1.2", "tpm-00.permall"
}

// Check looks at the state of a server's vTPM before libvirt starts it, which would make a new one where it finds none, and what the guest has
// sealed would be lost (K20). libvirt also gives, as root, all that is there to swtpm's user, links or not: there are none, and until libvirt does
// it, only root makes any (S3).
// Corrupt: there is no state that swtpm could read, unless it is to be a new one, or it is more than files.
func (a *Activities) Check(ctx context.Context, server compute.ServerID, version compute.TPMVersion, isNew bool) error {
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	err = a.checkAndTake(server, version)
	if isNew && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errEmpty) || errors.Is(err, errDamaged)) {
		return nil // where a first start was cut off, no guest has used it, and it is made anew
	}
	return lost(server, err)
}

// lost is what is told of what checkState found.
func lost(server compute.ServerID, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return compute.Errorf(compute.Corrupt, "server %s: its TPM state is not on this host"+wayOut, server)
	case errors.Is(err, errEmpty):
		return compute.Errorf(compute.Corrupt, "server %s: its TPM state on this host is empty"+wayOut, server)
	case errors.Is(err, errDamaged):
		return compute.Errorf(compute.Corrupt, "server %s: its TPM state on this host is damaged"+wayOut, server)
	case err != nil:
		return failed(server, err)
	}
	return nil
}

// wayOut is what can be done about a state that is lost.
const wayOut = ", and it is not started with a new one in its place: put it back, or rebuild the server, whose TPM is then as its backup has it, or a new one; " +
	"if the server is SHELVED, offload it (shelveOffload) and unshelve it, which restores the state that was kept"

// checkAndTake is checkState of a server whose guest is off. swtpm's user may have let everybody write there: it is root's until libvirt gives it back.
func (a *Activities) checkAndTake(server compute.ServerID, version compute.TPMVersion) error {
	return checkState(a.dir(server), version, func(outer *os.Root, sub string) error {
		return errors.Join(outer.Lchown(sub, os.Geteuid(), os.Getegid()), outer.Chmod(sub, 0o700))
	})
}

// onlyLook leaves a state as it is: swtpm may have it open.
func onlyLook(*os.Root, string) error { return nil }

// checkState looks at a state after take was called with its folder.
func checkState(dir string, version compute.TPMVersion, take func(outer *os.Root, sub string) error) error {
	if is, err := os.Lstat(dir); err != nil {
		return err
	} else if !is.IsDir() {
		return compute.Errorf(compute.Corrupt, "it is no folder")
	}
	outer, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = outer.Close() }()
	sub, file := stateOf(version)
	if is, err := outer.Lstat(sub); err != nil {
		return err
	} else if !is.IsDir() {
		return compute.Errorf(compute.Corrupt, "its %s is no folder", sub)
	}
	if err := take(outer, sub); err != nil {
		return err
	}
	root, err := outer.OpenRoot(sub)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	entries, err := listed(root, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		is, err := root.Lstat(e.Name())
		if errors.Is(err, fs.ErrNotExist) { // swtpm's lock, say
			continue
		}
		if err != nil {
			return err
		}
		if !is.Mode().IsRegular() {
			return compute.Errorf(compute.Corrupt, "%s in it is no file", e.Name())
		}
	}
	f, is, err := folder.OpenIn(root, file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkLength(f, is.Size()); err != nil {
		return compute.Errorf(compute.Corrupt, "%s: %w", file, err)
	}
	return nil
}

// GiveFoldersToRoot makes the folders of states root's, as libvirt has them. Those that earlier releases laid down were swtpm's user's as a whole (S3).
func (a *Activities) GiveFoldersToRoot() error {
	entries, err := os.ReadDir(a.SwtpmDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if _, _, ok := parseName(e.Name()); ok && e.IsDir() {
			path := filepath.Join(a.SwtpmDir, e.Name()) // of a folder of root's: it stays the same one
			err = errors.Join(err, os.Lchown(path, os.Geteuid(), os.Getegid()), os.Chmod(path, 0o711))
		}
	}
	return err
}
