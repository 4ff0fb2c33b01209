package compute_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// encrypted is a server of flavor and image on a host that decides on what they leave open.
func encrypted(t *testing.T, f compute.Flavor, img compute.Image, host compute.DiskFormat) compute.Server {
	t.Helper()
	enc, err := compute.EncryptionOf(f, img)
	require.NoError(t, err)
	s := compute.Server{ID: server, Flavor: f, Image: img}
	s.Disks = compute.PlanDisks("req-1", f, img, enc)
	return s.InFormat(host)
}

func named(name string, specs ...string) compute.Flavor {
	f := flavor(specs...)
	f.ID, f.Name, f.RootGB, f.EphemeralGB = name, name, 1, 1
	return f
}

func formats(s compute.Server) []compute.DiskFormat {
	var out []compute.DiskFormat
	for _, d := range s.Disks {
		out = append(out, d.Format)
	}
	return out
}

// EE-03: a host decides on what flavor and image leave open, and on nothing else.
func TestEE03AHostDecidesOnWhatIsLeftOpen(t *testing.T) {
	t.Parallel()
	luks, luksv2 := []compute.DiskFormat{compute.FormatLUKS, compute.FormatLUKS}, []compute.DiskFormat{compute.FormatLUKSv2, compute.FormatLUKSv2}
	for name, c := range map[string]struct {
		s    compute.Server
		want []compute.DiskFormat
	}{
		"nobody asks":       {encrypted(t, named("f", "hw:"+enc, "true"), image(), compute.FormatLUKSv2), luksv2},
		"the flavor asks":   {encrypted(t, named("f", "hw:"+enc, "true", "hw:"+encFormat, "luksv2"), image(), compute.FormatPlain), luksv2},
		"the image asks":    {encrypted(t, named("f"), image("hw_"+enc, "true", "hw_"+encFormat, "luksv2"), compute.FormatLUKS), luksv2},
		"encrypted image":   {encrypted(t, named("f"), image("os_encrypt_key_id", keyID, "os_encrypt_format", "luks"), compute.FormatLUKSv2), luks},
		"nothing encrypted": {encrypted(t, named("f"), image(), compute.FormatLUKSv2), []compute.DiskFormat{"", ""}},
	} {
		require.Equal(t, c.want, formats(c.s), name)
		require.False(t, c.s.LeavesFormat(), name)
		require.Equal(t, c.want, formats(c.s.InFormat(compute.FormatPlain)), "%s: what is decided stays (EE-42)", name)
	}
}

// EE-03, EE-05, EE-41, EE-42: where a server goes whose format is open, and where one whose
// format a host decided on.
func TestEE42AServerGoesWhereItsFormatIsOpened(t *testing.T) {
	t.Parallel()
	now := time.Now()
	host := func(format compute.DiskFormat, traits ...string) compute.Host {
		return compute.Host{Traits: append(traits, compute.TraitEncryption), Default: format, LastSeen: now, Capacity: compute.Resources{VCPUs: 9, MemoryMB: 9999, DiskGB: 99}}
	}
	all := []string{compute.TraitEncryptionLUKS, compute.TraitEncryptionLUKSv2, compute.TraitEncryptionPlain}
	open := encrypted(t, named("f", "hw:"+enc, "true"), image(), compute.FormatNone)
	require.True(t, open.LeavesFormat())
	luks, luksv2 := open.InFormat(compute.FormatLUKS), open.InFormat(compute.FormatLUKSv2)
	drive := luksv2
	drive.ConfigDrive = true
	for name, c := range map[string]struct {
		h    compute.Host
		s    compute.Server
		want string
	}{
		"open, an older worker":                   {host("", compute.TraitEncryptionLUKS), open, ""},
		"open, its own default":                   {host(compute.FormatLUKSv2, compute.TraitEncryptionLUKSv2), open, ""},
		"open, an older worker that has no luks":  {host("", compute.TraitEncryptionLUKSv2), open, "cannot make its default encryption format luks"},
		"open, a default that it lost":            {host(compute.FormatPlain, compute.TraitEncryptionLUKS), open, "cannot make its default encryption format plain"},
		"luks, a host of luksv2 alone":            {host(compute.FormatLUKSv2, compute.TraitEncryptionLUKSv2), luks, "lacks trait COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"},
		"luks, another default":                   {host(compute.FormatLUKSv2, all...), luks, ""},
		"luks, an older worker":                   {host("", compute.TraitEncryptionLUKS), luks, ""},
		"luksv2, a host of luks alone":            {host("", compute.TraitEncryptionLUKS), luksv2, "lacks trait COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2"},
		"luksv2, another default":                 {host("", all...), luksv2, ""},
		"a config drive, a host of luksv2 alone":  {host(compute.FormatLUKSv2, compute.TraitEncryptionLUKSv2), drive, "lacks trait COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"},
		"nothing encrypted, a default that lacks": {host(compute.FormatPlain), encrypted(t, named("f"), image(), ""), ""},
	} {
		require.Equal(t, c.want, c.h.Unfit(compute.RequestOf(c.s), now), name)
	}
}

// Defect 4: what an encrypted image does not say of its format is luks, which its host must read.
func TestEE05AHostReadsTheImage(t *testing.T) {
	t.Parallel()
	img := image("os_encrypt_key_id", keyID)
	got, err := compute.EncryptionOf(flavor(), img)
	require.NoError(t, err)
	traits, err := compute.TraitsOf(flavor(), img, got, nil)
	require.NoError(t, err)
	require.Equal(t, []string{compute.TraitEncryption, compute.TraitEncryptionLUKS}, traits.Required)
}

// EE-42: a resize leaves the format alone, whoever decided on it and whatever the default is.
func TestEE42AResizeKeepsTheFormat(t *testing.T) {
	t.Parallel()
	safe := named("safe", "hw:"+enc, "true")
	s := encrypted(t, safe, image(), compute.FormatLUKSv2)
	for name, specs := range map[string][]string{
		"any":    {"hw:" + enc, "true"},
		"luksv2": {"hw:" + enc, "true", "hw:" + encFormat, "luksv2"},
	} {
		require.NoError(t, s.CheckResize(named(name, specs...)), name)
	}
	require.ErrorContains(t, s.CheckResize(named("luks", "hw:"+enc, "true", "hw:"+encFormat, "luks")), "(luksv2 and luks)")
	asked := encrypted(t, named("asks", "hw:"+enc, "true", "hw:"+encFormat, "luks"), image(), "")
	require.NoError(t, asked.CheckResize(safe), "the new flavor leaves it open")

	larger := named("larger", "hw:"+enc, "true")
	larger.SwapMB = 64
	small := encrypted(t, safe, image(), compute.FormatLUKS)
	small.Flavor.SwapMB = 0
	will, err := small.ResizedTo("req-2", larger)
	require.NoError(t, err)
	require.Equal(t, []compute.DiskFormat{compute.FormatLUKS, compute.FormatLUKS, compute.FormatLUKS}, formats(will))
}

// EE-03, EE-42: a rebuild makes new disks as the old ones were, where nobody asked then nor asks
// now. Where somebody asked and nobody does any more, the host's default decides.
func TestEE42ARebuildAndTheDefault(t *testing.T) {
	t.Parallel()
	asking := func(format string) compute.Image {
		return imageAsking(map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": format})
	}
	open := imageAsking(map[string]string{"hw_ephemeral_encryption": "true"})
	for name, c := range map[string]struct {
		was  compute.Server
		to   compute.Image
		want compute.DiskFormat
	}{
		"nobody ever asked":             {encrypted(t, named("f", "hw:"+enc, "true"), image(), compute.FormatLUKS), imageAsking(nil), compute.FormatLUKS},
		"the new image asks":            {encrypted(t, named("f", "hw:"+enc, "true"), image(), compute.FormatLUKS), asking("plain"), compute.FormatPlain},
		"the old image asked":           {encrypted(t, named("f"), asking("plain"), ""), open, compute.FormatLUKSv2},
		"nothing was encrypted":         {encrypted(t, named("f"), image(), ""), open, compute.FormatLUKSv2},
		"the image was encrypted":       {encrypted(t, named("f"), image("os_encrypt_key_id", keyID, "os_encrypt_format", "luks"), ""), open, compute.FormatLUKSv2},
		"nothing is encrypted any more": {encrypted(t, named("f"), open, compute.FormatLUKS), imageAsking(nil), ""},
	} {
		will, err := c.was.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: c.to}, compute.FormatLUKSv2)
		require.NoError(t, err, name)
		require.Equal(t, []compute.DiskFormat{c.want, c.want}, formats(will), name)
	}
	s := encrypted(t, named("f", "hw:"+enc, "true"), image(), compute.FormatLUKS)
	s.ProjectID, s.UserID = "p1", "u1"
	will, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: imageAsking(nil), PreserveEphemeral: true}, compute.FormatLUKSv2)
	require.NoError(t, err, "a new default is no other encryption")
	require.NoError(t, s.CheckRebuilder(will, compute.Credential{ProjectID: "p1", UserID: "u2"}))
}
