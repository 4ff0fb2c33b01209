package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"strongroom/compute"
)

// CheckMoveInput names the disks of a server that is to be moved, also while its guest runs.
type CheckMoveInput struct {
	Server compute.ServerID `json:"server"`
	Disks  []compute.Disk   `json:"disks"`
	NVRAM  string           `json:"nvram,omitempty"` // compute.Server.NVRAM
}

// CheckMoveResult is what the disks have by now.
type CheckMoveResult struct {
	Bytes      int64 `json:"bytes"`                 // that are written where they go to, LUKS headers and tables among them
	NVRAMBytes int64 `json:"nvram_bytes,omitempty"` // of the UEFI variables; 0: there are none, or the host is of an older release
}

// CheckMove is the activity disk.CheckMove: it refuses what cannot be sent or copied, before a guest
// is stopped for it, and tells how large the rest is. Conflict: a disk is no file; Corrupt: it is not
// there, or the UEFI variables are not.
func (a *Activities) CheckMove(_ context.Context, in CheckMoveInput) (out CheckMoveResult, err error) {
	for _, d := range in.Disks {
		bytes, err := a.toSend(in.Server, d)
		if err != nil {
			return out, err
		}
		out.Bytes += bytes
	}
	if in.NVRAM != "" {
		out.NVRAMBytes, err = a.nvramBytes(in.Server, in.NVRAM)
	}
	return out, err
}

// toSend is how much of a disk another host would be sent now.
func (a *Activities) toSend(server compute.ServerID, d compute.Disk) (int64, error) {
	if d.OnDevice() {
		return 0, compute.Errorf(compute.Conflict, "disk %s is a logical volume: it cannot be moved or resized", d.ID)
	}
	s, err := a.OpenToSend(server, d.Name())
	if compute.Is(err, compute.NotFound) {
		return 0, compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
	}
	if err != nil {
		return 0, err
	}
	return s.Layout().dataBytes(0), s.Close()
}

// CheckRoomInput says what is to come to a host.
type CheckRoomInput struct {
	Server  compute.ServerID `json:"server"`
	Disks   int              `json:"disks"` // how many
	Bytes   int64            `json:"bytes"` // that are to be written of them; those of new disks do not count
	Project string           `json:"project,omitempty"`
	Image   *compute.Image   `json:"image,omitempty"`  // what the root disk leans on; nil: nothing
	NVRAM   *ComingNVRAM     `json:"nvram,omitempty"`  // nil: none come
	Absent  []string         `json:"absent,omitempty"` // files of the server that the host must not have, since they are to come
}

// ComingNVRAM are UEFI variables that are to come to a host.
type ComingNVRAM struct {
	Firmware compute.Firmware `json:"firmware"`
	Machine  string           `json:"machine,omitempty"` // compute.Server.MachineType
	Bytes    int64            `json:"bytes"`
}

// CheckRoom is the activity disk.CheckRoom: it refuses disks for which the host has no room now, the
// image under them included where the host does not have it, and UEFI variables that no firmware of the host reads.
// What else is written meanwhile nobody knows before. NoHost: no room, no such firmware, or the host keeps disks in a
// pool; Conflict: it has what is to come, as Ping says; Unavailable: its file systems cannot be read.
func (a *Activities) CheckRoom(_ context.Context, in CheckRoomInput) error {
	if err := a.absent(in.Server, in.Absent); err != nil {
		return err
	}
	if a.Pool.Name != "" {
		return compute.Errorf(compute.NoHost, "disks of server %s: this host keeps disks in a pool, where none come to from elsewhere", in.Server)
	}
	if v := in.NVRAM; v != nil {
		if _, err := a.Firmware.For(v.Firmware, v.Machine, v.Bytes); err != nil { // another host may have it
			return compute.Errorf(compute.NoHost, "server %s: %w", in.Server, err)
		}
	}
	image, err := a.cacheGrowth(in.Project, in.Image)
	if err == nil {
		err = room(a.InstancesDir, in.Bytes+int64(in.Disks)*headerRoom+image)
	}
	if err != nil {
		return compute.Errorf(compute.KindOf(err), "disks of server %s: %w", in.Server, err)
	}
	return nil
}

// cacheGrowth is by how much the image cache grows at most where the disks are, once it has the
// image: above its budget others go for it.
func (a *Activities) cacheGrowth(project string, img *compute.Image) (int64, error) {
	if img == nil {
		return 0, nil
	}
	path, err := a.CachedImage(project, *img)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	shared, err := sameFileSystem(a.CacheDir, a.InstancesDir)
	if err != nil || !shared {
		return 0, err
	}
	used, _, err := a.contents()
	if err != nil {
		return 0, compute.Errorf(compute.Unavailable, "image cache: %w", err)
	}
	most, err := a.budget()
	if err != nil {
		return 0, compute.Errorf(compute.Unavailable, "image cache: %w", err)
	}
	return min(img.SizeBytes, max(0, most-used)), nil
}

func sameFileSystem(one, other string) (bool, error) {
	var x, y syscall.Stat_t
	if err := errors.Join(syscall.Stat(one, &x), syscall.Stat(other, &y)); err != nil {
		return false, compute.Errorf(compute.Unavailable, "file system: %w", err)
	}
	return x.Dev == y.Dev, nil
}

// CheckExportInput names all copies that an operation makes of a server's disks.
type CheckExportInput struct {
	Copies []ExportInput    `json:"copies"`
	Server compute.ServerID `json:"server,omitzero"`
	NVRAM  string           `json:"nvram,omitempty"` // that is stored beside them (compute.Server.NVRAM)
}

// CheckExport is the activity disk.CheckExport: it refuses the copies that Export could not make
// beside each other, before a guest is stopped for them. Conflict: a disk cannot have such a copy;
// Corrupt: it is not there, or the UEFI variables are not; NoHost: no room.
func (a *Activities) CheckExport(ctx context.Context, in CheckExportInput) error {
	if in.NVRAM != "" {
		if _, err := a.nvramBytes(in.Server, in.NVRAM); err != nil {
			return err
		}
	}
	var bytes int64
	for _, c := range in.Copies {
		plan := compute.ExportPlan{Server: c.Server, Operation: c.Operation, Disk: c.Disk, Target: c.Target}
		if err := a.AllowExport(ctx, plan); err != nil {
			return err
		}
		most, err := a.mostExported(ctx, c)
		if err != nil {
			return err
		}
		bytes += most
	}
	if err := room(a.InstancesDir, bytes); err != nil {
		return compute.Errorf(compute.KindOf(err), "copies of the disks: %w", err)
	}
	return nil
}

// mostExported is the room that a copy takes at most. What the guest sees of a disk, its record
// says: its file is the guest's.
func (a *Activities) mostExported(ctx context.Context, in ExportInput) (int64, error) {
	path, err := a.diskPath(in.Server, in.Disk)
	if err != nil {
		return 0, err
	}
	o := origin{path: path, info: imageInfo{VirtualSize: mostDiskBytes(in.Disk)}}
	if in.Image != nil {
		if o.backing, err = a.CachedImage(in.Project, *in.Image); err != nil {
			return 0, err
		}
	}
	if err := o.measure(); err != nil {
		return 0, lacking(ctx, in.Disk, err)
	}
	return o.most(in.Target), nil
}
