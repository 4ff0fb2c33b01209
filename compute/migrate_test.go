package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// resizable is a server of a flavor, as a create plans it.
func resizable(f compute.Flavor) compute.Server {
	host := compute.HostID{UUID: uuid.New()}
	s := compute.Server{ID: server, ProjectID: "p1", UserID: "u1", Host: &host, VMState: compute.VMActive, Flavor: f, Image: compute.Image{ID: compute.ImageID{UUID: uuid.New()}}}
	s.Disks = compute.PlanDisks("req-first", f, s.Image, compute.Encryption{Enabled: true})
	for i := range s.Disks {
		s.Disks[i].Secret = &compute.SecretID{UUID: uuid.New()}
	}
	s.TPM, _ = compute.TPMOf(f, s.Image)
	if s.TPM != nil {
		s.TPM.Secret = &compute.SecretID{UUID: uuid.New()}
	}
	return s
}

func flavorOf(id string, root, ephemeral, swap int, specs ...string) compute.Flavor {
	f := flavor(append(specs, "hw:"+enc, "true")...)
	f.ID, f.Name, f.RootGB, f.EphemeralGB, f.SwapMB = id, id, root, ephemeral, swap
	return f
}

func TestResizedTo(t *testing.T) {
	t.Parallel()
	from := flavorOf("from", 2, 1, 64)
	for name, c := range map[string]struct {
		to    compute.Flavor
		kind  compute.Kind
		sizes []int64 // by device name
	}{
		"larger":             {flavorOf("to", 4, 3, 64), "", []int64{4096, 3072, 64}},
		"only more memory":   {flavorOf("to", 2, 1, 64), "", []int64{2048, 1024, 64}},
		"more swap":          {flavorOf("to", 2, 1, 128), "", []int64{2048, 1024, 128}},
		"less swap":          {flavorOf("to", 2, 1, 32), "", []int64{2048, 1024, 32}},
		"no swap":            {flavorOf("to", 2, 1, 0), "", []int64{2048, 1024}},
		"a smaller root":     {flavorOf("to", 1, 1, 64), compute.Invalid, nil},
		"the image's root":   {flavorOf("to", 0, 1, 64), compute.Invalid, nil},
		"less ephemeral":     {flavorOf("to", 2, 0, 64), compute.Invalid, nil},
		"another encryption": {flavor(), compute.Conflict, nil},
	} {
		s := resizable(from)
		got, err := s.ResizedTo(rebuildOp, c.to)
		require.Equal(t, c.kind, compute.KindOf(err), name)
		if err != nil {
			continue
		}
		require.Equal(t, c.to, got.Flavor)
		var sizes []int64
		for i, d := range got.Disks {
			sizes = append(sizes, d.SizeMB)
			require.Equal(t, []any{s.Disks[i].ID, s.Disks[i].Secret, s.Disks[i].DeviceName}, []any{d.ID, d.Secret, d.DeviceName}, name)
		}
		require.Equal(t, c.sizes, sizes, name)
	}

	// Disks that the flavor adds have the next device names, no keys yet, and are encrypted as the root disk is.
	s := resizable(flavorOf("from", 1, 0, 0))
	got, err := s.ResizedTo(rebuildOp, flavorOf("to", 1, 2, 64))
	require.NoError(t, err)
	require.Len(t, got.Disks, 3)
	for i, d := range got.Disks[1:] {
		require.Nil(t, d.Secret)
		require.Equal(t, []any{true, s.Disks[0].Format, []string{"/dev/vdb", "/dev/vdc"}[i]}, []any{d.Encrypted, d.Format, d.DeviceName})
	}
}

// TPM-18, TPM-19.
func TestResizedTPM(t *testing.T) {
	t.Parallel()
	crb := []string{"hw:tpm_version", "2.0", "hw:tpm_model", "tpm-crb"}
	for name, c := range map[string]struct {
		from, to []string
		kind     compute.Kind
		same     bool
	}{
		"kept":          {crb, crb, "", true},
		"added":         {nil, crb, "", false},
		"removed":       {crb, nil, "", false},
		"changed":       {crb, []string{"hw:tpm_version", "1.2"}, "", false},
		"user to host":  {crb, append([]string{"hw:tpm_secret_security", "host"}, crb...), "", true},
		"to deployment": {crb, append([]string{"hw:tpm_secret_security", "deployment"}, crb...), compute.Invalid, false},
	} {
		s := resizable(flavorOf("from", 1, 0, 0, c.from...))
		got, err := s.ResizedTo(rebuildOp, flavorOf("to", 1, 0, 0, c.to...))
		require.Equal(t, c.kind, compute.KindOf(err), name)
		if err != nil {
			continue
		}
		require.Equal(t, c.same, s.SameTPM(got), name)
		if s.TPM != nil && got.TPM != nil {
			require.Equal(t, s.TPM.Secret, got.TPM.Secret, name)
		}
	}
}

// What a server was comes back whole.
func TestBefore(t *testing.T) {
	t.Parallel()
	was := resizable(flavorOf("from", 1, 0, 64, "hw:tpm_version", "2.0"))
	will, err := was.ResizedTo(rebuildOp, flavorOf("to", 2, 1, 0))
	require.NoError(t, err)
	will = will.InNewFiles(rebuildOp)
	for i, d := range will.Disks[:1] {
		require.NotEqual(t, was.Disks[i].Name(), d.Name())
	}
	require.ErrorContains(t, will.CheckMoved(compute.ConfirmResize.Facts), "Cannot 'confirmResize' instance")
	former := was.FormerOf("req-resize", "host", "AUTO")
	will.Former = &former
	require.NoError(t, will.CheckMoved(compute.ConfirmResize.Facts))
	require.Equal(t, compute.Conflict, compute.KindOf(will.CheckMovable()))
	back := will.Before()
	back.System = nil
	require.Equal(t, was, back)
}

// TPM-18, TPM-19: what a server that is off gets of a vTPM has its state from the next boot on, and one that it keeps has it. What it
// was has it again.
func TestResizeOfAServerThatIsOff(t *testing.T) {
	t.Parallel()
	with := resizable(flavorOf("from", 1, 0, 0, "hw:tpm_version", "2.0"))
	without := resizable(flavorOf("from", 1, 0, 0))
	for name, c := range map[string]struct {
		s       compute.Server
		to      compute.Flavor
		has, is bool // a vTPM without a state
	}{
		"added":               {without, flavorOf("to", 2, 0, 0, "hw:tpm_version", "2.0"), false, true},
		"changed":             {with, flavorOf("to", 2, 0, 0, "hw:tpm_version", "1.2"), false, true},
		"changed, not booted": {with.WithNewTPM(true), flavorOf("to", 2, 0, 0, "hw:tpm_version", "1.2"), true, true},
		"kept":                {with, flavorOf("to", 2, 0, 0, "hw:tpm_version", "2.0"), false, false},
		"kept, not booted":    {with.WithNewTPM(true), flavorOf("to", 2, 0, 0, "hw:tpm_version", "2.0"), true, true},
		"left out":            {with, flavorOf("to", 2, 0, 0), false, false},
		"none":                {without, flavorOf("to", 2, 0, 0), false, false},
	} {
		c.s.VMState = compute.VMStopped
		is, err := c.s.ResizedTo(rebuildOp, c.to)
		require.NoError(t, err, name)
		require.Equal(t, c.is, is.HasNewTPM(), name)
		former := c.s.FormerOf("req-resize", "host", "AUTO")
		is.Former = &former
		require.Equal(t, c.has, is.Before().HasNewTPM(), name)
		if c.has {
			continue
		}
		c.s.VMState = compute.VMActive
		is, err = c.s.ResizedTo(rebuildOp, c.to)
		require.NoError(t, err, name)
		require.False(t, is.HasNewTPM(), "%s: the resize boots it", name)
	}
}

// Who is not the owner delegates nothing, and makes no keys in another project.
func TestCheckMover(t *testing.T) {
	t.Parallel()
	s := resizable(flavorOf("from", 1, 0, 0))
	owner, admin := compute.Credential{ProjectID: "p1", UserID: "u1"}, compute.Credential{ProjectID: "ops", UserID: "root"}
	same, err := s.ResizedTo(rebuildOp, flavorOf("to", 2, 0, 0))
	require.NoError(t, err)
	require.NoError(t, s.CheckMover(same, admin))
	for _, to := range []compute.Flavor{
		flavorOf("to", 1, 1, 0), flavorOf("to", 1, 0, 0, "hw:tpm_version", "2.0"), flavorOf("to", 1, 0, 0, "hw:tpm_version", "2.0", "hw:tpm_secret_security", "host"),
	} {
		will, err := s.ResizedTo(rebuildOp, to)
		require.NoError(t, err)
		require.NoError(t, s.CheckMover(will, owner))
		require.Equal(t, compute.Forbidden, compute.KindOf(s.CheckMover(will, admin)))
	}
}
