package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// OpenDevices ensures that those of a server's disks that are block devices are open,
// and gives their paths by the disks' ids. Those that it opened are closed again when
// it fails. Corrupt: a disk is missing, or does not open with its passphrase;
// Conflict: it is open as something else; otherwise as the key manager says.
func (a *Activities) OpenDevices(ctx context.Context, cred compute.Credential, s compute.Server) (map[compute.DiskID]string, error) {
	paths := map[compute.DiskID]string{}
	for _, d := range s.Disks {
		if !d.OnDevice() {
			continue
		}
		path, err := a.openDevice(ctx, cred, s.ID, d)
		if err != nil {
			aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
			defer cancel()
			if undo := a.CloseDevices(aside, s.ID); undo != nil {
				a.Logger.WarnContext(ctx, "volumes of a server may be open", "server", s.ID, "error", undo)
			}
			return nil, err
		}
		paths[d.ID] = path
	}
	return paths, nil
}

func (a *Activities) openDevice(ctx context.Context, cred compute.Credential, server compute.ServerID, d compute.Disk) (string, error) {
	v, unlock, err := a.lockVolume(ctx, server, d)
	if err != nil {
		return "", err
	}
	defer unlock()
	key, err := a.Keys.Passphrase(ctx, cred, *d.Secret)
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	if err := a.openMapping(ctx, v, d, key); err != nil {
		return "", volumeFailure(ctx, d, err)
	}
	return v.opened(), nil
}

// lockVolume takes the lock of a disk that is a volume, and sees that it is there.
func (a *Activities) lockVolume(ctx context.Context, server compute.ServerID, d compute.Disk) (v volume, unlock func(), err error) {
	dir, err := a.serverDir(server)
	if err != nil {
		return v, nil, err
	}
	if d.Secret == nil || !a.makes(d.Format) {
		return v, nil, compute.Errorf(compute.Invalid, "disk %s: this host cannot open the encryption format %q", d.ID, d.Format)
	}
	unlock, err = lockFile(ctx, filepath.Join(dir, d.Name()), false)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil, compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
	}
	if err != nil {
		return v, nil, failed(ctx, err, "disk %s: lock", d.ID)
	}
	v = a.volume(server, d.Name())
	whole, _, err := a.findVolume(ctx, v)
	switch {
	case err != nil:
	case whole == nil:
		err = compute.Errorf(compute.Corrupt, "it is missing")
	default:
		v.unchecked = whole.has(uncheckedTag)
		err = a.activate(ctx, v, *whole)
	}
	if err != nil {
		unlock()
		return v, nil, volumeFailure(ctx, d, err)
	}
	return v, unlock, nil
}

// CloseDevices ensures that none of a server's disks is open on the host: the kernel
// knows their keys no more. Conflict: something has one in use.
func (a *Activities) CloseDevices(ctx context.Context, server compute.ServerID) error {
	dir, err := a.serverDir(server)
	if err != nil || a.VolumeGroup == "" {
		return err
	}
	var left error
	for _, file := range openFiles(server) {
		unlock, err := lockFile(ctx, filepath.Join(dir, finishedVolume(file)), false)
		if errors.Is(err, fs.ErrNotExist) { // it is being deleted
			unlock, err = func() {}, nil
		}
		if err == nil {
			err = a.closeMapping(ctx, a.volume(server, file))
			unlock()
		}
		left = errors.Join(left, err)
	}
	if left != nil {
		return failed(ctx, left, "server %s: its volumes", server)
	}
	return nil
}

// OpenServers gives the servers of which disks are open, half made ones too.
func (a *Activities) OpenServers(ctx context.Context) ([]compute.ServerID, error) {
	open := mappings()
	if a.VolumeGroup == "" || len(open) == 0 {
		return nil, nil
	}
	ours, err := a.volumes(ctx) // and not another's, that has them by the same names
	if err != nil {
		return nil, failed(ctx, err, "volumes of the servers")
	}
	var servers []compute.ServerID
	for _, v := range ours {
		id, err := uuid.Parse(strings.SplitN(v.Name, "_", 2)[0])
		if s := (compute.ServerID{UUID: id}); err == nil && slices.Contains(open, v.Name) && !slices.Contains(servers, s) {
			servers = append(servers, s)
		}
	}
	return servers, nil
}

// openFiles gives the names of a server's disks that are open, half made ones too.
func openFiles(server compute.ServerID) (files []string) {
	for _, name := range mappings() {
		if file, ok := strings.CutPrefix(name, server.String()+"_"); ok {
			files = append(files, file)
		}
	}
	return files
}

// mappings gives the names of the volumes that are open.
func mappings() (names []string) {
	nodes, _ := os.ReadDir(mappingFolder) // without a device mapper there is none
	for _, n := range nodes {
		if name, ok := strings.CutSuffix(n.Name(), mappingSuffix); ok {
			names = append(names, name)
		}
	}
	return names
}

func finishedVolume(file string) string { return strings.TrimSuffix(file, draftSuffix) }

// DeviceFormats gives the encryption formats of block devices that the host can
// really open: it has a volume group, LVM and cryptsetup, and a kernel that decrypts.
func (a *Activities) DeviceFormats(ctx context.Context) ([]compute.DiskFormat, error) {
	if a.VolumeGroup == "" {
		return nil, nil
	}
	if _, err := exec.LookPath("cryptsetup"); err != nil {
		return nil, nil //nolint:nilerr // a host without it has none of them
	}
	if _, err := a.lvm(ctx, "vgs", a.VolumeGroup); err != nil {
		a.Logger.WarnContext(ctx, "no disks on block devices here", "volume_group", a.VolumeGroup, "error", err)
		return nil, ctx.Err()
	}
	if !a.kernelDecrypts(ctx) {
		a.Logger.WarnContext(ctx, "no disks on block devices here: the kernel has no dm-crypt", "volume_group", a.VolumeGroup)
		return nil, ctx.Err()
	}
	return []compute.DiskFormat{compute.FormatLUKSv2, compute.FormatPlain}, nil
}

// DeviceRoomMB gives how much the volume group has for disks: what is free, and what they take
// already, in MiB. nil: there is no such group.
func (a *Activities) DeviceRoomMB(ctx context.Context) (*int64, error) {
	if a.VolumeGroup == "" {
		return nil, nil
	}
	out, err := a.lvm(ctx, "vgs", "--noheadings", "--units", "b", "--nosuffix", "--options", "vg_free", a.VolumeGroup)
	if err != nil {
		return nil, ctx.Err() // DeviceFormats tells it
	}
	room, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("output of vgs: %w", err)
	}
	ours, err := a.volumes(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range ours {
		bytes, err := strconv.ParseInt(v.Bytes, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("output of lvs: %w", err)
		}
		room += bytes
	}
	room /= mib
	return &room, nil
}

// kernelDecrypts reports whether the device mapper has the target "crypt", which is
// a module that is loaded when it is first used.
func (a *Activities) kernelDecrypts(ctx context.Context) bool {
	for _, load := range []bool{false, true} {
		if load {
			if _, err := a.Runner.Run(ctx, Command{Name: "modprobe", Args: []string{"dm-crypt"}}); err != nil {
				return false
			}
		}
		out, err := a.Runner.Run(ctx, Command{Name: "dmsetup", Args: []string{"targets"}})
		if err != nil && !load {
			continue // not even the device mapper is loaded
		}
		for line := range strings.Lines(string(out)) {
			if name := strings.Fields(line); len(name) > 0 && name[0] == "crypt" {
				return true
			}
		}
	}
	return false
}

// makes reports whether the host is set up for disks of an encryption format.
func (a *Activities) makes(f compute.DiskFormat) bool {
	return f == compute.FormatLUKS || f.OnDevice() && a.VolumeGroup != ""
}
