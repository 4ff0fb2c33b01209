package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// with runs as three processes, told apart by their names. The one that was started makes namespaces of processes and mounts, and holds them
// by the second, which is their first process. When that one ends, the kernel kills whoever is left and takes the mounts away, and with
// these the network namespaces that have names. So no process and no mount of a run outlives it, in whatever way it ends. What else it made
// on the machine, as folders, loop devices and links, stays where the tests do not remove it. The third process does the work.
const (
	firstName  = "with:first" // of the namespaces
	insideName = "with:inside"
)

// enclose runs this program once more inside of namespaces of its own, and returns the exit code.
func enclose() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that forked ends
	ready, tell, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	first := exec.Command(self)
	first.Args = slices.Concat([]string{firstName}, os.Args[1:])
	first.Stdin, first.Stdout, first.Stderr, first.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{tell}
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	signals := catch()
	if err := first.Start(); err != nil {
		return 0, fmt.Errorf("namespaces of its own: %w", err)
	}
	_ = tell.Close()
	_, _ = ready.Read(make([]byte, 1)) // it ends when the first process closes the pipe: the kernel drops signals before that
	go pass(signals, first.Process.Pid)
	var exit *exec.ExitError
	if err := first.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return code(first.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// runFirst is the first process of the namespaces: it has the mounts and /proc be theirs, runs the third process and buries, as every
// first process must, those whose parents are gone. Those that still run at the end are named before the kernel kills them.
func runFirst() (int, error) {
	signals := catch()
	if err := os.NewFile(3, "ready").Close(); err != nil {
		return 0, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("private mounts: %w", err)
	}
	self, err := os.Executable() // while /proc knows it
	if err != nil {
		return 0, err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return 0, fmt.Errorf("/proc: %w", err)
	}
	if err := ownFiles(); err != nil {
		return 0, err
	}
	child, err := syscall.ForkExec(self, slices.Concat([]string{insideName}, os.Args[1:]), &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, err
	}
	go pass(signals, child)
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case pid == child:
			left(os.Stderr)
			return code(status), nil
		}
	}
}

// ownFiles gives the namespaces a folder for the names of network namespaces, so that none stays without what it names, and one for files in
// memory, as large as what is free there now. A database outside may have its socket in that one, so it stays where one is named.
func ownFiles() error {
	const names = "/run/netns"
	if err := os.MkdirAll(names, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", names, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("%s: %w", names, err)
	}
	var room unix.Statfs_t
	if err := unix.Statfs(memory, &room); err != nil || os.Getenv(database.variable) != "" {
		return nil //nolint:nilerr // there is no such folder
	}
	if err := unix.Mount("tmpfs", memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", int64(room.Bavail)*room.Bsize)); err != nil {
		return fmt.Errorf("%s: %w", memory, err)
	}
	return nil
}

// left names the processes that still run besides this one.
func left(to io.Writer) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if command, _ := os.ReadFile(filepath.Join(folder, "cmdline")); len(command) > 0 { // it has none once it has ended
			fmt.Fprintf(to, "with: still running at the end, and killed: %d %s\n", pid, strings.ReplaceAll(strings.TrimRight(string(command), "\x00"), "\x00", " "))
		}
	}
}

// catch keeps signals from ending this process, which stays to tidy up after the command. It must not ignore them: the command would inherit that.
func catch() chan os.Signal {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return signals
}

// pass sends signals on. A Ctrl-C at the terminal reached everyone: who gets it twice ends no sooner.
func pass(signals <-chan os.Signal, pid int) {
	for sig := range signals {
		_ = syscall.Kill(pid, sig.(syscall.Signal)) // it may have ended just now
	}
}

// code gives the exit code that says how a process ended, as a shell does.
func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
