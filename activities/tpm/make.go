package tpm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"strongroom/activities/folder"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Endorser certifies the endorsement keys of vTPMs that operations make.
type Endorser interface {
	// Endorses reports whether there is somebody who does.
	Endorses(ctx context.Context, server compute.ServerID, op compute.OperationID) (bool, error)
	// Endorse gives a certificate, as DER, for each key, as PKIX. Forbidden: the operation makes no vTPM here.
	Endorse(ctx context.Context, server compute.ServerID, op compute.OperationID, keys [][]byte) ([][]byte, error)
}

// Make ensures that a server's new vTPM has a state with certificates of its endorsement keys in it, encrypted with the passphrase, if
// the cloud certifies such keys. Otherwise, and for a TPM 1.2, it does what NoteNew does, and libvirt makes the state. What the same operation
// made is left as it is: the guest may have started. What another one left is not the server's, and is made anew.
//
// The state has its name once it is whole, with its certificates. An attempt that is cut off before leaves a certificate of a key that is
// nowhere, in whose place the next attempt's comes.
func (a *Activities) Make(ctx context.Context, of compute.FreshTPM, passphrase *secret.Passphrase) error {
	on, err := a.endorses(ctx, of)
	if err != nil {
		return err
	}
	if !on {
		return a.NoteNew(ctx, of.Server, of.Operation, of.Began)
	}
	unlock, err := a.lock(ctx, of.Server)
	if err != nil {
		return err
	}
	defer unlock()
	was, err := a.hasState(of.Server)
	if err == nil && (!was || readMark(a.dir(of.Server)).Operation != of.Operation) {
		err = a.makeState(ctx, of, passphrase)
	}
	if err != nil && compute.KindOf(err) == "" { // of swtpm_setup, or of a disk that is full: soon final, for nobody mends it
		return fmt.Errorf("server %s: the state of its new TPM: %w", of.Server, err)
	}
	return err
}

func (a *Activities) endorses(ctx context.Context, of compute.FreshTPM) (bool, error) {
	if a.Endorser == nil || of.Version != compute.TPM20 {
		return false, nil
	}
	return a.Endorser.Endorses(ctx, of.Server, of.Operation)
}

// stateDir is where libvirt has swtpm keep what a TPM 2.0 keeps, within a server's state folder.
const stateDir = "tpm2"

// hasState reports whether there is one, by which libvirt goes, too.
func (a *Activities) hasState(server compute.ServerID) (bool, error) {
	root, err := os.OpenRoot(a.dir(server))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	files, err := listed(root, stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(files) > 0, err
}

// makeState makes the state folder beside its place, under the server's lock.
func (a *Activities) makeState(ctx context.Context, of compute.FreshTPM, passphrase *secret.Passphrase) error {
	// The kernel ends the children of a worker that was killed when the thread ends that forked them, so this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := a.dir(of.Server)
	m := mark{Operation: of.Operation, Began: of.Began, PutBack: readMark(dir).PutBack}
	return a.fill(ctx, of.Server, emptyTar, m, dir, func(draft string) error {
		state := filepath.Join(draft, stateDir)
		err := os.Mkdir(state, 0o700)
		if err == nil {
			err = os.Lchown(state, a.Owner.UID, a.Owner.GID)
		}
		if err == nil {
			err = a.setUp(ctx, state, passphrase)
		}
		if err == nil {
			err = a.endorse(ctx, of, state, passphrase)
		}
		if err == nil {
			err = syncFiles(state)
		}
		return err
	})
}

// emptyTar is the end of a tar.
var emptyTar = make([]byte, 1024)

// setUp has swtpm_setup make a TPM with endorsement keys, as libvirt has it, but for certificates of an authority that each host would
// have made for itself.
func (a *Activities) setUp(ctx context.Context, state string, passphrase *secret.Passphrase) error {
	cmd, said := a.command(ctx, "swtpm_setup", "--tpm2", "--tpm-state", state, "--createek", "--rsa-keysize", "2048", "--pwdfile-fd", "3", "--cipher", cipher, "--not-overwrite")
	return withPassphrase(cmd, passphrase, func() error {
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("swtpm_setup: %w: %s", err, lastLine(said.String()))
		}
		return nil
	})
}

// cipher is that with which libvirt has swtpm encrypt a state.
const cipher = "aes-256-cbc"

// chipPatience bounds how long a TPM takes over a command.
const chipPatience = time.Minute

// onChip runs swtpm on a state until use returns, which speaks to it over a connection.
func (a *Activities) onChip(ctx context.Context, state string, passphrase *secret.Passphrase, use func(chip net.Conn) error) error {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "chip"), os.NewFile(uintptr(ends[1]), "swtpm")
	defer theirs.Close()
	chip, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return err
	}
	defer chip.Close()
	cmd, said := a.command(ctx, "swtpm", "socket", "--tpm2", "--tpmstate", "dir="+state, "--key", "pwdfd=3,mode="+cipher,
		"--fd", "4", "--flags", "not-need-init,startup-clear")
	err = withPassphrase(cmd, passphrase, func() error {
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
		return cmd.Start()
	})
	if err != nil {
		return err
	}
	_ = theirs.Close() // an swtpm that ends is seen
	err = chip.SetDeadline(time.Now().Add(chipPatience))
	if err == nil {
		err = use(chip)
	}
	_ = chip.Close() // swtpm ends
	if ended := cmd.Wait(); err != nil || ended != nil {
		return fmt.Errorf("swtpm: %w: %s", errors.Join(err, ended), lastLine(said.String()))
	}
	return nil
}

// command is a program that runs as swtpm's user, with its messages. It ends with the worker and with ctx, and what it has started ends, too.
func (a *Activities) command(ctx context.Context, name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")} // without HOME it reads the machine's swtpm_setup.conf
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uint32(a.Owner.UID), Gid: uint32(a.Owner.GID)},
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	return cmd, &said
}

// withPassphrase lends a command the passphrase as its file 3.
func withPassphrase(cmd *exec.Cmd, passphrase *secret.Passphrase, run func() error) error {
	pipe, err := passphrase.Pipe()
	if err != nil {
		return err
	}
	defer pipe.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, pipe)
	return run()
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// syncFiles has the files of a folder of swtpm's user, and their names, on the disk.
func syncFiles(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	entries, err := listed(root, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, _, err := folder.OpenIn(root, e.Name())
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return folder.SyncNames(root)
}
