package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-33.
func TestCheckResize(t *testing.T) {
	t.Parallel()
	named := func(name string, specs ...string) compute.Flavor {
		f := flavor(specs...)
		f.ID, f.Name = name, name
		return f
	}
	plain, luks := named("plain"), named("luks", "hw:"+enc, "true")
	in := func(format string) compute.Flavor {
		return named("in-"+format, "hw:"+enc, "true", "hw:"+encFormat, format)
	}
	for name, c := range map[string]struct {
		from, to compute.Flavor
		image    compute.Image
		kind     compute.Kind
	}{
		"neither encrypts":         {plain, named("large"), image(), ""},
		"both encrypt":             {luks, named("large", "hw:"+enc, "true"), image(), ""},
		"the default in words":     {luks, named("large", "hw:"+enc, "true", "hw:"+encFormat, "luks"), image(), ""},
		"the image encrypts":       {plain, luks, image("hw_"+enc, "true"), ""},
		"an encrypted image":       {plain, luks, image("os_encrypt_key_id", keyID, "os_encrypt_format", "luks"), ""},
		"the same flavor":          {luks, luks, image(), compute.Invalid},
		"on":                       {plain, luks, image(), compute.Conflict},
		"off":                      {luks, plain, image(), compute.Conflict},
		"another format":           {luks, in("luksv2"), image(), compute.Conflict},
		"and back":                 {in("luksv2"), in("luks"), image(), compute.Conflict},
		"to plain":                 {in("luksv2"), in("plain"), image(), compute.Conflict},
		"from plain":               {in("plain"), in("luksv2"), image(), compute.Conflict},
		"from plain, off":          {in("plain"), plain, image(), compute.Conflict},
		"it stays luksv2":          {in("luksv2"), luks, image(), ""},
		"keys of another owner":    {luks, named("ours", "hw:"+enc, "true", "hw:ephemeral_encryption_secret_security", "deployment"), image(), compute.Conflict},
		"keys for whom they serve": {luks, named("host", "hw:"+enc, "true", "hw:ephemeral_encryption_secret_security", "host"), image(), ""},
		"no boolean":               {luks, named("odd", "hw:"+enc, "maybe"), image(), compute.Invalid},
	} {
		s := compute.Server{Flavor: c.from, Image: c.image}
		enc, err := compute.EncryptionOf(c.from, c.image)
		require.NoError(t, err, name)
		s.Disks = compute.PlanDisks("req-1", c.from, c.image, enc)
		require.Equal(t, c.kind, compute.KindOf(s.InFormat(compute.FormatLUKS).CheckResize(c.to)), name)
	}
}
