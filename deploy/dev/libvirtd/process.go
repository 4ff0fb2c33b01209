package libvirtd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child that is always waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after the child was collected
}

// start runs a command in a session of its own, so that a Ctrl-C at the
// terminal does not reach it. A tied one is killed when this process ends.
func start(args []string, out *os.File, tied bool) (*process, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, fmt.Errorf("libvirtd: %w", err)
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if tied {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that forked ends, not the
		// process: this thread stays with the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // how it ended does not matter: it was told to, or ready reports what it printed
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("libvirtd: %s: %w", args[0], err)
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the child's end.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitChild gives the pid of a process's only child once there is one.
func waitChild(ctx context.Context, p *process) (pid int, err error) {
	err = poll(ctx, p, func() bool {
		parent := p.cmd.Process.Pid
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid, err
}

// poll waits for a condition, as long as the process runs.
func poll(ctx context.Context, p *process, done func() bool) error {
	for !done() {
		if !p.running() {
			return fmt.Errorf("libvirtd: %s ended: %v", p.cmd.Args[0], p.cmd.ProcessState)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}
