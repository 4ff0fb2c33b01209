package compute

import (
	"fmt"
	"slices"
	"strings"
)

// cutRotation judges a secret that a rotation was making when the backup was made. Where it
// is gone, the rotation was undone or another one came after it. Where it is there beside the
// one of the record, what the rotation made is removed as its undo does: the slots first,
// which refuses where no other slot opens the disk, and the secret when they are gone.
func (r *repairer) cutRotation(d *Damage, s KnownServer, made Thing) {
	if s.Server.Host == nil || s.Server.Uses(*s.Server.Host, made) {
		return
	}
	if _, there := r.Secrets[made.Name]; !there {
		d.Remedy, d.Why, d.Things = ReleaseRow, "it is not there, and the server does not use it", []Thing{made}
		return
	}
	for _, disk := range s.Server.Disks {
		if DiskSecret(s.Server.ID, made.Operation, disk).Name != made.Name {
			continue
		}
		for _, t := range s.Has {
			if t.Kind == ThingKeySlot && t.Name == AddedKeySlots(s.Server.ID, disk.Name(), made.Operation) {
				d.Remedy, d.Why, d.Things = UndoRotation, "the rotation of the disk's keys was cut off, and the secret before it is there", []Thing{t, made}
			}
		}
	}
}

// LastSlotStays is in the reason of key slots that cannot be erased, since no other one opens
// the disk.
const LastSlotStays = "the last key slot stays"

// keptRotation judges slots that the undo of a rotation could not erase: the rotation had
// erased those of before, so its secret is the disk's.
func (r *repairer) keptRotation(f Finding) {
	server, _ := ownerServer(f.Owner)
	s, known := r.Known[server]
	if !known || s.Busy || f.Kind != ThingKeySlot || !strings.Contains(f.Why, LastSlotStays) {
		return
	}
	for _, disk := range s.Server.Disks {
		for name, stored := range r.Secrets {
			_, op, _ := SecretOwner(name)
			if disk.Secret == nil || name != DiskSecret(server, op, disk).Name || f.Name != AddedKeySlots(server, disk.Name(), op) {
				continue
			}
			at := slices.IndexFunc(s.Has, func(t Thing) bool { return t.Kind == ThingKeySecret && t.Reference == disk.Secret.String() })
			if at < 0 || stored.ID == *disk.Secret {
				continue
			}
			key := KeyRepair{
				Server: server, Disk: diskLabel(disk), Was: *disk.Secret, Now: &stored.StoredSecret, WasThere: true,
				Key: DiskKey{Server: server, Disk: disk, Thing: s.Has[at]},
			}
			r.add(Damage{What: DamagedKey, Server: server, Name: key.Disk, Remedy: NameKey, Key: &key,
				Why: fmt.Sprintf("only secret %s opens the disk: its rotation was cut off when it had erased the slots of %s", stored.ID, key.Was)})
		}
	}
}
