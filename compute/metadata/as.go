package metadata

import "strongroom/compute"

// As gives a server as an operation boots it, with an image and disks that are not
// on record yet.
func (s Server) As(plan compute.Server) Server {
	s = s.with(plan.Attached())
	s.Image, s.Flavor = &plan.Image.ID, plan.Flavor.Name
	return s
}

// Attached gives a server with its disks as its machine has them: those of one that
// is rescued have other names.
func (s Server) Attached() Server {
	var plan compute.Server
	for _, d := range s.Disks {
		plan.Disks = append(plan.Disks, d.Disk)
	}
	return s.with(plan.Attached())
}

// with gives the server other disks. Tags stay with the places of the disks.
func (s Server) with(disks []compute.Disk) Server {
	type place struct {
		role  compute.DiskRole
		index int
	}
	tags := map[place]string{}
	for _, d := range s.Disks {
		tags[place{d.Role, d.Index}] = d.Tag
	}
	s.Disks = make([]Disk, len(disks))
	for i, d := range disks {
		s.Disks[i] = Disk{Disk: d, Tag: tags[place{d.Role, d.Index}]}
	}
	return s
}
