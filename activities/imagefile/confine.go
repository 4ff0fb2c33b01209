package imagefile

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits bound what a program may use that reads an image. Zero means the default.
type Limits struct {
	CPU    time.Duration // whole seconds
	Memory int64         // bytes of address space
	Wall   time.Duration
}

// The defaults. An honest image needs some hundredths of a second.
const (
	defaultCPU    = 30 * time.Second
	defaultMemory = 1 << 30
	defaultWall   = 5 * time.Minute
)

const (
	mostThreads = 128
	mostFiles   = 64
)

// ErrCost says that a program ended at its limit of CPU, memory or output, or crashed. With
// the same image it would again.
var ErrCost error = refusal("it costs too much to be read")

// ErrTime says that a program did not end in time and used little CPU: it waited, for the
// host's storage most likely. That is no word on the image.
var ErrTime error = refusal("it could not be read in time, since the host's storage is slow")

// Each program runs as a user of its own, so that what gets hold of one reaches no other:
// a number that no account has (systemd's list of them calls the range unused).
const (
	firstUser = 0x70000000
	userMask  = 0x0fffffff
)

// Confined is a program that reads an image.
type Confined struct {
	*exec.Cmd

	limits Limits
	ctx    context.Context // of the limit of time
	cancel context.CancelFunc
}

// Close lets go of what the command holds, when it has ended or was not begun.
func (c *Confined) Close() { c.cancel() }

// Command is exec.Command for a program that reads an image and writes to no file. No program that it
// starts, setuid or not, has more rights than it. With a file it has a user, a network and
// process ids of its own, and reads the file as /dev/fd/N, where N is 3 + the number of files that
// the caller puts before it into ExtraFiles. What everybody may of the host's file system, it may,
// too: read files and connect to sockets that are open to all. Everybody must be allowed to
// read the file, as far as its mode says; the folders above may keep them out. Without root's
// rights, and without a file, it keeps the caller's user and namespaces. The caller closes the
// command in the end.
func Command(ctx context.Context, l Limits, image *os.File, name string, args ...string) (*Confined, error) {
	program, err := exec.LookPath(name) // setpriv would hide that there is none
	if err != nil {
		return nil, err
	}
	l = l.orDefault()
	c := &Confined{limits: l}
	c.ctx, c.cancel = context.WithTimeout(ctx, l.Wall)
	before := []string{
		"--no-new-privs", "prlimit", "--cpu=" + strconv.FormatInt(int64(l.CPU/time.Second), 10), "--as=" + strconv.FormatInt(l.Memory, 10),
		"--core=0", "--fsize=0", "--nofile=" + strconv.Itoa(mostFiles),
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if image != nil && os.Geteuid() == 0 {
		user := newUser()
		attr.Credential = &syscall.Credential{Uid: user, Gid: user}
		attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID
		before = append(before, "--nproc="+strconv.Itoa(mostThreads)) // of that user
	}
	c.Cmd = exec.CommandContext(c.ctx, "setpriv", append(append(before, "--", program), args...)...)
	c.Cmd.SysProcAttr = attr
	c.Cmd.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Cmd.WaitDelay = 5 * time.Second
	c.Cmd.Dir = "/"
	c.Cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	return c, nil
}

// Run is exec.Cmd's, and ends with this process.
func (c *Confined) Run() error {
	// The kernel's signal for that comes when the thread that forked ends: this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return c.Cmd.Run()
}

// CheckConfinement says why programs that read images cannot be confined on this machine.
// The file is any that everybody may read.
func CheckConfinement(ctx context.Context, file *os.File) error {
	c, err := Command(ctx, Limits{}, file, "true")
	if err == nil {
		defer c.Close()
		c.ExtraFiles = []*os.File{file}
		err = c.Run()
	}
	if err != nil {
		return fmt.Errorf("programs that read tenants' images cannot be confined here; it takes setpriv and prlimit (of util-linux), "+
			"the capabilities CAP_SYS_ADMIN and CAP_SETUID, and all user ids: %w", err)
	}
	return nil
}

func (l Limits) orDefault() Limits {
	if l.CPU == 0 {
		l.CPU = defaultCPU
	}
	if l.Memory == 0 {
		l.Memory = defaultMemory
	}
	if l.Wall == 0 {
		l.Wall = defaultWall
	}
	return l
}

func newUser() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return firstUser | binary.BigEndian.Uint32(b[:])&userMask
}

// Lend gives a pipe's end to the program's user, who must open it anew as /dev/fd/N.
func (c *Confined) Lend(pipe *os.File) error {
	if who := c.SysProcAttr.Credential; who != nil {
		if err := pipe.Chown(int(who.Uid), int(who.Gid)); err != nil {
			return err
		}
	}
	c.ExtraFiles = append(c.ExtraFiles, pipe)
	return nil
}

// Failure says why the program failed, with what it printed: an ErrCost if it was for
// the image, an ErrTime if nobody can say for what, the caller's context's error if that has ended, else err as it is.
func (c *Confined) Failure(ctx context.Context, err error, stderr string) error {
	if err == nil || ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	if c.ctx.Err() != nil && c.ProcessState != nil && c.cpu() < c.limits.CPU { // with more the kernel would have ended it
		return fmt.Errorf("%w: %s of time: %w", ErrTime, c.limits.Wall, err)
	}
	if why := c.cost(stderr); why != "" {
		return fmt.Errorf("%w: %s: %w", ErrCost, why, err)
	}
	return err
}

// cost says which limit the program met; "" for none. The kernel kills also where
// the host has no memory left, which is not for the image.
func (c *Confined) cost(stderr string) string {
	switch state := c.ProcessState; {
	case state == nil:
		return ""
	case c.cpu() >= c.limits.CPU/2: // the kernel ends it by another clock than this one
		return fmt.Sprintf("%s of CPU", c.limits.CPU)
	case crashed(state):
		return "it crashed"
	}
	for _, text := range []string{"Cannot allocate memory", "ailed to allocate", "ould not allocate"} {
		if strings.Contains(stderr, text) {
			return fmt.Sprintf("%d bytes of memory", c.limits.Memory)
		}
	}
	return ""
}

// cpu is the CPU that the ended program used.
func (c *Confined) cpu() time.Duration {
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

func crashed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() != syscall.SIGKILL && status.Signal() != syscall.SIGTERM
}
