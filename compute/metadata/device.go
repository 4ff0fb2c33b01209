package metadata

import "strongroom/compute"

// device is a disk or an interface that the guest is shown.
type device struct {
	Type      string   `json:"type"`
	Bus       string   `json:"bus"`
	Address   string   `json:"address"`
	MAC       string   `json:"mac,omitempty"`
	Serial    string   `json:"serial,omitempty"`
	Path      string   `json:"path,omitempty"`
	Tags      []string `json:"tags,omitempty"`
	Encrypted string   `json:"encrypted,omitempty"`
	ShareID   string   `json:"share_id,omitempty"`
	Tag       string   `json:"tag,omitempty"` // of a share
}

const unknown = "none"

// devices lists what has a tag, every disk that is encrypted at rest, tagged or not (EE-32), and
// from the version that has them on the shares (SH-23).
func (s Server) devices(version string) []device {
	out := []device{}
	for _, n := range s.Networks {
		if n.Tag != "" {
			out = append(out, device{Type: "nic", Bus: unknown, Address: unknown, MAC: n.MAC, Tags: []string{n.Tag}})
		}
	}
	for _, d := range s.Disks {
		if d.Tag != "" || d.Encrypted {
			out = append(out, d.device())
		}
	}
	if version >= vShares {
		for _, m := range s.Shares {
			out = append(out, device{Type: "share", Bus: unknown, Address: unknown, ShareID: m.Share.String(), Tag: m.Tag})
		}
	}
	return out
}

func (d Disk) device() device {
	out := device{Type: "disk", Bus: unknown, Address: unknown, Serial: d.Serial(), Path: d.DeviceName}
	if address := d.PCIAddress(); address != "" {
		out.Bus, out.Address = "pci", address
	}
	if d.Tag != "" {
		out.Tags = []string{d.Tag}
	}
	if d.Encrypted {
		out.Encrypted = "True"
	}
	return out
}

// blockDevices names the disks as EC2 does.
func (s Server) blockDevices() folder {
	out := folder{}
	for _, d := range s.Disks {
		switch d.Role {
		case compute.RootDisk:
			out["ami"], out["root"] = text(d.DeviceName[len("/dev/"):]), text(d.DeviceName)
		case compute.EphemeralDisk:
			out["ephemeral"+string(rune('0'+d.Index))] = text(d.DeviceName)
		case compute.SwapDisk:
			out["swap"] = text(d.DeviceName)
		}
	}
	return out
}
