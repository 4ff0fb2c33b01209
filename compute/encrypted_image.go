package compute

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// The properties by which an image says which secret opens it. The name of the
// image document comes before the one that Nova reserved (decision 8).
var keyProperties = []string{"os_encrypt_key_id", "hw_ephemeral_encryption_secret_uuid"}

// opening is how the properties begin that say how an image is opened.
var opening = []string{"os_encrypt_", "os_decrypt_", "cinder_encryption_", "hw_ephemeral_encryption_secret_uuid"}

// OpensImage reports whether a property says how its image is opened: with which secret, in which format.
func OpensImage(property string) bool {
	return slices.ContainsFunc(opening, func(start string) bool { return strings.HasPrefix(property, start) })
}

func (img Image) keyProperty() (name, value string) {
	for _, name := range keyProperties {
		if value := img.Properties[name]; value != "" {
			return name, value
		}
	}
	return "", ""
}

// IsEncrypted reports whether the image names the secret that opens it (EE-13).
func (img Image) IsEncrypted() bool {
	name, _ := img.keyProperty()
	return name != ""
}

// ImageEncryption is how an image is encrypted.
type ImageEncryption struct {
	Secret SecretID
	Format DiskFormat // FormatNone: the image does not say, so luks
}

// Encryption reads how the image is encrypted; nil: it is not. Invalid: what it
// says of it makes no sense.
func (img Image) Encryption() (*ImageEncryption, error) {
	property, text := img.keyProperty()
	if property == "" {
		return nil, nil //nolint:nilnil // no encryption is none
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, Errorf(Invalid, "Image %s has an invalid %s property: not a UUID.", img.Name, property)
	}
	format, err := parseImageFormat(img.Properties["os_encrypt_format"])
	if err != nil {
		return nil, Errorf(Invalid, "Image %s has an invalid os_encrypt_format property. %w", img.Name, err)
	}
	return &ImageEncryption{Secret: SecretID{id}, Format: format}, nil
}

// parseImageFormat knows, beside the formats of disks, the names that images
// have for them: LUKS, LUKSv1.
func parseImageFormat(text string) (DiskFormat, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "":
		return FormatNone, nil
	case "luksv1", "luks1":
		return FormatLUKS, nil
	case "luks2":
		return FormatLUKSv2, nil
	}
	return ParseDiskFormat(text)
}

// BackingFormat is the format in which a host reads the image under a root disk:
// ImageQcow2, ImageRaw or ImageLUKS. An encrypted image is LUKS inside of qcow2, or
// a LUKS container, which stores call raw or luks. Invalid: no host can boot it.
func (img Image) BackingFormat() (string, error) {
	enc, err := img.Encryption()
	switch {
	case err != nil:
		return "", err
	case enc != nil && enc.Format != FormatLUKS && enc.Format != FormatNone:
		return "", Errorf(Invalid, "Image %s is encrypted as %s: hosts read images that are encrypted as luks.", img.ID, enc.Format)
	case img.DiskFormat == ImageQcow2:
		return ImageQcow2, nil
	case enc != nil && (img.DiskFormat == ImageRaw || img.DiskFormat == ImageLUKS):
		return ImageLUKS, nil
	case img.DiskFormat == ImageLUKS:
		return "", Errorf(Invalid, "Image %s is a LUKS container and does not say which secret opens it (os_encrypt_key_id).", img.ID)
	case img.DiskFormat == ImageRaw:
		return ImageRaw, nil
	}
	return "", Errorf(Invalid, "Image %s has the disk format '%s': a server can be made of qcow2, raw and, encrypted, luks.", img.ID, img.DiskFormat)
}

// decryptedBytes is the size that an encrypted image says it has inside; 0 where it
// says nothing. Invalid: no size, or more than the container that holds it.
func (img Image) decryptedBytes() (int64, error) {
	text := img.Properties["os_decrypt_size"]
	if text == "" {
		return 0, nil
	}
	bytes, ok := img.decryptSize()
	if !ok || bytes == 0 || img.DiskFormat != ImageQcow2 && img.SizeBytes > 0 && bytes > img.SizeBytes {
		return 0, Errorf(Invalid, "Image %s has an invalid os_decrypt_size property: '%s' is not the size in bytes of what it holds.", img.Name, text)
	}
	return bytes, nil
}

// decryptSize reads the size in bytes that an image says it has inside: digits alone, and at most 18, so that no sum of such sizes overflows.
func (img Image) decryptSize() (bytes int64, ok bool) {
	text := img.Properties["os_decrypt_size"]
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && len(text) <= 18
}
