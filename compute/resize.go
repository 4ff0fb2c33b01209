package compute

import "cmp"

// CheckResize reports whether a server of an image may go from one flavor to
// another (EE-33). Invalid: it is the same flavor, or the new one contradicts
// itself; Conflict: the disks would have to be encrypted, decrypted or converted, or
// their keys would get another owner.
func CheckResize(from, to Flavor, img Image) error {
	if from.ID == to.ID {
		return Errorf(Invalid, "When resizing, instances must change flavor!")
	}
	had, err := EncryptionOf(from, img)
	if err != nil {
		return err
	}
	wants, err := EncryptionOf(to, img)
	if err != nil {
		return err
	}
	if had.DiskFormat() != wants.DiskFormat() {
		return Errorf(Conflict, "Flavor %s and flavor %s differ in the encryption of disks (%s and %s): "+
			"a resize does not encrypt, decrypt or convert disks. Make an image of the server and create a new one from it.",
			from.Name, to.Name, cmp.Or(had.DiskFormat(), "none"), cmp.Or(wants.DiskFormat(), "none"))
	}
	before, err := DiskSecurity(from)
	if err != nil {
		return err
	}
	after, err := DiskSecurity(to)
	if err != nil {
		return err
	}
	if wants.Enabled && before != after && (before == SecurityDeployment || after == SecurityDeployment) {
		return Errorf(Conflict, "Flavor %s and flavor %s differ in who owns the keys of disks (%s and %s).", from.Name, to.Name, before, after)
	}
	return nil
}
