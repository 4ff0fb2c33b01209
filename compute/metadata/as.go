package metadata

import "strongroom/compute"

// As gives a server as an operation boots it, with an image and disks that are not
// on record yet. Tags stay with the places of the disks.
func (s Server) As(plan compute.Server) Server {
	type place struct {
		role  compute.DiskRole
		index int
	}
	tags := map[place]string{}
	for _, d := range s.Disks {
		tags[place{d.Role, d.Index}] = d.Tag
	}
	s.Disks = make([]Disk, len(plan.Disks))
	for i, d := range plan.Disks {
		s.Disks[i] = Disk{Disk: d, Tag: tags[place{d.Role, d.Index}]}
	}
	s.Image, s.Flavor = &plan.Image.ID, plan.Flavor.Name
	return s
}
