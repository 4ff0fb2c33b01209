package compute

import "strings"

// Encryption is how flavor and image together want a server's local disks.
type Encryption struct {
	Enabled bool
	// Format is what the disks are to have; FormatNone leaves it to the host that the
	// server lands on (EE-03).
	Format DiskFormat
	// FormatRequested is set when flavor or image asked for Format in words, so
	// that only hosts which report it will do (EE-05). A format that comes with
	// an encrypted image is no request.
	FormatRequested bool
	// SourceSecret opens the image, where the image is encrypted; SourceFormat
	// is how (FormatNone: the image does not say).
	SourceSecret *SecretID
	SourceFormat DiskFormat
}

// String says for messages as what disks are to be encrypted.
func (e Encryption) String() string {
	switch {
	case !e.Enabled:
		return "none"
	case e.Format == FormatNone:
		return "any format"
	}
	return string(e.Format)
}

// DiskSecurity reads who may open the keys of a server's disks: the flavor's
// hw:ephemeral_encryption_secret_security, "user" where it has none. Invalid: an
// unknown value.
func DiskSecurity(f Flavor) (SecretSecurity, error) {
	text := f.ExtraSpecs["hw:ephemeral_encryption_secret_security"]
	if text == "" {
		return SecurityUser, nil
	}
	security, err := ParseSecretSecurity(text)
	if err != nil {
		return "", Errorf(Invalid, "Flavor %s has an invalid hw:ephemeral_encryption_secret_security extra spec. %w", f.Name, err)
	}
	return security, nil
}

// EncryptionOf reads hw:ephemeral_encryption, hw:ephemeral_encryption_format and
// their image properties, and os_encrypt_key_id and os_encrypt_format of an
// encrypted image (EE-01 … EE-04, EE-13, EE-14; decisions 2, 7, 8).
//
// Invalid: a value that is no boolean, no format or no secret id. Conflict:
// flavor and image disagree, or an encrypted image meets an explicit "false",
// which would decrypt it unasked.
func EncryptionOf(f Flavor, img Image) (Encryption, error) {
	wanted, err := agreed(f, img, "ephemeral_encryption", ParseBool)
	if err != nil {
		return Encryption{}, err
	}
	requested, err := agreed(f, img, "ephemeral_encryption_format", ParseDiskFormat)
	if err != nil {
		return Encryption{}, err
	}
	enc := Encryption{}
	source, err := img.Encryption()
	if err != nil {
		return Encryption{}, err
	}
	if source != nil {
		enc.SourceSecret, enc.SourceFormat = &source.Secret, source.Format
	}
	if enc.SourceSecret != nil && wanted != nil && !*wanted {
		return Encryption{}, Errorf(Conflict, "Image %s is encrypted (os_encrypt_key_id), conflicting with ephemeral encryption "+
			"which is explicitly disabled by flavor %s or by the image.", img.Name, f.Name)
	}
	enc.Enabled = enc.SourceSecret != nil || wanted != nil && *wanted
	switch {
	case !enc.Enabled:
	case requested != nil:
		enc.Format, enc.FormatRequested = *requested, true
	default:
		enc.Format = enc.SourceFormat
	}
	return enc, nil
}

// ParseDiskFormat reads the name of an encryption format in either spelling
// (decision 7), in any case. Invalid: no such format.
func ParseDiskFormat(text string) (DiskFormat, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "plain", "legacy_dmcrypt_plain":
		return FormatPlain, nil
	case "luks":
		return FormatLUKS, nil
	case "luksv2":
		return FormatLUKSv2, nil
	}
	return FormatNone, Errorf(Invalid, "Unknown encryption format '%s'. Allowed values: plain, luks, luksv2.", text)
}
