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

	"strongroom/activities/imagefile"
	"strongroom/activities/secret"
)

// Command is a program to run. Its arguments name passphrase n as fd(n); the
// passphrases travel through pipes, never through arguments, environment or disk.
type Command struct {
	Name        string
	Args        []string
	Passphrases []*secret.Passphrase
	Stdin       *secret.Passphrase // what it reads on its standard input, nil for nothing
	Limited     bool               // as imagefile.Limits say: it reads what a user made
	// Image is a user's file, which the command reads at imagePath, and nothing else.
	Image *os.File
	// Percent is told how far the command says it is; it takes all of its output.
	Percent func(percent float64)
}

// fd is the path at which a child reads passphrase n.
func fd(n int) string { return fmt.Sprintf("/dev/fd/%d", 3+n) }

// imagePath is the path at which a child reads Image, once all passphrases are lent.
func (c Command) imagePath() string { return fd(len(c.Passphrases)) }

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
type Exec struct {
	Limits imagefile.Limits // of commands that are limited
}

// Run is Runner's.
func (e Exec) Run(ctx context.Context, c Command) ([]byte, error) {
	if c.Limited {
		return e.runLimited(ctx, c)
	}
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
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

// runLimited runs a command that reads what a user made; the error of one that met its
// limits is an imagefile.ErrCost too.
func (e Exec) runLimited(ctx context.Context, c Command) ([]byte, error) {
	cmd, err := imagefile.Command(ctx, e.Limits, c.Image, c.Name, c.Args...)
	if err != nil {
		return nil, &CommandError{Name: c.Name + " " + c.verb(), Err: err}
	}
	defer cmd.Close()
	for _, p := range c.Passphrases {
		pipe, err := p.Pipe()
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		if err := cmd.Lend(pipe); err != nil {
			return nil, &CommandError{Name: c.Name + " " + c.verb(), Err: err}
		}
	}
	if c.Image != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.Image)
	}
	var out, messages imagefile.Output
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		err = cmd.Failure(ctx, err, messages.String())
		if ctx.Err() == nil && (out.Exceeded() || messages.Exceeded()) {
			err = fmt.Errorf("%w: %w: %w", imagefile.ErrCost, imagefile.ErrOutput, err)
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
