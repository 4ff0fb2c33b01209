package compute

import "strings"

// OpUnrescue is the kind of an unrescue.
const OpUnrescue OperationKind = "unrescue"

// Unrescue boots a rescued server from its own disk again.
var Unrescue = declare(Action[None]{Facts: Facts{
	Kind:          OpUnrescue,
	Transition:    Transition{Task: TaskUnrescuing, From: []VMState{VMRescued}},
	Boots:         true,
	Notifications: notifications("unrescue"),
}})

// Unrescued gives the server without its rescue disk.
func (s Server) Unrescued() Server {
	var own []Disk
	for _, d := range s.Disks {
		if d.Role != RescueDisk {
			own = append(own, d)
		}
	}
	s.Disks = own
	return s
}

// RescueThings picks from a server's things its rescue disk and the use that this
// makes of a host's copy of an encrypted image.
func (s Server) RescueThings(things []Thing) []Thing {
	file := Disk{Role: RescueDisk}.Name()
	var out []Thing
	for _, t := range things {
		if t.Kind == ThingDiskFile && t.Name == s.ID.String()+"/"+file ||
			t.Kind == ThingCachedImage && strings.HasSuffix(t.Name, "/"+s.ID.String()+"."+file) {
			out = append(out, t)
		}
	}
	return out
}
