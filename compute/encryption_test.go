package compute_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"strongroom/compute"
)

func flavor(pairs ...string) compute.Flavor {
	return compute.Flavor{Name: "vault", VCPUs: 1, MemoryMB: 256, RootGB: 1, ExtraSpecs: pairsOf(pairs)}
}

func image(pairs ...string) compute.Image {
	return compute.Image{Name: "guest", Properties: pairsOf(pairs)}
}

func pairsOf(pairs []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

const (
	enc       = "ephemeral_encryption"
	encFormat = "ephemeral_encryption_format"
	keyID     = "6f0d8c1e-6d2b-4a59-9b11-0d8f9c6d3e01"
)

func TestEncryptionOf(t *testing.T) {
	t.Parallel()
	source := &compute.SecretID{UUID: uuid.MustParse(keyID)}
	for name, c := range map[string]struct {
		flavor compute.Flavor
		image  compute.Image
		want   compute.Encryption
	}{
		"nothing said":          {flavor(), image(), compute.Encryption{}},
		"flavor":                {flavor("hw:"+enc, "true"), image(), compute.Encryption{Enabled: true}},
		"image":                 {flavor(), image("hw_"+enc, "YES"), compute.Encryption{Enabled: true}},
		"both, in other words":  {flavor("hw:"+enc, "1"), image("hw_"+enc, "On"), compute.Encryption{Enabled: true}},
		"both off":              {flavor("hw:"+enc, "no"), image("hw_"+enc, "F"), compute.Encryption{}},
		"empty value":           {flavor("hw:"+enc, ""), image("hw_"+enc, "true"), compute.Encryption{Enabled: true}},
		"format of the flavor":  {flavor("hw:"+enc, "t", "hw:"+encFormat, "luks"), image(), compute.Encryption{Enabled: true, Format: "luks", FormatRequested: true}},
		"format of the image":   {flavor("hw:"+enc, "t"), image("hw_"+encFormat, "luksv2"), compute.Encryption{Enabled: true, Format: "luksv2", FormatRequested: true}},
		"two names of a format": {flavor("hw:"+enc, "t", "hw:"+encFormat, "plain"), image("hw_"+encFormat, "legacy_dmcrypt_plain"), compute.Encryption{Enabled: true, Format: "plain", FormatRequested: true}},
		"format without on":     {flavor("hw:"+encFormat, "luks"), image(), compute.Encryption{}},
		"encrypted image": {flavor(), image("os_encrypt_key_id", keyID, "os_encrypt_format", "LUKSv1"),
			compute.Encryption{Enabled: true, Format: "luks", SourceSecret: source, SourceFormat: "luks"}},
		"encrypted image, format not said": {flavor("hw:"+enc, "true"), image("os_encrypt_key_id", keyID),
			compute.Encryption{Enabled: true, SourceSecret: source}},
		"encrypted image, other format asked": {flavor("hw:"+encFormat, "luksv2"), image("os_encrypt_key_id", keyID, "os_encrypt_format", "LUKS"),
			compute.Encryption{Enabled: true, Format: "luksv2", FormatRequested: true, SourceSecret: source, SourceFormat: "luks"}},
		"encrypted image by the reserved name": {flavor(), image("hw_ephemeral_encryption_secret_uuid", keyID),
			compute.Encryption{Enabled: true, SourceSecret: source}},
		"the document's name comes first": {flavor(), image("os_encrypt_key_id", keyID, "hw_ephemeral_encryption_secret_uuid", uuid.NewString()),
			compute.Encryption{Enabled: true, SourceSecret: source}},
		"format of an image that is not encrypted": {flavor("hw:"+enc, "true"), image("os_encrypt_format", "LUKS"), compute.Encryption{Enabled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := compute.EncryptionOf(c.flavor, c.image)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestEncryptionOfRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flavor compute.Flavor
		image  compute.Image
		kind   compute.Kind
		text   string
	}{
		"flavor on, image off": {flavor("hw:"+enc, "true"), image("hw_"+enc, "false"), compute.Conflict,
			"Flavor vault has hw:ephemeral_encryption extra spec explicitly set to true, conflicting with image guest which has hw_ephemeral_encryption explicitly set to false."},
		"flavor off, image on": {flavor("hw:"+enc, "0"), image("hw_"+enc, "yes"), compute.Conflict, "explicitly set to 0, conflicting"},
		"formats differ": {flavor("hw:"+enc, "true", "hw:"+encFormat, "luks"), image("hw_"+encFormat, "luksv2"), compute.Conflict,
			"Flavor vault has hw:ephemeral_encryption_format extra spec explicitly set to luks, conflicting with image guest which has hw_ephemeral_encryption_format explicitly set to luksv2."},
		"no boolean in the flavor": {flavor("hw:"+enc, "maybe"), image(), compute.Invalid, "Unrecognized value 'maybe', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"},
		"no boolean in the image":  {flavor("hw:"+enc, "true"), image("hw_"+enc, "2"), compute.Invalid, "Image guest has an invalid hw_ephemeral_encryption property."},
		"no format":                {flavor("hw:"+enc, "true", "hw:"+encFormat, "rot13"), image(), compute.Invalid, "Unknown encryption format 'rot13'"},
		"no format in the image":   {flavor(), image("hw_"+enc, "true", "hw_"+encFormat, "rot13"), compute.Invalid, "Unknown encryption format 'rot13'"},
		"encrypted image, flavor says false": {flavor("hw:"+enc, "false"), image("os_encrypt_key_id", keyID), compute.Conflict,
			"Image guest is encrypted (os_encrypt_key_id)"},
		"encrypted image, image says false": {flavor(), image("os_encrypt_key_id", keyID, "hw_"+enc, "no"), compute.Conflict,
			"Image guest is encrypted (os_encrypt_key_id)"},
		"key id is none":                {flavor(), image("os_encrypt_key_id", "the usual one"), compute.Invalid, "Image guest has an invalid os_encrypt_key_id property: not a UUID."},
		"format of the encrypted image": {flavor(), image("os_encrypt_key_id", keyID, "os_encrypt_format", "GPG"), compute.Invalid, "invalid os_encrypt_format property"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := compute.EncryptionOf(c.flavor, c.image)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.kind, compute.KindOf(err))
		})
	}
}

func TestParseBool(t *testing.T) {
	t.Parallel()
	words := []string{"1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no"} // six of each
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(words)-1).Draw(t, "word")
		text, want := words[i], i < 6
		if rapid.Bool().Draw(t, "upper") {
			text = strings.ToUpper(text)
		}
		got, err := compute.ParseBool(rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "space") + text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	for _, text := range []string{"", "2", "tru", "enabled", "yes please", "None"} {
		_, err := compute.ParseBool(text)
		require.Equal(t, compute.Invalid, compute.KindOf(err), text)
	}
}
