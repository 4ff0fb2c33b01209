package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"strongroom/compute"
)

// ReceiveInput asks for a disk that another host has.
type ReceiveInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"` // that intends the disk_file here, on the ledger
	Project   string              `json:"project,omitempty"`
	Disk      compute.Disk        `json:"disk"`            // as the other host has it
	Image     *compute.Image      `json:"image,omitempty"` // what it leans on, in this host's cache; nil: nothing
	From      compute.Agent       `json:"from"`
}

// incoming is a file of another host that is to be received.
type incoming struct {
	compute.Transfer // what the other host is asked for
	from             compute.Agent
	most             int64 // bytes that it may have
}

func (in ReceiveInput) incoming() incoming {
	return incoming{
		Transfer: compute.Transfer{
			Server: in.Server, Operation: in.Operation, Kind: compute.ThingDiskFile, Name: in.Server.String() + "/" + in.Disk.Name(),
		},
		from: in.From, most: mostFileBytes(in.Disk),
	}
}

// Receive is the activity disk.Receive: it ensures that the server's folder has the disk as
// another host has it, byte for byte: it is neither decrypted nor encrypted, no key is needed.
// The file appears under its name when all of it is there. An attempt goes on after the last
// part that is durable. Of several at once one receives, and the others are Unavailable for
// some seconds.
//
// Conflict: the guest runs on the other host, or one of the hosts keeps the disk in a pool or as a
// logical volume; Forbidden: no operation that runs is to have it here; NotFound: this host's
// cache has lost the image under it; NoHost: no room; Corrupt: what came is not what the other
// host has, or not the disk, or larger than that can be; Unavailable: the other host does not
// answer, or broke off.
func (a *Activities) Receive(ctx context.Context, in ReceiveInput) error {
	d := in.Disk
	switch {
	case d.OnDevice():
		return compute.Errorf(compute.Conflict, "disk %s is a logical volume: these do not go from host to host", d.ID)
	case a.Pool.Name != "":
		return compute.Errorf(compute.Conflict, "disk %s: this host keeps disks in a pool, where none of another host's come to", d.ID)
	}
	path, err := a.diskPath(in.Server, d)
	if err != nil {
		return err
	}
	unlock, err := tryLockFile(path)
	if errors.Is(err, syscall.EWOULDBLOCK) { // to wait here would hold a slot of the host
		return busy{compute.Errorf(compute.Unavailable, "disk %s: another attempt is receiving it", d.ID)}
	}
	if err != nil {
		return failed(ctx, err, "disk %s: lock of its file", d.ID)
	}
	defer unlock()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil { // it got its name when it was whole
			err = removeNote(path)
		}
		if err != nil {
			return failed(ctx, err, "disk %s", d.ID)
		}
		return nil
	}
	backing, release, err := a.underReceived(ctx, in)
	if err != nil {
		return err
	}
	defer release()
	isThat := func(file string) error { return a.isThatDisk(ctx, file, d, backing) }
	if err := a.receive(ctx, in.incoming(), path, isThat); err != nil {
		return failed(ctx, err, "disk %s", d.ID)
	}
	return nil
}

// underReceived is the image that the disk leans on, which stays until release is called.
func (a *Activities) underReceived(ctx context.Context, in ReceiveInput) (path string, release func(), err error) {
	if in.Image == nil {
		return "", func() {}, nil
	}
	if path, err = a.CachedImage(in.Project, *in.Image); err == nil {
		release, err = a.hold(ctx, CreateInput{Image: in.Image}, path)
	}
	return path, release, err
}

// receive makes the file of what the other host sends, under the file's lock. isThat is asked of
// what came before it gets its name.
func (a *Activities) receive(ctx context.Context, in incoming, path string, isThat func(file string) error) error {
	if a.Hosts == nil {
		return compute.Errorf(compute.Conflict, "this host receives nothing of others")
	}
	layout, err := a.Hosts.Layout(ctx, in.from, in.Transfer)
	if err != nil {
		return err
	}
	if err := layout.check(in.most); err != nil {
		return err
	}
	r, err := openReceived(path, layout, in)
	if err != nil {
		return err
	}
	defer r.close()
	began := r.next
	if err := a.fill(ctx, r, in); err != nil {
		return err
	}
	if err := isThat(r.file.Name()); err != nil {
		return err
	}
	if err := errors.Join(a.finish(r.file, path), removeNote(path)); err != nil {
		return err
	}
	a.Logger.InfoContext(ctx, "received a file", "server", in.Server, "file", filepath.Base(path), "from", in.from.Name,
		"bytes", layout.Bytes, "sent", layout.dataBytes(began))
	return nil
}

// isThatDisk sees that a whole file is the disk that was asked for, and that it leans on this
// host's copy of its image.
func (a *Activities) isThatDisk(ctx context.Context, path string, d compute.Disk, backing string) error {
	i, err := a.idle(ctx, path, "qcow2")
	if err == nil && a.sameImage(i.BackingFilename, backing) {
		if err = setBackingFile(path, backing); err == nil {
			i, err = a.idle(ctx, path, "qcow2")
		}
	}
	switch {
	case err != nil:
		return err
	case i.Encrypted != d.Encrypted || i.BackingFilename != backing:
		return compute.Errorf(compute.Corrupt, "it is encrypted: %t, its backing file is %q", i.Encrypted, i.BackingFilename)
	case i.VirtualSize > mostDiskBytes(d), d.SizeMB > 0 && i.VirtualSize != d.SizeMB*mib:
		return compute.Errorf(compute.Corrupt, "it has %d bytes for its guest", i.VirtualSize)
	}
	return nil
}

// sameImage reports whether a backing file is the other host's copy of an image, in a cache
// that has another path there.
func (a *Activities) sameImage(theirs, ours string) bool {
	name, err := filepath.Rel(a.CacheDir, ours)
	return ours != "" && err == nil && theirs != ours && strings.HasSuffix(theirs, string(filepath.Separator)+name)
}
