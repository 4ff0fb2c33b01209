package domain

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// makeQEMUFolder makes a folder of QEMU's user in the run folder, if there is none, for sockets that QEMU makes. Nobody but root and that user
// gets into it. Root connects to sockets in it by dialQEMU alone.
func (a *Activities) makeQEMUFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	uid, gid, err := a.qemuUser()
	if err != nil {
		return err
	}
	return os.Lchown(dir, uid, gid)
}

// qemuUser is the user as whom guests run.
func (a *Activities) qemuUser() (uid, gid int, err error) {
	is, err := os.Stat(a.QEMUDir)
	if err != nil {
		return 0, 0, err
	}
	stat := is.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid), nil
}

// dialQEMU connects to a socket in a folder of QEMU's user, of a server. A guest may have that user in its power, and root is let in everywhere: a
// symbolic link is not followed, and who is not that user is not spoken to (S2). Corrupt: it is no socket of QEMU's user.
func (a *Activities) dialQEMU(ctx context.Context, server compute.ServerID, path string) (*net.UnixConn, error) {
	conn, err := a.dialSocket(ctx, path)
	if compute.Is(err, compute.Corrupt) {
		a.Logger.ErrorContext(ctx, "something else is in the place of a socket of a server's QEMU, as when its guest has broken out", "server", server, "error", err)
	}
	return conn, err
}

func (a *Activities) dialSocket(ctx context.Context, path string) (*net.UnixConn, error) {
	uid, _, err := a.qemuUser()
	if err != nil {
		return nil, err
	}
	// The folder is in one of root's: only the last name can be another thing.
	at, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	var is unix.Stat_t
	if err := unix.Fstat(at, &is); err != nil {
		return nil, err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, compute.Errorf(compute.Corrupt, "%s is no socket", filepath.Base(path))
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", at)) // of what was looked at
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	who, err := peer(socket)
	if err == nil && int(who.Uid) != uid {
		err = compute.Errorf(compute.Corrupt, "%s is served by process %d of user %d, and not by a machine of user %d", filepath.Base(path), who.Pid, who.Uid, uid)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return socket, nil
}

// peer is who listened at the other end of a connection when it was made.
func peer(conn *net.UnixConn) (who *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = failed
	}
	return who, err
}
