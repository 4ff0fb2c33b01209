package disk

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

// Command is a program to run. Its arguments name passphrase n as fd(n); the
// passphrases travel through pipes, never through arguments, environment or disk.
type Command struct {
	Name        string
	Args        []string
	Passphrases []*secret.Passphrase
	Stdin       *secret.Passphrase // what it reads on its standard input, nil for nothing
	Limited     bool               // at most 1 GiB of memory and 30 s of CPU: it reads what a user made
	// Percent is told how far the command says it is; it takes all of its output.
	Percent func(percent float64)
}

// fd is the path at which a child reads passphrase n.
func fd(n int) string { return fmt.Sprintf("/dev/fd/%d", 3+n) }

// Runner runs a command and gives its standard output. The error of one that
// fails is a *CommandError.
type Runner interface {
	Run(ctx context.Context, c Command) ([]byte, error)
}

// CommandError says how a command failed, with what it printed.
type CommandError struct {
	Name   string
	Stderr string // its end, on one line
	Err    error
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Name, e.Err, e.Stderr) }

func (e *CommandError) Unwrap() error { return e.Err }

// Exec runs commands as child processes in process groups of their own. When
// ctx is done the whole group is killed, so that no child works on for an
// attempt that has ended.
type Exec struct{}

// Run is Runner's.
func (Exec) Run(ctx context.Context, c Command) ([]byte, error) {
	argv := append([]string{c.Name}, c.Args...)
	if c.Limited {
		argv = append([]string{"prlimit", "--as=1073741824", "--cpu=30"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// A killed worker's children must not go on beside those of its successor.
	// The kernel's signal for that comes when the thread that forked ends, so
	// this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C") // error texts are looked at
	for _, p := range c.Passphrases {
		pipe, err := p.Pipe()
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, pipe)
	}
	if c.Stdin != nil {
		pipe, err := c.Stdin.Pipe()
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		cmd.Stdin = pipe
	}
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if c.Percent != nil {
		cmd.Stdout = percents(c.Percent)
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &CommandError{Name: c.Name + " " + c.verb(), Stderr: lastLine(messages.String()), Err: err}
	}
	return out.Bytes(), nil
}

// verb is the first argument, which says what a command was to do.
func (c Command) verb() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

func lastLine(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(text), " ")
	return text[max(0, len(text)-most):]
}

// says reports whether a command failed with a text.
func says(err error, text string) bool {
	var e *CommandError
	return errors.As(err, &e) && strings.Contains(e.Stderr, text)
}
