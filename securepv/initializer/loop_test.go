package initializer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer"
)

// loops stands in for the device mapper, which the kernel that tests run on may not have: what a
// header decrypts is a file beside the device, one for each header, and a loop device of it. The
// headers are real, and it is cryptsetup that says whether a key opens them.
type loops struct {
	dir  string
	step func(string)
}

func (k loops) Name(device string) (string, error) { return "pv-" + filepath.Base(device), nil }

func (k loops) file(name, kind string) string { return filepath.Join(k.dir, name+"."+kind) }

func (k loops) Mappings(device string) ([]initializer.Mapping, error) {
	name, _ := k.Name(device)
	text, err := os.ReadFile(k.file(name, "map"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path, id, _ := strings.Cut(string(text), " ")
	if _, err := os.Stat(k.file(name, "later")); err == nil && k.Close(context.Background(), name) == nil {
		return nil, nil // as the kernel does at that moment
	}
	return []initializer.Mapping{{Name: name, Path: path, UUID: id}}, nil
}

// beyond is what a device has beside its file system.
const beyond = 20 << 20

// Format makes a header, and notes that it did.
func (k loops) Format(_ context.Context, device string, header *os.File, key *secret.Passphrase, kdf initializer.KDF) error {
	k.step("before LUKS format")
	var image []byte
	if err := key.Use(func(value []byte) error {
		image, _ = newHeader(panics{}, value, kdf == initializer.Argon2id)
		return nil
	}); err != nil {
		return err
	}
	if _, err := header.WriteAt(image, 0); err != nil {
		return err
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("integrt\x00"), headBytes); err != nil {
		return err
	}
	notes, err := os.OpenFile(filepath.Join(k.dir, "formats"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer notes.Close()
	_, err = fmt.Fprintln(notes, idOf(image))
	return err
}

// formats counts the formats that there were.
func (k loops) formats() int {
	text, _ := os.ReadFile(filepath.Join(k.dir, "formats"))
	return strings.Count(string(text), "\n")
}

func (k loops) Open(ctx context.Context, device string, header *os.File, name string, key *secret.Passphrase) error {
	k.step("before open")
	pipe, err := key.Pipe()
	if err != nil {
		return err
	}
	defer pipe.Close()
	c := exec.CommandContext(ctx, "cryptsetup", "open", "--test-passphrase", "--header", "/proc/self/fd/3", "--key-file", "/proc/self/fd/4", device)
	c.ExtraFiles = []*os.File{header, pipe}
	if out, err := c.CombinedOutput(); c.ProcessState.ExitCode() == 2 {
		return fmt.Errorf("%w: %s", initializer.ErrWrongKey, out)
	} else if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	head := make([]byte, 4096)
	if _, err := header.ReadAt(head, 0); err != nil {
		return err
	}
	plain := k.file(idOf(head), "plain")
	info, err := os.Stat(device)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(plain, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(info.Size()-beyond), f.Close()); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "losetup", "--find", "--show", plain).Output()
	if err != nil {
		return err
	}
	path := strings.TrimSpace(string(out))
	return os.WriteFile(k.file(name, "map"), []byte(path+" "+strings.ReplaceAll(idOf(head), "-", "")), 0o600)
}

func (k loops) Close(_ context.Context, name string) error {
	k.step("before close")
	text, err := os.ReadFile(k.file(name, "map"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	path, _, _ := strings.Cut(string(text), " ")
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if strings.Contains("\n"+string(mounts), "\n"+path+" ") {
		return initializer.ErrBusy
	}
	if out, err := exec.Command("losetup", "--detach", path).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	_ = os.Remove(k.file(name, "later"))
	return os.Remove(k.file(name, "map"))
}

func (k loops) CloseLater(_ context.Context, name string) error {
	return os.WriteFile(k.file(name, "later"), nil, 0o600)
}

func (k loops) Keep(_ context.Context, name string) error {
	err := os.Remove(k.file(name, "later"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// away takes everything back, whatever happened.
func (k loops) away() {
	maps, _ := filepath.Glob(filepath.Join(k.dir, "*.map"))
	for _, m := range maps {
		text, _ := os.ReadFile(m)
		path, _, _ := strings.Cut(string(text), " ")
		for exec.Command("umount", path).Run() == nil {
		}
		_ = exec.Command("losetup", "--detach", path).Run()
	}
}

// panics is for what cannot fail where no test is.
type panics struct{}

func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) FailNow()                          { panic("failed") }
