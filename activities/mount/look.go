package mount

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"

	"strongroom/compute"
)

// lookPatience is how long a storage may take to say what a mount point is.
const lookPatience = 10 * time.Second

// isDead reports whether whoever mounted a share was shut out, or ended. Unavailable: that is not known; with errSilent, since
// the storage does not answer.
func (a *Activities) isDead(ctx context.Context, id compute.ShareID, point string) (bool, error) {
	said, err := a.looks.find(ctx, point)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, errSilent):
		return false, compute.Errorf(compute.Unavailable, "share %s is mounted, and %w", id, errSilent)
	case errors.As(err, &exit) && exit.ExitCode() == unreadable && !overloaded.Match(said):
		return true, nil
	case err != nil: // that says nothing of the mount, which others may use
		return false, failed(id, "look at what is mounted", err)
	}
	return false, nil
}

// looks are the programs that look at mounts.
type looks struct {
	mu      sync.Mutex
	waiting map[string]bool // by mount point
}

// errSilent is of a mount whose storage does not answer.
var errSilent = errors.New("its storage does not answer")

// find reads a mount point's folder, and gives what find said of it. A program that waits for an
// answer of FUSE's cannot be ended, whatever it is sent: it is left to itself, and no second
// one is started beside it.
func (l *looks) find(ctx context.Context, point string) (said []byte, err error) {
	if !l.begin(point) {
		return nil, errSilent
	}
	looking, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	cmd := command(looking, "find", point, "-maxdepth", "1", "-mindepth", "1", "-quit")
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		l.end(point)
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		l.end(point)
		ended <- err
	}()
	select {
	case err := <-ended:
		if looking.Err() != nil {
			return nil, errSilent
		}
		return text.Bytes(), err
	case <-looking.Done():
		return nil, errSilent
	}
}

func (l *looks) begin(point string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[point] {
		return false
	}
	if l.waiting == nil {
		l.waiting = map[string]bool{}
	}
	l.waiting[point] = true
	return true
}

func (l *looks) end(point string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, point)
}

// unreadable is how find ends when it could not read a folder.
const unreadable = 1

// overloaded is what find says when that is the host's fault.
var overloaded = regexp.MustCompile(`(?i)cannot allocate memory|memory exhausted|too many open files|resource temporarily unavailable`)

func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"} // no Ceph settings of the worker's
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
