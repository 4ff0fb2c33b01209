package initializer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"strongroom/activities/secret"
)

// lockFolder is where cryptsetup locks headers; an image need not have it.
const lockFolder = "/run/cryptsetup"

// command is a program to run, with files that it reads as fd(0), fd(1), …
type command struct {
	name  string
	args  []string
	files []*os.File
}

// fd is the path at which a child finds file n.
func fd(n int) string { return fmt.Sprintf("/proc/self/fd/%d", 3+n) }

// commandError says how a command failed, with what it printed.
type commandError struct {
	what string
	said string // on one line
	err  error
}

func (e *commandError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: %v", e.what, e.err)
	}
	return fmt.Sprintf("%s: %v: %s", e.what, e.err, e.said)
}

func (e *commandError) Unwrap() error { return e.err }

// The exit codes of cryptsetup that are looked at.
const (
	cryptsetupWrongKey = 2
	cryptsetupBusy     = 5
)

// dmsetupBusy is what dmsetup says of a mapping that is in use; its exit code is that of any failure.
const dmsetupBusy = "Device or resource busy"

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// run runs a command in a process group of its own, which ends with this process or with ctx.
func (c command) run(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.name, c.args...)
	runtime.LockOSThread() // the kernel's signal comes when the thread that forked ends
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	// A container has no udev: device nodes are made by libdevmapper itself.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DM_DISABLE_UDEV=1")
	cmd.ExtraFiles = c.files
	var messages bytes.Buffer
	cmd.Stderr = &messages
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &commandError{strings.TrimSpace(c.name + " " + c.verb()), lastWords(messages.String()), err}
	}
	return nil
}

func (c command) verb() string {
	if len(c.args) == 0 || strings.HasPrefix(c.args[0], "-") || strings.HasPrefix(c.args[0], "/") {
		return ""
	}
	return c.args[0]
}

func lastWords(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	return text[max(0, len(text)-most):]
}

// cryptsetup runs cryptsetup on a header in memory. Its arguments name the header as fd(0) and keys
// from fd(1) on, which travel through pipes.
func cryptsetup(ctx context.Context, header *os.File, keys []*secret.Passphrase, args ...string) error {
	if err := os.MkdirAll(lockFolder, 0o755); err != nil {
		return err
	}
	c := command{name: "cryptsetup", args: args}
	if header != nil {
		c.files = append(c.files, header)
	}
	for _, k := range keys {
		pipe, err := k.Pipe()
		if err != nil {
			return err
		}
		defer pipe.Close()
		c.files = append(c.files, pipe)
	}
	err := c.run(ctx)
	switch exitCode(err) {
	case cryptsetupWrongKey:
		return fmt.Errorf("%w: %w", ErrWrongKey, err)
	case cryptsetupBusy:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// testKey sees that a key opens a header.
func testKey(ctx context.Context, device string, header *os.File, key *secret.Passphrase) error {
	return cryptsetup(ctx, header, []*secret.Passphrase{key},
		"open", "--test-passphrase", "--type", "luks2", "--header", fd(0), "--key-file", fd(1), device)
}
