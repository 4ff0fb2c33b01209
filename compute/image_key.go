package compute

import "github.com/google/uuid"

// namingProperties are the properties by which images, of whoever made them, may name a secret
// that opens them.
var namingProperties = []string{"os_encrypt_key_id", "hw_ephemeral_encryption_secret_uuid", "cinder_encryption_key_id"}

// NamingProperties gives the names of the properties that name the secret of an image.
func NamingProperties() []string { return append([]string(nil), namingProperties...) }

// Names reports whether the image names a secret as what opens it.
func (img Image) Names(secret SecretID) bool {
	for _, property := range namingProperties {
		if id, err := uuid.Parse(img.Properties[property]); err == nil && id == secret.UUID {
			return true
		}
	}
	return false
}

// KeyPolicy is what the image says of its key's deletion, "" where it says nothing.
func (img Image) KeyPolicy() string { return img.Properties[keyPolicy] }

// KeyGoes is the policy of an image with which its key may go.
const KeyGoes = keyGoes

// KeyMayGo reports whether a key may go with its image, by the policy that KeyPolicy gave.
func KeyMayGo(policy string) bool { return policy == keyGoes }

// ErrSecretOfServer refuses a secret for an image that goes with a server's disk or vTPM
// (EE-46).
func ErrSecretOfServer(id SecretID) error {
	return Errorf(Conflict, "Secret %s is the key of a server's disk or vTPM and is deleted with it; an image that is encrypted with it could not be "+
		"opened any more. Use encryption.key 'same', which gives the image a copy of the server's passphrase in a secret of its own, or 'new', "+
		"or name a secret of yours.", id)
}

// ErrSecretGoes refuses a secret for an image that is about to be deleted.
func ErrSecretGoes(id SecretID) error {
	return Errorf(Conflict, "Secret %s is about to be deleted with the image that it was made for. Use encryption.key 'new', or name another secret.", id)
}

// Why the secret of an image stays though the image is gone.
const (
	KeptByPolicy  = "its image is gone, and did not say os_encrypt_key_deletion_policy True"
	KeptForOthers = "its image is gone, and another image or a disk names it"
	KeptWithMany  = "its image is gone, with many others at once: strongroom image-key confirm"
)
