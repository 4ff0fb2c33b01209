package compute

import "fmt"

// DiskKey is the secret of a disk, as the record and the ledger have it.
type DiskKey struct {
	Server ServerID
	Disk   Disk
	Thing  Thing // the secret's row on the ledger
	Busy   bool  // an operation has the server
}

// StoredSecret is a secret as the key manager lists it.
type StoredSecret struct {
	ID   SecretID `json:"id"`
	Name string   `json:"name"`
}

// KeyRepair is about a disk whose secret the key manager does not have, as after the restore
// of an older database: its keys were rotated since.
type KeyRepair struct {
	Server  ServerID      `json:"server_id"`
	Disk    string        `json:"disk"` // its label
	Was     SecretID      `json:"was"`
	Now     *StoredSecret `json:"now,omitempty"` // the one secret that was made for the disk
	Why     string        `json:"why,omitempty"` // nothing can be told, or was written
	Applied bool          `json:"applied"`
	Key     DiskKey       `json:"-"`
	Several bool          `json:"-"` // secrets were made for the disk, and which is its own cannot be told
	// WasThere says that the secret of before is still in the key manager, and to be removed.
	WasThere bool `json:"was_there,omitempty"`
}

// Repair compares a disk's secret with those of its project in the key manager; nil: it is
// there. A secret's name says for which disk it was made, and a rotation makes the new one
// before it removes the old one: the only one that is left is the disk's.
func (k DiskKey) Repair(stored []StoredSecret) *KeyRepair {
	out := &KeyRepair{Server: k.Server, Disk: diskLabel(k.Disk), Was: *k.Disk.Secret, Key: k}
	var found []StoredSecret
	for _, s := range stored {
		if s.ID == out.Was {
			return nil
		}
		if _, op, ours := SecretOwner(s.Name); ours && DiskSecret(k.Server, op, k.Disk).Name == s.Name {
			found = append(found, s)
		}
	}
	switch {
	case k.Busy:
		out.Why = "an operation is at work on the server: ask again when it has ended"
	case len(found) == 0:
		out.Why = "the key manager has no other secret of the disk"
	case len(found) > 1:
		out.Several = true
		out.Why = fmt.Sprintf("the key manager has %d other secrets of the disk", len(found))
	default:
		out.Now = &found[0]
	}
	return out
}

// Thing is the secret that was found, as it belongs on the ledger.
func (r KeyRepair) Thing() Thing {
	_, op, _ := SecretOwner(r.Now.Name)
	t := Operation{ID: op, ServerID: r.Server, Credential: r.Key.Thing.Credential}.Thing(ThingKeySecret, PlaceKeyManager, r.Now.Name)
	t.Reference = r.Now.ID.String()
	return t
}
