// Package process runs a service as a child of this process: in a session of its
// own, with a log file and a pid file, always collected, and stopped by its id
// and never by its name.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Config says what to run.
type Config struct {
	Name    string   // for messages
	Command []string // program and arguments
	Env     []string // nil: this process's
	Dir     string   // working folder; "": this process's
	LogFile string   // gets standard output and error, appended
	// PIDFile names the process to the next Start of the same file, which ends
	// it where this process could not.
	PIDFile    string
	Credential *syscall.Credential // another user to run as
	StopSignal syscall.Signal      // asks for an orderly end; default SIGTERM
	// OrphanSignal is what the child gets when this process ends in whatever way;
	// 0 lets it live on.
	OrphanSignal syscall.Signal
	Patience     time.Duration // between StopSignal and SIGKILL; default 15 s
	// Before is called once nothing is left of an earlier process, such as its port.
	Before func(context.Context) error
}

// Process is a child that runs, or ran.
type Process struct {
	cfg   Config
	cmd   *exec.Cmd
	done  chan struct{} // closed once the child is collected
	claim *os.File      // the lock on the pid file
	once  sync.Once
	from  int64 // where in the log its words begin
}

// Start runs the command. A process that an earlier one of the same PIDFile left
// behind is ended first; when the one that started it still lives, Start fails
// with ErrInUse and touches nothing.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	if cfg.StopSignal == 0 {
		cfg.StopSignal = syscall.SIGTERM
	}
	if cfg.Patience == 0 {
		cfg.Patience = 15 * time.Second
	}
	claim, err := claimPIDFile(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p := &Process{cfg: cfg, done: make(chan struct{}), claim: claim}
	if cfg.Before != nil {
		err = cfg.Before(ctx)
	}
	if err == nil {
		err = p.launch(ctx)
	}
	if err != nil {
		unclaim(claim)
		return nil, err
	}
	if err := WritePIDFile(cfg.PIDFile, p.cmd.Process.Pid); err != nil {
		return nil, errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
	}
	return p, nil
}

func (p *Process) launch(ctx context.Context) error {
	path, err := exec.LookPath(p.cfg.Command[0])
	if err != nil {
		return fmt.Errorf("%s: %w", p.cfg.Name, err)
	}
	if err := os.MkdirAll(filepath.Dir(p.cfg.LogFile), 0o755); err != nil {
		return fmt.Errorf("%s: %w", p.cfg.Name, err)
	}
	log, err := os.OpenFile(p.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", p.cfg.Name, err)
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil {
		p.from = info.Size()
	}
	// The child outlives ctx, which is for its start alone.
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, p.cfg.Command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir, p.cmd.Env = log, log, p.cfg.Dir, p.cfg.Env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true, // a Ctrl-C at the terminal is for this process alone
		Pdeathsig:  p.cfg.OrphanSignal,
		Credential: p.cfg.Credential,
	}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that forked ends, not the
		// process: this thread stays until the child is collected.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // Ended tells how it went
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", p.cfg.Name, err)
	}
	return nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and is collected.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the child has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Ended says how the child ended and what it said last; nil while it runs.
func (p *Process) Ended() error {
	if p.Running() {
		return nil
	}
	return fmt.Errorf("%s ended: %s%s", p.cfg.Name, p.cmd.ProcessState, p.lastWords())
}

// Signal sends a signal to the child alone. One that has ended gets none.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: signal: %w", p.cfg.Name, err)
	}
	return nil
}

// Stop asks the child to end, ends it with SIGKILL when it does not within
// Patience or when ctx ends, and returns once it is gone, whatever ctx says.
func (p *Process) Stop(ctx context.Context) error {
	defer p.release()
	if err := p.Signal(p.cfg.StopSignal); err != nil {
		return err
	}
	timer := time.NewTimer(p.cfg.Patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Kill(ctx)
}

// Kill ends the child and its process group with SIGKILL, as a crash would, and
// returns once the child is gone.
func (p *Process) Kill(context.Context) error {
	defer p.release()
	if p.Running() {
		// The child leads its session, so its group bears its id; until it is
		// collected nobody else can have that id.
		if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%s: kill: %w", p.cfg.Name, err)
		}
	}
	<-p.done
	return nil
}

// Until waits for a condition as long as the child runs. It tries again after a
// pause and gives the last error of try when ctx ends.
func (p *Process) Until(ctx context.Context, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.Ended()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w%s", p.cfg.Name, errors.Join(ctx.Err(), err), p.lastWords())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *Process) release() {
	p.once.Do(func() {
		_ = os.Remove(p.cfg.PIDFile)
		unclaim(p.claim)
	})
}

// lastWords gives the end of what the child printed, for an error text.
func (p *Process) lastWords() string {
	const most = 800
	b, err := os.ReadFile(p.cfg.LogFile)
	if err != nil || int64(len(b)) <= p.from {
		return ""
	}
	b = b[p.from:]
	return "\n" + string(b[max(0, len(b)-most):])
}
