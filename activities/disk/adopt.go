package disk

import (
	"context"
	"path/filepath"
	"strconv"

	"strongroom/compute"
)

// uncheckedTag marks a volume that was taken over, until it was seen that its disk's key,
// cipher, key size and hash decrypt it.
const uncheckedTag = "strongroom.unchecked"

// AdoptInput asks for volumes that Nova made to be a server's disks. Force: what they
// decrypt to is not looked at, for volumes in which there is nothing that is known.
type AdoptInput struct {
	Server compute.ServerID `json:"server"`
	Disks  []compute.Disk   `json:"disks"`
	Force  bool             `json:"force,omitempty"`
}

// Adopt is the activity disk.Adopt: it ensures that the volumes of a server's disks, which
// Nova made, are ours, and that the disks are linked to them (EE-48). Nothing is written to them. A
// volume that is ours already stays as it is. Corrupt: a volume is missing;
// Conflict: one is smaller than its disk, or something has it in use.
func (a *Activities) Adopt(ctx context.Context, in AdoptInput) error {
	for _, d := range in.Disks { // first all of them are looked at
		if err := a.eachAdopted(ctx, in, d, false); err != nil {
			return err
		}
	}
	for _, d := range in.Disks {
		if err := a.eachAdopted(ctx, in, d, true); err != nil {
			return err
		}
	}
	return nil
}

func (a *Activities) eachAdopted(ctx context.Context, in AdoptInput, d compute.Disk, adopt bool) error {
	if d.Format != compute.FormatPlain || !a.makes(d.Format) {
		return compute.Errorf(compute.Invalid, "disk %s: this host cannot open the encryption format %q", d.ID, d.Format)
	}
	path, err := a.diskPath(in.Server, d)
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, path, true)
	if err != nil {
		return failed(ctx, err, "disk %s: lock", d.ID)
	}
	defer unlock()
	p := volumePlace{a, a.volume(in.Server, d.Name()), path}
	i, err := p.adoptable(ctx, d)
	if err == nil && adopt {
		err = p.adopt(ctx, i, in.Force)
	}
	if err != nil {
		return volumeFailure(ctx, d, err)
	}
	return nil
}

// adoptable finds a volume that can be adopted as a disk.
func (p volumePlace) adoptable(ctx context.Context, d compute.Disk) (volumeInfo, error) {
	all, err := p.selectVolumes(ctx, "lv_name="+p.name)
	if err != nil {
		return volumeInfo{}, err
	}
	if len(all) == 0 {
		return volumeInfo{}, compute.Errorf(compute.Corrupt, "there is no volume %s in the host's volume group", p.name)
	}
	i := all[0]
	if size, err := strconv.ParseInt(i.Bytes, 10, 64); err != nil || size < d.SizeMB*mib {
		return i, compute.Errorf(compute.Conflict, "its volume has %s bytes, and the disk %d MiB", i.Bytes, d.SizeMB)
	}
	m, err := p.mappingOf(ctx, p.volume)
	if err == nil && m.InUse {
		err = compute.Errorf(compute.Conflict, "volume %s is in use: the server must be shut down in Nova", p.name)
	}
	return i, err
}

// adopt makes a volume ours. The link is first: who finds our tag finds it.
func (p volumePlace) adopt(ctx context.Context, i volumeInfo, force bool) error {
	if err := p.activate(ctx, p.volume, i); err != nil {
		return err
	}
	if err := p.ensureLink(); err != nil {
		return err
	}
	checked := "--addtag" // also again, of one that is ours already: it may be said now that it is opened in another way
	if force {
		checked = "--deltag"
	}
	tags := []string{"--addtag", volumeTag, checked, uncheckedTag}
	_, err := p.lvm(ctx, "lvchange", append(append([]string{"--quiet"}, tags...), p.volume.String())...)
	if err == nil {
		p.Logger.InfoContext(ctx, "adopted volume", "volume", p.volume, "at", filepath.Base(p.link), "unchecked", !force)
	}
	return err
}
