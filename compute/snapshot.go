package compute

import (
	"cmp"
	"strings"
)

// KeyChoice says with which key a snapshot of a server is encrypted.
type KeyChoice string

// The choices of createImage (EE-16 … EE-19).
const (
	KeySame     KeyChoice = "same"     // as the disk is: its passphrase, in a secret of the image's own; plain if the disk is
	KeyNew      KeyChoice = "new"      // a new passphrase
	KeyExisting KeyChoice = "existing" // a secret that the caller names
	KeyNone     KeyChoice = "none"     // not at all
)

// SnapshotArguments are the arguments of a createImage or a createBackup.
type SnapshotArguments struct {
	Image    ImageID           `json:"image"` // chosen by us
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Key      KeyChoice         `json:"key"`
	Secret   *SecretID         `json:"secret,omitempty"` // of KeyExisting
	Backup   *Backup           `json:"backup,omitempty"` // nil for a createImage
}

// Backup says of an image that it is one of the newest of its type that a server
// keeps (EE-22).
type Backup struct {
	Type     string `json:"type"`     // the user's word: daily, weekly
	Rotation int    `json:"rotation"` // how many of the type are kept, this one among them
}

// The properties of an image of a server. A backup is known by the first three.
const (
	TypeProperty   = "image_type" // snapshot, backup
	backupType     = "backup_type"
	ServerProperty = "instance_uuid"
	userID         = "user_id"
	baseImage      = "base_image_ref"
)

// IsOfServer reports whether an image was made of a server.
func (img Image) IsOfServer() bool { return img.Properties[ServerProperty] != "" }

// IsBackup reports whether an image is a backup of a type of a server.
func (img Image) IsBackup(server ServerID, of string) bool {
	return img.Properties[TypeProperty] == "backup" && img.Properties[backupType] == of && img.Properties[ServerProperty] == server.String()
}

// CheckKeyChoice refuses a choice that names a secret it has no use for, or none
// where it needs one (EE-18), with Invalid.
func CheckKeyChoice(choice KeyChoice, secret *SecretID) error {
	switch {
	case choice == KeyExisting && secret == nil:
		return Errorf(Invalid, "encryption.secret_uuid is required when encryption.key is 'existing'.")
	case choice != KeyExisting && secret != nil:
		return Errorf(Invalid, "encryption.secret_uuid is only allowed when encryption.key is 'existing'.")
	}
	return nil
}

// ImageSecret plans the secret of the image that an operation makes of a server.
func ImageSecret(image ImageID, op OperationID) SecretPlan {
	return SecretPlan{
		ID:    SecretID{op.Derive("secret/image/" + image.String())},
		Name:  "strongroom image " + image.String() + " " + string(op),
		Bytes: DiskPassphraseBytes,
	}
}

// ExportedBy gives the operation whose ExportFolder a name is.
func ExportedBy(folder string) (op OperationID, ok bool) {
	id, ok := strings.CutPrefix(folder, ExportFolder(""))
	return OperationID(id), ok
}

// RootDisk gives the server's root disk as its machine has it. ok is false when
// there is none.
func (s Server) RootDisk() (d Disk, ok bool) {
	for _, d := range s.Attached() {
		if d.Role == RootDisk {
			return d, true
		}
	}
	return Disk{}, false
}

// SnapshotImage is the record of an image of a server before it has data: what is
// known of it when it is asked for.
func SnapshotImage(s Server, in SnapshotArguments) Image {
	properties := map[string]string{}
	for _, from := range []map[string]string{s.Image.Properties, in.Metadata} {
		// Into a map again: the order shows nowhere.
		//workflowcheck:ignore
		for key, value := range from {
			if Inherited(key) {
				properties[key] = value
			}
		}
	}
	if in.encrypts(s) {
		allowEncryption(properties)
	}
	for _, said := range [][2]string{{TypeProperty, "snapshot"}, {userID, s.UserID}, {baseImage, s.Image.ID.String()}} {
		properties[said[0]] = cmp.Or(in.Metadata[said[0]], said[1]) // as in Nova (P7)
	}
	if in.Backup != nil { // they are found again by it
		properties[TypeProperty], properties[backupType] = "backup", in.Backup.Type
	}
	properties[ServerProperty] = s.ID.String() // by which an image that was never finished is known as ours
	img := Image{
		ID: in.Image, Name: in.Name, DiskFormat: "qcow2", ContainerFormat: "bare", Visibility: "private",
		MinDiskGB: s.Flavor.RootGB, MinRAMMB: s.Image.MinRAMMB, Properties: properties,
	}
	return img
}

// encryptionProperty is the image property that asks for encrypted disks, or forbids them.
const encryptionProperty = "hw_ephemeral_encryption"

// encrypts reports whether the image of a server will be encrypted.
func (in SnapshotArguments) encrypts(s Server) bool {
	switch in.Key {
	case KeyNew, KeyExisting:
		return true
	case KeyNone:
		return false
	case KeySame:
	}
	root, ok := s.RootDisk()
	return ok && root.Encrypted
}

// allowEncryption takes out of an encrypted image's properties what forbids the encryption
// of servers: every create from it would be refused (EE-14, EE-45).
func allowEncryption(properties map[string]string) {
	text, said := properties[encryptionProperty]
	if wanted, err := ParseBool(text); said && (err != nil || !wanted) {
		delete(properties, encryptionProperty)
	}
}

// neverInherited are the properties that an image of a server does not take over
// from the image that the server was made of, beside those that open it: they speak of that image's bytes and
// key alone. A key that two images named would be destroyed with the first (EE-24).
var neverInherited = []string{
	"img_signature", "os_hash_", "stores",
	"block_device_mapping", "bdm_v2", "root_device_name", ServerProperty, baseImage, TypeProperty, backupType, userID, "checksum",
	SystemTPMObject, SystemTPMObjectSHA256, SystemNVRAMObject, SystemNVRAMObjectSHA256, // of one server alone (TPM-38)
}

// Inherited reports whether an image of a server takes a property over from the
// image that the server was made of.
func Inherited(property string) bool {
	for _, prefix := range neverInherited {
		if strings.HasPrefix(property, prefix) {
			return false
		}
	}
	return !OpensImage(property)
}
