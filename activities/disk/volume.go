package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"strongroom/compute"
)

// volume is a logical volume of the host's volume group. Its name is that of the
// disk's file, with the server's in front, as Nova named its volumes.
type volume struct {
	group, name string

	unchecked bool // that it decrypts to something is still to be seen: uncheckedTag
}

// volumeTag marks the volumes that are ours: others may have theirs in the group.
const volumeTag = "strongroom"

// draftSuffix marks a volume, and its mapping, that is being made.
const draftSuffix = ".new"

func (a *Activities) volume(server compute.ServerID, file string) volume {
	return volume{group: a.VolumeGroup, name: server.String() + "_" + file}
}

func (v volume) draft() volume { return volume{group: v.group, name: v.name + draftSuffix} }

// looked has the name of the mapping through which what is in a volume is looked at.
func (v volume) looked() volume { return volume{group: v.group, name: v.name + checkSuffix} }

func (v volume) path() string { return filepath.Join("/dev", v.group, v.name) }

func (v volume) String() string { return v.group + "/" + v.name }

// lvmConfig goes before the host's own configuration. What guests write to their
// disks is not looked at: one could make a volume group there of the host's own name.
// And a device is told of blocks that nobody uses any more.
const lvmConfig = `devices { filter = [ "r|` + mappingSuffix + `$|" ] issue_discards = 1 }`

// lvm runs one of LVM's commands.
func (a *Activities) lvm(ctx context.Context, command string, args ...string) ([]byte, error) {
	return a.Runner.Run(ctx, Command{Name: "lvm", Args: append([]string{command, "--config", lvmConfig}, args...)})
}

// volumeInfo is what LVM tells of a volume.
type volumeInfo struct {
	Name   string `json:"lv_name"`
	Bytes  string `json:"lv_size"`
	Extent string `json:"vg_extent_size"` // its size is a multiple of that
	Active string `json:"lv_active"`
	Tags   string `json:"lv_tags"` // with commas between them
}

func (i volumeInfo) has(tag string) bool { return slices.Contains(strings.Split(i.Tags, ","), tag) }

// volumes lists our volumes, all or those of some names.
func (a *Activities) volumes(ctx context.Context, names ...string) ([]volumeInfo, error) {
	which := "lv_tags=" + volumeTag
	if len(names) > 0 {
		which += " && (lv_name=" + strings.Join(names, " || lv_name=") + ")"
	}
	return a.selectVolumes(ctx, which)
}

// selectVolumes lists those of the group's volumes that LVM selects.
func (a *Activities) selectVolumes(ctx context.Context, which string) ([]volumeInfo, error) {
	out, err := a.lvm(ctx, "lvs", "--reportformat", "json", "--units", "b", "--nosuffix",
		"--options", "lv_name,lv_size,vg_extent_size,lv_active,lv_tags", "--select", which, a.VolumeGroup)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Report []struct {
			Volumes []volumeInfo `json:"lv"`
		} `json:"report"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("output of lvs: %w", err)
	}
	var all []volumeInfo
	for _, r := range doc.Report {
		all = append(all, r.Volumes...)
	}
	return all, nil
}

// findVolume looks for a volume of ours, whole and half made; nil: there is none.
func (a *Activities) findVolume(ctx context.Context, v volume) (whole, draft *volumeInfo, err error) {
	all, err := a.volumes(ctx, v.name, v.draft().name)
	for _, i := range all {
		if i.Name == v.name {
			whole = &i
		} else {
			draft = &i
		}
	}
	return whole, draft, err
}

// holds reports whether a volume is what makeVolume makes for so many bytes.
func (i volumeInfo) holds(bytes int64) bool {
	size, err := strconv.ParseInt(i.Bytes, 10, 64)
	extent, xerr := strconv.ParseInt(i.Extent, 10, 64)
	return err == nil && xerr == nil && size >= bytes && size < bytes+extent
}

// makeVolume makes a volume of at least so many bytes. What was on these blocks
// before is not taken for anything.
func (a *Activities) makeVolume(ctx context.Context, v volume, bytes int64) error {
	_, err := a.lvm(ctx, "lvcreate", "--quiet", "--yes", "--wipesignatures", "y", "--zero", "y", "--addtag", volumeTag,
		"--size", strconv.FormatInt(bytes, 10)+"b", "--name", v.name, v.group)
	return err
}

// activate sees that the kernel knows a volume; it may not, after a start of the host.
func (a *Activities) activate(ctx context.Context, v volume, i volumeInfo) error {
	if i.Active == "active" {
		return nil
	}
	_, err := a.lvm(ctx, "lvchange", "--quiet", "--activate", "y", v.String())
	return err
}

// renameVolume gives a volume that is whole its name.
func (a *Activities) renameVolume(ctx context.Context, from, to volume) error {
	_, err := a.lvm(ctx, "lvrename", "--quiet", from.group, from.name, to.name)
	return err
}

// removeVolume removes a volume of ours, closed. Its blocks are given back to a device
// that can take them back; they are not overwritten, for without the key they are noise.
func (a *Activities) removeVolume(ctx context.Context, v volume) error {
	if err := errors.Join(a.closeMapping(ctx, v), a.closeMapping(ctx, v.looked())); err != nil {
		return err
	}
	_, err := a.lvm(ctx, "lvremove", "--quiet", "--yes", v.String())
	return err
}
