package compute

import (
	"strconv"
	"strings"
)

// The disk formats of images, as an image's record says them.
const (
	ImageQcow2 = "qcow2" // encrypted: LUKS inside of qcow2
	ImageRaw   = "raw"   // never encrypted
	ImageLUKS  = "luks"  // a LUKS container around raw bytes
)

// ExportTarget is what the exported copy of a disk shall be. The copy is
// complete in itself: it has no backing file.
type ExportTarget struct {
	Format     string     `json:"format"` // ImageQcow2, ImageRaw, ImageLUKS
	Key        KeyChoice  `json:"key"`
	Secret     *SecretID  `json:"secret,omitempty"`     // opens the copy; nil: it is not encrypted
	Credential Credential `json:"credential"`           // to read Secret with
	Restorable bool       `json:"restorable,omitempty"` // the disk is to be made of it again (disk.Restore)
}

// Check refuses a target that contradicts itself, or the disk, with Invalid.
func (t ExportTarget) Check(d Disk) error {
	secret := t.Secret != nil
	switch {
	case t.Format != ImageQcow2 && t.Format != ImageRaw && t.Format != ImageLUKS:
		return Errorf(Invalid, "disk %s cannot be exported as %q: qcow2, raw and luks can be made", d.ID, t.Format)
	case t.Format == ImageRaw && secret, t.Format == ImageLUKS && !secret:
		return Errorf(Invalid, "disk %s: a secret is what tells an export as luks from one as raw", d.ID)
	case t.Key == KeySame && secret != d.Encrypted:
		return Errorf(Invalid, "disk %s: an export with the same key has a secret if the disk is encrypted, and only then", d.ID)
	case t.Key == KeyNone && secret, (t.Key == KeyNew || t.Key == KeyExisting) && !secret:
		return Errorf(Invalid, "disk %s: an export with the key %q and secret %v", d.ID, t.Key, t.Secret)
	case t.Key != KeySame && t.Key != KeyNone && t.Key != KeyNew && t.Key != KeyExisting:
		return Errorf(Invalid, "disk %s: no such choice of a key as %q", d.ID, t.Key)
	}
	return nil
}

// ExportPlan is one disk's copy that an operation makes.
type ExportPlan struct {
	Server    ServerID     `json:"server"`
	Operation OperationID  `json:"operation"`
	Disk      Disk         `json:"disk"`
	Target    ExportTarget `json:"target"`
}

// Export is a disk's copy on its host, ready for an upload.
type Export struct {
	File         string `json:"file"` // below the host's folder of servers: <server uuid>/export.<operation>/disk.qcow2
	Format       string `json:"format"`
	VirtualBytes int64  `json:"virtual_bytes"` // what a guest sees: os_decrypt_size
	Bytes        int64  `json:"bytes"`         // of the file
	// EncryptionOptions is what was really used, in QEMU's words as for a disk
	// (EE-08); empty: not encrypted.
	EncryptionOptions map[string]string `json:"encryption_options,omitempty"`
}

// ExportFolder is the folder in a server's folder that holds what an operation
// exports. "<server uuid>/<folder>" is its name on the ledger, of the kind
// ThingDiskFile.
func ExportFolder(op OperationID) string { return exportPrefix + string(op) }

// IsExportFolder reports whether ExportFolder may have given a name.
func IsExportFolder(name string) bool { return strings.HasPrefix(name, exportPrefix) }

const exportPrefix = "export."

// EncryptionProperties gives what an image says of its encryption (EE-23). key
// opens it. ownKey: the key was made for the image, and may go with it.
func (e Export) EncryptionProperties(key SecretID, ownKey bool) map[string]string {
	o := e.EncryptionOptions
	policy := keyStays
	if ownKey {
		policy = keyGoes
	}
	return map[string]string{
		"os_encrypt_format":           "LUKSv1",
		"os_encrypt_cipher":           o["cipher-alg"] + "-" + o["cipher-mode"] + "-" + o["ivgen-alg"],
		"os_encrypt_key_id":           key.String(),
		keyPolicy:                     policy,
		"os_decrypt_container_format": "bare",
		"os_decrypt_size":             strconv.FormatInt(e.VirtualBytes, 10),
	}
}

// The deletion policy of an image's key.
const (
	keyPolicy = "os_encrypt_key_deletion_policy"
	keyGoes   = "True"
	keyStays  = "False"
)

// KeyGoes reports whether the image's key is to go with it.
func (img Image) KeyGoes() bool { return img.Properties[keyPolicy] == keyGoes }
