package mount

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"strongroom/activities/folder"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// cephFS mounts shares of CephFS with the kernel's client where there is one, and else with ceph-fuse, which
// goes on by itself when the worker ends, and ends with its mount. What that is told is in a folder in memory while it begins.
type cephFS struct {
	*Activities
	place
}

const (
	cephFuse = "ceph-fuse"
	// cephPatience is how long ceph-fuse looks for a monitor that answers, in seconds;
	// mountPatience ends one that does not even give up.
	cephPatience  = 20
	mountPatience = 40 * time.Second
	// lookPatience is how long a storage may take to say what a mount point is.
	lookPatience = 10 * time.Second
	// endPatience is how long ceph-fuse may take to write what it holds once it is unmounted.
	endPatience = 30 * time.Second

	sourceName = "source" // beside the mount point: what is mounted there
	pidName    = "pid"    // and by which process
	oldSuffix  = ".old"   // of the note of one before, which may still write: "<its id>.old"

	confName = "ceph.conf" // in the folder of what ceph-fuse is told
)

// at implements protocol. The mounts' table does not say what a mount by FUSE is of.
func (c cephFS) at(ctx context.Context, id compute.ShareID, point string, from Export) (state, error) {
	noted, err := os.ReadFile(filepath.Join(c.Dir, id.String(), sourceName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return elsewhere, failed(id, "read what is mounted", err)
	}
	switch isDead, err := c.isDead(ctx, id, point); {
	case err != nil:
		return elsewhere, err
	case isDead:
		return dead, nil
	case string(noted) == from.digest():
		return here, c.finish(id, point)
	}
	return elsewhere, nil
}

// isDead reports whether whoever mounted a share was shut out, or ended. Unavailable: that is not known.
func (a *Activities) isDead(ctx context.Context, id compute.ShareID, point string) (bool, error) {
	said, err := a.looks.find(ctx, point)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, errSilent):
		return false, compute.Errorf(compute.Unavailable, "share %s is mounted, and its storage does not answer", id)
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
var errSilent = errors.New("no answer")

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

// finish does the rest for an attempt that was cut off right after the mount was made.
func (c cephFS) finish(id compute.ShareID, point string) error {
	_, err := os.Lstat(c.told(point))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = harmless(point)
	}
	if err == nil {
		err = os.RemoveAll(c.told(point))
	}
	if err != nil {
		return failed(id, "finish its mount", err)
	}
	return nil
}

// What a configuration file of Ceph takes as it stands.
var (
	plainLocation = regexp.MustCompile(`\A([A-Za-z0-9.,:\[\]-]+):(/[A-Za-z0-9._/+=@~-]*)\z`)
	plainUser     = regexp.MustCompile(`\A[A-Za-z0-9_-]+\z`)
)

// mount implements protocol.
func (c cephFS) mount(ctx context.Context, id compute.ShareID, point string, from Export) error {
	place := plainLocation.FindStringSubmatch(from.Path)
	if place == nil || !plainUser.MatchString(from.User) {
		return compute.Errorf(compute.Conflict, "share %s: where it is exported cannot be read", id)
	}
	if err := c.clear(ctx, c.place, id); err != nil {
		return err
	}
	if err := c.keep(c.place, id); err != nil {
		return err
	}
	f := folder.Folder{Path: filepath.Join(c.Dir, id.String())}
	if err := f.Write(sourceName, []byte(from.digest())); err != nil {
		return failed(id, "note what is mounted", err)
	}
	if kernelHas(ctx, cephType) {
		return c.byKernel(ctx, id, point, from)
	}
	if _, err := exec.LookPath(cephFuse); err != nil {
		return compute.Errorf(compute.Conflict, "share %s: this host's kernel has no CephFS, and ceph-fuse is not installed", id)
	}
	told := c.told(point)
	if err := os.Mkdir(told, 0o700); err != nil {
		return failed(id, "make its settings", err)
	}
	defer func() { _ = os.RemoveAll(told) }()
	conf := filepath.Join(told, confName)
	text := fmt.Sprintf(clientConf, place[1], place[2], filepath.Join(told, "keyring"), f.File(pidName), cephPatience)
	err := os.WriteFile(conf, []byte(text), 0o600)
	if err == nil {
		err = writeKeyring(filepath.Join(told, "keyring"), from.User, from.Key)
	}
	if err != nil {
		return failed(id, "write its settings", err)
	}
	if err := c.run(ctx, id, told, "-c", conf, "--id", from.User, point); err != nil {
		return errors.Join(err, c.endAt(ctx, c.place, id))
	}
	if mounted, err := c.isMounted(point); err != nil || !mounted {
		return refused(id, "it could not be mounted", orElse(err, errors.New("ceph-fuse ended without a mount")))
	}
	if err := harmless(point); err != nil {
		return errors.Join(refused(id, "it could not be mounted", err), c.endAt(ctx, c.place, id))
	}
	return nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// clientConf is all that ceph-fuse knows. It stays in no file of the host's. Once it is in the
// background it says nothing: it closes its standard error there, which is a pipe of its own file
// system then, and a log in that pipe has it wait for ever.
const clientConf = `[global]
mon_host = %s
client_mountpoint = %s
keyring = %s
pid_file = %s
client_mount_timeout = %d
log_file =
log_to_file = false
log_to_stderr = false
err_to_stderr = false
admin_socket =
run_dir =
`

// told is the folder of what ceph-fuse is told.
func (a *Activities) told(point string) string {
	sum := sha256.Sum256([]byte(point))
	return filepath.Join(a.Memory, "strongroom-mount-"+hex.EncodeToString(sum[:8]))
}

// writeKeyring writes a user's key where ceph-fuse reads it. No string holds it.
func writeKeyring(file, user string, key *secret.Passphrase) error {
	return key.Use(func(value []byte) error {
		text := append([]byte("[client."+user+"]\n\tkey = "), value...)
		text = append(text, '\n')
		defer clear(text)
		return os.WriteFile(file, text, 0o600)
	})
}

// run runs ceph-fuse until it has gone into the background, which is when the mount is made.
func (c cephFS) run(ctx context.Context, id compute.ShareID, told string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, mountPatience)
	defer cancel()
	said, err := os.OpenFile(filepath.Join(told, "said"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return failed(id, "write its settings", err)
	}
	defer func() { _ = said.Close() }()
	cmd := command(ctx, cephFuse, args...)
	cmd.Stdout, cmd.Stderr = said, said // no pipe: who goes into the background may keep it
	err = cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return compute.Errorf(compute.Unavailable, "share %s: ceph-fuse was not done in time", id)
	}
	text, _ := os.ReadFile(said.Name())
	return compute.Errorf(compute.Conflict, "share %s: it could not be mounted: %w%s", id, err, reason(text))
}

// errno is how Ceph's programs say an error of the system; the rest of what they say names
// monitors and paths (SH-25).
var errno = regexp.MustCompile(`\((\d+)\) [A-Z]`)

// reason gives the last error that ceph-fuse told of, in the system's words.
func reason(said []byte) string {
	if bytes.Contains(said, []byte("failed to fetch mon config")) {
		return ": no monitor of Ceph's answers, or none knows the key"
	}
	all := errno.FindAllSubmatch(said, -1)
	if len(all) == 0 {
		return ""
	}
	number, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		return ""
	}
	return ": " + syscall.Errno(number).Error()
}

func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"} // no Ceph settings of the worker's
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// endBegun ends the ceph-fuse of an attempt that was cut off before its mount was made, and forgets
// what that was told; found says that there was such an attempt. Without it a mount might come
// up later, below the next one. Nobody has written to it.
func (a *Activities) endBegun(p place, id compute.ShareID) (found bool, err error) {
	point := a.Path(id)
	told := a.told(point)
	if _, err := os.Lstat(told); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, failed(id, "look for an attempt that was cut off", err)
	}
	old, err := a.servedBefore(id)
	if err != nil {
		return false, err
	}
	begun := func(pid int) bool {
		return !slices.Contains(old, pid) && p.serves(pid, point) && p.has(pid, filepath.Join(told, confName))
	}
	for end := time.Now().Add(endPatience); ; time.Sleep(20 * time.Millisecond) { // it goes into the background by a fork
		left, err := p.kill(begun)
		if err != nil {
			return false, failed(id, "end an attempt that was cut off", err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			return false, compute.Errorf(compute.Unavailable, "share %s: a ceph-fuse that was cut off does not end", id)
		}
	}
	if err := os.RemoveAll(told); err != nil {
		return false, failed(id, "clear its settings", err)
	}
	return true, nil
}

// keep keeps the note of a process that still serves the mount that was there before, under
// another name: ceph-fuse writes its own, and would not start where another holds the file.
func (a *Activities) keep(p place, id compute.ShareID) error {
	f := folder.Folder{Path: filepath.Join(a.Dir, id.String())}
	pid, err := readPID(f.File(pidName))
	if err == nil && pid > 0 && p.serves(pid, a.Path(id)) {
		err = os.Rename(f.File(pidName), f.File(strconv.Itoa(pid)+oldSuffix))
	}
	if err != nil {
		return failed(id, "note who served it before", err)
	}
	return nil
}

// readPID reads the note of a process; 0: there is none, or it had not begun.
func readPID(file string) (int, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid, nil
}

// servedBefore gives the processes that keep noted.
func (a *Activities) servedBefore(id compute.ShareID) (pids []int, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, id.String()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failed(id, "list who served it before", err)
	}
	for _, e := range entries {
		if text, ok := strings.CutSuffix(e.Name(), oldSuffix); ok {
			if pid, err := strconv.Atoi(text); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// ended waits until the processes that served a share's mounts have ended: until then they may
// write to the storage, and whoever denies them access loses that.
func (a *Activities) ended(ctx context.Context, p place, id compute.ShareID) error {
	f := folder.Folder{Path: filepath.Join(a.Dir, id.String())}
	pid, err := readPID(f.File(pidName))
	if err != nil {
		return failed(id, "read who mounted it", err)
	}
	old, err := a.servedBefore(id)
	if err != nil {
		return err
	}
	serves := func(pid int) bool { return pid > 0 && p.serves(pid, a.Path(id)) }
	for end := time.Now().Add(endPatience); serves(pid) || slices.ContainsFunc(old, serves); {
		if time.Now().After(end) {
			return compute.Errorf(compute.Unavailable, "share %s is unmounted, and ceph-fuse still writes to its storage", id)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, pid := range old {
		if err := os.Remove(f.File(strconv.Itoa(pid) + oldSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(id, "forget who served it before", err)
		}
	}
	return nil
}
