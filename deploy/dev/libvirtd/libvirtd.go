package libvirtd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mode says what becomes of the guests when their libvirtd ends.
type Mode int

const (
	// Contained guests live in libvirtd's pid namespace: Stop, and the end of
	// this process in whatever way, ends libvirtd, QEMU and swtpm together.
	Contained Mode = iota
	// Lasting guests go on when libvirtd stops, and are found again by the next
	// one of the same folder, also when that is started by another process.
	Lasting
)

// Config says which libvirtd to run.
type Config struct {
	Dir      string // state folder; its path must be short (sockets live below it: at most 80 bytes)
	CacheDir string // shared by many libvirtds: keeps what was probed of QEMU, so that a new Dir starts fast; "" probes again (8 s)
	Mode     Mode
	HostUUID string // what libvirt reports as the host's uuid; "" makes one and keeps it in Dir
	Hostname string // of libvirtd's uts namespace; "" keeps the machine's
	// Cgroups: guests have cgroups, as with a distribution's libvirtd. Then no other one may run on the machine.
	Cgroups bool
	Netns   string // name of a network namespace to run in (as `ip netns` has it); "" stays in this one
	Binary  string // default /usr/sbin/libvirtd
	Logger  *slog.Logger
}

// Daemon is a running libvirtd.
type Daemon struct {
	cfg    Config
	mu     sync.Mutex
	space  *namespace
	daemon *process // the nsenter above libvirtd; ends with it
	pid    int      // of libvirtd itself, as seen from here
}

// Start makes the folder ready, starts libvirtd and returns once it answers.
// A Lasting libvirtd that an earlier process left in the folder is replaced.
func Start(ctx context.Context, cfg Config) (*Daemon, error) {
	if cfg.Binary == "" {
		cfg.Binary = "/usr/sbin/libvirtd"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Dir) > maxDir || !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("libvirtd: state folder %q: an absolute path of at most %d bytes is needed", cfg.Dir, maxDir)
	}
	if err := layOut(&cfg); err != nil {
		return nil, fmt.Errorf("libvirtd: state folder: %w", err)
	}
	d := &Daemon{cfg: cfg}
	if err := replace(ctx, cfg); err != nil {
		return nil, err
	}
	if err := d.Restart(ctx); err != nil {
		return nil, errors.Join(err, d.Stop(context.WithoutCancel(ctx)))
	}
	return d, nil
}

// Socket is libvirtd's read-write socket.
func (d *Daemon) Socket() string { return filepath.Join(d.cfg.Dir, "run", "libvirt-sock") }

// SwtpmDir is where the folders with the guests' TPM state are, as seen from outside.
func (d *Daemon) SwtpmDir() string { return filepath.Join(d.cfg.Dir, "lib", "swtpm") }

// LogDir holds libvirtd.log, qemu/<domain>.log and swtpm/libvirt/qemu/<domain>-swtpm.log.
func (d *Daemon) LogDir() string { return filepath.Join(d.cfg.Dir, "log") }

// SecretsDir is where libvirt would keep secrets that are not ephemeral.
func (d *Daemon) SecretsDir() string { return filepath.Join(d.cfg.Dir, "etc", "secrets") }

// PID is libvirtd's process id as seen from here, 0 when it is not running.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.daemon == nil || !d.daemon.running() {
		return 0
	}
	return d.pid
}

// Restart starts libvirtd again after Kill, or after it ended by itself. One
// that runs is stopped first. Guests that are still there are found again.
func (d *Daemon) Restart(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.endDaemon(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	if err := removeSockets(d.cfg.Dir); err != nil {
		return err
	}
	unlock, err := seedCapabilities(ctx, d.cfg.CacheDir, d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("libvirtd: seed of the capability cache: %w", err)
	}
	defer unlock()
	begin := time.Now()
	if err := d.launch(ctx); err != nil {
		return err
	}
	if err := d.ready(ctx); err != nil {
		return fmt.Errorf("libvirtd: %w%s", err, d.lastWords())
	}
	d.cfg.Logger.Info("libvirtd is up", "socket", d.Socket(), "pid", d.pid, "after", time.Since(begin).Round(time.Millisecond))
	return nil
}

// Kill ends libvirtd alone with SIGKILL, as a crash would, and returns when it is gone.
func (d *Daemon) Kill(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endDaemon(ctx, syscall.SIGKILL)
}

// Signal sends a signal to libvirtd alone: SIGSTOP makes it hang, SIGCONT ends that.
func (d *Daemon) Signal(sig syscall.Signal) error {
	pid := d.PID()
	if pid == 0 {
		return errors.New("libvirtd: not running")
	}
	if sig == syscall.SIGCONT {
		defer d.wake()
	}
	return syscall.Kill(pid, sig)
}

const wakeEvery = 50 * time.Millisecond

// wake continues the nsenter above libvirtd, which stops itself when libvirtd
// is stopped, and does not notice its end before it is continued.
func (d *Daemon) wake() {
	if d.daemon != nil {
		_ = d.daemon.cmd.Process.Signal(syscall.SIGCONT) // fails when it has ended, and that is what is waited for
	}
}

// Stop ends libvirtd; Contained, its guests too. Lasting guests go on; when
// there are none, nothing is left of the namespace either.
func (d *Daemon) Stop(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cfg.Mode == Lasting {
		if err := d.endDaemon(ctx, syscall.SIGTERM); err != nil {
			return err
		}
		if d.space.alive() && len(d.space.members()) > 0 {
			return nil
		}
	}
	return d.endAll(ctx)
}

// StopAll ends libvirtd and all its guests in either mode, as the machine's
// power switch would.
func (d *Daemon) StopAll(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endAll(ctx)
}

// PowerOff is StopAll of a machine that loses all that was not on its disks: of /run, too,
// nothing is left. Restart is the machine's next start.
func (d *Daemon) PowerOff(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.endAll(ctx); err != nil {
		return err
	}
	return emptyRun(d.cfg.Dir)
}

func (d *Daemon) endAll(ctx context.Context) error {
	if err := d.space.end(ctx, d.wake); err != nil {
		return err
	}
	if err := os.Remove(holderFile(d.cfg.Dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("libvirtd: %w", err)
	}
	if d.daemon == nil {
		return nil
	}
	return d.awaitEnd(ctx)
}

// Done is closed when libvirtd has ended, whoever ended it.
func (d *Daemon) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.daemon.done
}

// endDaemon ends libvirtd with a signal, and with SIGKILL when it stays.
func (d *Daemon) endDaemon(ctx context.Context, sig syscall.Signal) error {
	if d.daemon == nil || !d.daemon.running() {
		return nil
	}
	if err := syscall.Kill(d.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("libvirtd: %w", err)
	}
	patience, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if d.awaitEnd(patience) == nil {
		return nil
	}
	if err := syscall.Kill(d.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("libvirtd: %w", err)
	}
	return d.awaitEnd(ctx)
}

// awaitEnd waits for the end of libvirtd. It wakes again and again: the nsenter
// above may take note of a stop, and stop itself, after it was woken.
func (d *Daemon) awaitEnd(ctx context.Context) error {
	for {
		d.wake()
		once, cancel := context.WithTimeout(ctx, wakeEvery)
		err := d.daemon.wait(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// launch starts libvirtd in its namespace.
func (d *Daemon) launch(ctx context.Context) error {
	out, err := os.OpenFile(filepath.Join(d.LogDir(), "stdout"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("libvirtd: %w", err)
	}
	defer out.Close()
	if !d.space.alive() {
		if d.space, err = hold(ctx, d.cfg, out); err != nil {
			return err
		}
	}
	command := d.space.enter(d.cfg.Binary, "-p", pidFile(d.cfg.Dir))
	if d.daemon, err = start(command, out, d.cfg.Mode == Contained); err != nil {
		return err
	}
	d.pid, err = waitChild(ctx, d.daemon)
	return err
}

// lastWords gives the end of what libvirtd printed, for an error text.
func (d *Daemon) lastWords() string {
	var words strings.Builder
	for _, f := range []string{"stdout", "libvirtd.log"} {
		b, err := os.ReadFile(filepath.Join(d.LogDir(), f))
		if err != nil || len(b) == 0 {
			continue
		}
		words.WriteString("\n" + f + ": ..." + string(b[max(0, len(b)-600):]))
	}
	return words.String()
}

const (
	maxDir       = 80               // DIR/lib/qemu/domain-NN-instance-<8 of the uuid>/monitor.sock is seen at its short inner path only
	stopPatience = 10 * time.Second // between SIGTERM and SIGKILL
)
