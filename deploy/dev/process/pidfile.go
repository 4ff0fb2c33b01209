package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrInUse means that another process that lives started what the pid file names.
var ErrInUse = errors.New("is in use by another process")

// claimPIDFile locks the pid file for as long as this process lives, or until
// the returned file is closed, and ends what an earlier owner left running.
func claimPIDFile(ctx context.Context, cfg Config) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(cfg.PIDFile), 0o755); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	lock, err := os.OpenFile(cfg.PIDFile+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %s %w", cfg.Name, filepath.Dir(cfg.PIDFile), ErrInUse)
		}
		return nil, fmt.Errorf("%s: lock %s: %w", cfg.Name, cfg.PIDFile, err)
	}
	if err := endLeftover(ctx, cfg); err != nil {
		unclaim(lock)
		return nil, err
	}
	return lock, nil
}

// unclaim gives the pid file back. To close it is not enough: a child that is just
// being forked elsewhere holds the lock with its copy until it has become its program.
func unclaim(lock *os.File) {
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN)
	lock.Close()
}

// endLeftover ends the process that the pid file names, if it is still that one.
func endLeftover(ctx context.Context, cfg Config) error {
	pid, running := Named(cfg.PIDFile)
	if !running {
		return nil
	}
	sig, deadline := cfg.StopSignal, time.Now().Add(cfg.Patience)
	for running {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%s: an earlier one, pid %d: %w", cfg.Name, pid, err)
		}
		if time.Now().After(deadline) {
			sig = syscall.SIGKILL
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: an earlier one, pid %d, does not end: %w", cfg.Name, pid, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
		_, running = Named(cfg.PIDFile)
	}
	return nil
}

// Named gives the process that a pid file names, if it still runs. A process
// that got the same id later started at another time and does not count.
func Named(pidFile string) (pid int, running bool) {
	b, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, false
	}
	word, since, found := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, err = strconv.Atoi(word)
	if err != nil || !found || pid <= 0 {
		return 0, false
	}
	now, err := startTime(pid)
	return pid, err == nil && now == since
}

// WritePIDFile writes "<pid> <start time>"; it appears whole.
func WritePIDFile(path string, pid int) error {
	since, err := startTime(pid)
	if errors.Is(err, fs.ErrNotExist) {
		since = "0" // it ended already: the file names nobody
	} else if err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, fmt.Appendf(nil, "%d %s\n", pid, since), 0o644); err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	return os.Rename(temporary, path)
}

// startTime is when a process started, in the kernel's ticks since boot. It does
// not exist for a zombie: that one only waits to be collected.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) {
		return "", fs.ErrNotExist
	}
	if err != nil {
		return "", err
	}
	// The second field is the program's name in brackets and may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", fs.ErrNotExist
	}
	return fields[19], nil
}
