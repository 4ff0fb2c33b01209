package metadata

import (
	"fmt"
	"slices"
	"strings"

	"strongroom/compute"
)

// ec2Versions are EC2's, of which the last one has everything.
var ec2Versions = []string{
	"1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01", newestEC2, latest,
}

const newestEC2 = "2009-04-04"

// A node of EC2's tree is a text or a folder of nodes.
type (
	node   interface{ print() string }
	text   string
	folder map[string]node
)

// named is the key of a folder's line in the listing of the folder above it,
// where that is not its name.
const named = "_name"

func (t text) print() string { return string(t) }

// print lists a folder, a line for each entry.
func (f folder) print() string {
	var lines []string
	for name, n := range f {
		if name == named {
			continue
		}
		if below, ok := n.(folder); ok {
			name += "/"
			if other, ok := below[named]; ok {
				name = other.print()
			}
		}
		lines = append(lines, name)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ec2 is the tree of a version.
func (s Server) ec2(version string) folder {
	out := folder{"meta-data": s.ec2MetaData(version)}
	if s.UserData != nil {
		out["user-data"] = text(s.UserData)
	}
	return out
}

// ec2MetaData gives what EC2's clients ask for. Addresses that other networks than
// a network service's give are not known here.
func (s Server) ec2MetaData(version string) folder {
	m := folder{
		"ami-id": text("ami-00000000"), "ami-launch-index": text(fmt.Sprint(s.LaunchIndex)), "ami-manifest-path": text("(unknown)"),
		"instance-id": text(fmt.Sprintf("i-%08x", s.Number)), "hostname": text(s.Hostname), "local-ipv4": text(s.address()),
		"reservation-id": text(s.Reservation), "security-groups": text(strings.Join(compute.GroupsCalled(s.Networks, nil), "\n")),
	}
	if s.Image != nil {
		m["ami-id"] = text("ami-" + s.Image.String()[:8])
	}
	if s.KeyName != "" {
		m["public-keys"] = folder{"0": folder{named: text("0=" + s.KeyName), "openssh-key": text(s.PublicKey)}}
	}
	for name, since := range map[string]struct {
		version string
		value   node
	}{
		"local-hostname":       {"2007-01-19", text(s.Hostname)},
		"public-hostname":      {"2007-01-19", text(s.Hostname)},
		"public-ipv4":          {"2007-01-19", text(s.floating())},
		"instance-type":        {"2007-08-29", text(s.Flavor)},
		"block-device-mapping": {"2007-12-15", s.blockDevices()},
		"placement":            {"2008-02-01", folder{"availability-zone": text(s.Zone)}},
		"instance-action":      {"2008-09-01", text("none")},
	} {
		if version >= since.version {
			m[name] = since.value
		}
	}
	return m
}
