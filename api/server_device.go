package api

import (
	"fmt"
	"strconv"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/compute"
)

// requestedDevice is an item of block_device_mapping_v2.
type requestedDevice struct {
	Source      string                   `json:"source_type"`
	Destination string                   `json:"destination_type"`
	UUID        string                   `json:"uuid"`
	ImageID     string                   `json:"image_id"`
	BootIndex   *validation.TextOrNumber `json:"boot_index"`
	Size        *validation.Integer      `json:"volume_size"` // GiB; of a swap disk MiB
	GuestFormat string                   `json:"guest_format"`
	Tag         *string                  `json:"tag"`
	VolumeID    string                   `json:"volume_id"`
	SnapshotID  string                   `json:"snapshot_id"`
	VolumeType  *string                  `json:"volume_type"`
	Bus         string                   `json:"disk_bus"`
	Type        string                   `json:"device_type"`
	None        any                      `json:"no_device"` // a boolean, or a text
}

const swapFormat = "swap"

// localDevices is what a request says of a server's local disks beyond its
// flavor: how the ephemeral space is divided, how much of the swap is taken,
// and tags.
type localDevices struct {
	rootTag   *string
	ephemeral []requestedDevice
	swap      *requestedDevice
}

// ofVolumesApart is what the encryption of a server's disks has to do with volumes (EE-06, EE-47).
const ofVolumesApart = "The encryption options of flavors and images are for local disks only and leave volumes untouched: " +
	"those are encrypted as their volume type says."

func noVolumes() error {
	return fault.BadRequest("Block Device Mapping is Invalid: volumes are not offered. "+
		"Boot from an image (imageRef); only local disks can be mapped. %s", ofVolumesApart)
}

func ephemeralTooLarge() error {
	return fault.BadRequest("Ephemeral disks requested are larger than the instance type allows. " +
		"If no size is given in one block device mapping, flavor ephemeral size will be used.")
}

func invalidMapping(format string, args ...any) error {
	return fault.BadRequest("Block Device Mapping is Invalid: %s", fmt.Sprintf(format, args...))
}

// readDevices sorts a request's block devices.
func readDevices(in createRequest, f compute.Flavor) (localDevices, error) {
	var out localDevices
	rooted, space := false, 0
	for i := range in.Devices {
		d := &in.Devices[i]
		if d.Destination == "volume" || d.Source == "volume" || d.Source == "snapshot" || d.VolumeID != "" || d.SnapshotID != "" {
			return out, noVolumes()
		}
		switch {
		case d.VolumeType != nil && *d.VolumeType != "":
			return out, invalidMapping("a local disk has no volume_type.")
		case d.Type != "" && d.Type != "disk":
			return out, invalidMapping("device_type '%s': each local disk is a disk.", d.Type)
		case validation.True(fmt.Sprint(d.None)): // of true, too
			return out, invalidMapping("no_device: the images of servers have no block devices here that could be left out.")
		case d.Source == "image" || d.Source == "" && d.image() != "":
			if rooted || !d.boots() || d.image() != in.ImageRef {
				return out, invalidMapping("a local disk from an image must be the boot disk, with imageRef as its image.")
			}
			rooted, out.rootTag = true, d.Tag
		case d.size(1) < 1: // the schema has said so
			return out, invalidMapping("a disk has a size of 1 at least.")
		case d.Source == "blank" && d.boots():
			return out, invalidMapping("the boot disk cannot be blank.")
		case d.Source == "blank" && d.GuestFormat == swapFormat:
			if out.swap != nil {
				return out, invalidMapping("a server has one swap disk at most.")
			}
			if f.SwapMB == 0 || d.size(f.SwapMB) > f.SwapMB {
				return out, fault.BadRequest("Swap drive requested is larger than instance type allows.")
			}
			out.swap = d
		case d.Source == "blank":
			// Each is compared before it is added, so that no sum overflows.
			if f.EphemeralGB == 0 || len(out.ephemeral) == maxEphemeral || d.size(f.EphemeralGB) > f.EphemeralGB-space {
				return out, ephemeralTooLarge()
			}
			out.ephemeral = append(out.ephemeral, *d)
			space += d.size(f.EphemeralGB)
		default:
			return out, invalidMapping("source_type is missing.")
		}
	}
	return out, nil
}

// checkBuses refuses a device on another bus than that of the server's image.
func (in createRequest) checkBuses(img compute.Image) error {
	for _, d := range in.Devices {
		if is := compute.DiskBus(img); d.Bus != "" && d.Bus != is {
			return invalidMapping("disk_bus '%s': the disks of a server are on the bus of its image, %s here (its property hw_disk_bus).", d.Bus, is)
		}
	}
	return nil
}

// maxEphemeral is how many ephemeral disks have a file name.
const maxEphemeral = 10

func (d requestedDevice) image() string {
	if d.UUID != "" {
		return d.UUID
	}
	return d.ImageID
}

func (d requestedDevice) boots() bool {
	if d.BootIndex == nil {
		return false
	}
	n, err := strconv.Atoi(string(*d.BootIndex))
	return err == nil && n == 0
}

func (d requestedDevice) size(whole int) int {
	if d.Size == nil {
		return whole
	}
	return int(*d.Size)
}

// plannedDisk is a disk of a new server, with the tag that its owner gave it.
type plannedDisk struct {
	compute.Disk
	tag *string
}

// apply changes the disks that the flavor gives by what the request says.
func (l localDevices) apply(op compute.OperationID, disks []compute.Disk) []plannedDisk {
	var out []plannedDisk
	for _, d := range disks {
		switch {
		case d.Role == compute.RootDisk:
			out = append(out, plannedDisk{d, l.rootTag})
		case d.Role == compute.SwapDisk && l.swap != nil:
			d.SizeMB = int64(l.swap.size(int(d.SizeMB)))
			out = append(out, plannedDisk{d, l.swap.Tag})
		case d.Role == compute.EphemeralDisk && len(l.ephemeral) > 0:
			for i, e := range l.ephemeral {
				part := d
				part.Index, part.SizeMB = i, int64(e.size(int(d.SizeMB/1024)))*1024
				part.ID = compute.DiskID{UUID: op.Derive(fmt.Sprintf("disk/%s%d", d.Role, i))}
				if e.GuestFormat != "" {
					part.GuestFormat = e.GuestFormat
				}
				out = append(out, plannedDisk{part, e.Tag})
			}
		default:
			out = append(out, plannedDisk{d, nil})
		}
	}
	for i := range out {
		out[i].DeviceName = compute.DeviceName(out[i].Bus, i)
	}
	return out
}
