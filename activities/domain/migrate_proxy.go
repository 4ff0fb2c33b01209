package domain

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// qemuFolder is libvirt's own folder that QEMU's user owns: it tells who that is.
const qemuFolder = "/var/lib/libvirt/qemu"

// DefaultSaveDir is where libvirt keeps the memory of suspended guests.
const DefaultSaveDir = qemuFolder + "/save"

// moveFolder is the folder with the sockets of a server that is on its way.
func (a *Activities) moveFolder(id compute.ServerID) string {
	return filepath.Join(a.RunDir, id.String()+".move")
}

// sockets are those of a server on its way, by the names of their streams. They are short: the
// path of a socket has 107 bytes at most.
func sockets(dir string) map[string]string {
	return map[string]string{compute.StreamState: filepath.Join(dir, "s"), compute.StreamDisks: filepath.Join(dir, "d")}
}

// makeArrivalFolder makes the folder anew for sockets that QEMU makes.
func (a *Activities) makeArrivalFolder(id compute.ServerID) (string, error) {
	dir := a.moveFolder(id)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, a.makeQEMUFolder(dir)
}

// makeDepartureFolder makes the folder anew for sockets that this worker makes. It is root's alone, for QEMU's user must not put anything in their
// place while they are given to it (S4), until openToGroup.
func (a *Activities) makeDepartureFolder(id compute.ServerID) (string, error) {
	dir := a.moveFolder(id)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// openToGroup lets a group enter a folder of root's.
func openToGroup(dir string, gid int) error {
	return errors.Join(os.Lchown(dir, -1, gid), os.Chmod(dir, 0o750))
}

// moveParams tell libvirt the sockets.
func moveParams(dir string) []libvirt.TypedParam {
	at := sockets(dir)
	return []libvirt.TypedParam{
		text("migrate_uri", "unix://"+at[compute.StreamState]), text("disks_uri", "unix://"+at[compute.StreamDisks]),
	}
}

func text(field, value string) libvirt.TypedParam {
	return libvirt.TypedParam{Field: field, Value: *libvirt.NewTypedParamValueString(value)}
}

// proxy takes what this host's QEMU sends to sockets here, and sends it to those of the other host.
type proxy struct {
	dir       string
	listeners []net.Listener
	cancel    context.CancelFunc
	open      sync.WaitGroup
}

func (d *departure) openProxy(ctx context.Context, hosts Arrivals, to compute.Agent) (*proxy, error) {
	uid, gid, err := d.qemuUser()
	if err != nil {
		return nil, err
	}
	dir, err := d.makeDepartureFolder(d.Server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &proxy{dir: dir, cancel: cancel}
	for name, path := range sockets(dir) {
		l, err := net.Listen("unix", path)
		if err == nil {
			p.listeners = append(p.listeners, l)
			err = errors.Join(os.Chmod(path, 0o600), os.Lchown(path, uid, gid)) // QEMU's user alone connects
		}
		if err != nil {
			p.close()
			return nil, err
		}
		p.open.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				p.open.Go(func() {
					if err := d.join(ctx, conn.(*net.UnixConn), hosts, to, name); err != nil && ctx.Err() == nil {
						if compute.Is(err, compute.Forbidden) || compute.Is(err, compute.Corrupt) {
							d.refused.CompareAndSwap(nil, &err)
						}
						d.Logger.WarnContext(ctx, "a stream to another host broke off", "server", d.Server, "host", to.Name, "stream", name, "error", err)
					}
				})
			}
		})
	}
	if err := openToGroup(dir, gid); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *proxy) params() []libvirt.TypedParam { return moveParams(p.dir) }

func (p *proxy) close() {
	p.cancel()
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.open.Wait()
	_ = os.RemoveAll(p.dir)
}

func (d *departure) join(ctx context.Context, conn *net.UnixConn, hosts Arrivals, to compute.Agent, name string) error {
	defer func() { _ = conn.Close() }()
	other, err := hosts.Stream(ctx, to, d.arrival(), name)
	if err != nil {
		return err
	}
	return Join(ctx, conn, other)
}

// Join copies between two streams until both have ended, one has failed, or ctx ends. It closes
// both.
func Join(ctx context.Context, a, b Stream) error {
	stop := context.AfterFunc(ctx, func() {
		_ = a.Close()
		_ = b.Close()
	})
	defer stop()
	failed := make(chan error, 2)
	pass := func(to, from Stream) {
		_, err := io.Copy(to, from)
		if err == nil {
			failed <- to.CloseWrite()
			return
		}
		failed <- err // before the other one fails by it
		_ = a.Close()
		_ = b.Close()
	}
	go pass(a, b)
	go pass(b, a)
	first := <-failed
	second := <-failed
	_ = a.Close()
	_ = b.Close()
	if first == nil {
		first = second
	}
	return first
}

// removeMoveFolder removes what a move left.
func (a *Activities) removeMoveFolder(id compute.ServerID) error {
	if err := os.RemoveAll(a.moveFolder(id)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
