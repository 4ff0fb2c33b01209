package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

const rebuildOp = compute.OperationID("req-00000000-0000-4000-8000-0000000000aa")

// rebuildable is an encrypted server with a vTPM 2.0 of the image's, all keys made.
func rebuildable() compute.Server {
	id := func() *compute.SecretID { return &compute.SecretID{UUID: uuid.New()} }
	s := compute.Server{
		ID: server, ProjectID: "p1", UserID: "u1",
		Flavor: compute.Flavor{ID: "1", Name: "f", MemoryMB: 512, RootGB: 1, EphemeralGB: 2, SwapMB: 64},
		Image:  compute.Image{ID: compute.ImageID{UUID: uuid.New()}},
		TPM:    &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser, Secret: id()},
	}
	s.Disks = compute.PlanDisks("req-first", s.Flavor, s.Image, compute.Encryption{Enabled: true})
	second := s.Disks[1]
	second.Index, second.SizeMB = 1, 512 // as a request divided them
	s.Disks = append(s.Disks, second)
	for i := range s.Disks {
		s.Disks[i].Format = compute.FormatLUKS
		s.Disks[i].Secret, s.Disks[i].EncryptionOptions = id(), map[string]string{"cipher-alg": "aes-256"}
	}
	return s
}

func imageAsking(properties map[string]string) compute.Image {
	return compute.Image{ID: compute.ImageID{UUID: uuid.New()}, Name: "anew", VirtualBytes: 1 << 29, Properties: properties}
}

var encryptedAndTPM = map[string]string{"hw_ephemeral_encryption": "yes", "hw_tpm_version": "2.0", "hw_tpm_model": "CRB"}

func TestRebuiltAs(t *testing.T) {
	t.Parallel()
	s := rebuildable()
	img := imageAsking(encryptedAndTPM)
	got, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: img}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Equal(t, img, got.Image)
	require.Equal(t, s.TPM, got.TPM)
	require.Len(t, got.Disks, len(s.Disks))
	names := map[string]bool{}
	for i, d := range got.Disks {
		was := s.Disks[i]
		require.NotEqual(t, was.ID, d.ID)
		require.Contains(t, d.Name(), was.Name()+".")
		names[d.Name()] = true
		require.Nil(t, d.Secret)
		require.Nil(t, d.EncryptionOptions)
		require.Equal(t, compute.FormatLUKS, d.Format)
		require.Equal(t, []any{was.Role, was.Index, was.DeviceName, was.SizeMB, was.BootIndex}, []any{d.Role, d.Index, d.DeviceName, d.SizeMB, d.BootIndex})
	}
	require.Len(t, names, len(s.Disks))
	require.Equal(t, &img.ID, got.Disks[0].Image)
	again, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: img}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Equal(t, got, again, "what runs twice plans the same")
	require.Equal(t, "disk", s.Disks[0].Name(), "the plan leaves the server alone")

	third, err := got.RebuiltAs("req-third", compute.RebuildArguments{Image: img}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Regexp(t, `^disk\.[0-9a-f]{8}$`, third.Disks[0].Name(), "names do not grow")
	require.NotEqual(t, got.Disks[0].Name(), third.Disks[0].Name())

	plain, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: imageAsking(nil)}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Nil(t, plain.TPM)
	for _, d := range plain.Disks {
		require.False(t, d.Encrypted)
		require.Equal(t, compute.FormatNone, d.Format)
	}
	back, err := plain.RebuiltAs("req-back", compute.RebuildArguments{Image: img}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Nil(t, back.TPM.Secret, "a fresh one")

	kept, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: img, PreserveEphemeral: true}, compute.FormatLUKS)
	require.NoError(t, err)
	for i, d := range kept.Disks {
		if d.Role == compute.EphemeralDisk {
			require.Equal(t, s.Disks[i], d)
		} else {
			require.NotEqual(t, s.Disks[i].ID, d.ID)
		}
	}
	s.Flavor.RootGB = 0
	sized, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: img}, compute.FormatLUKS)
	require.NoError(t, err)
	require.EqualValues(t, 512, sized.Disks[0].SizeMB, "a flavor without a size takes the image's")
}

func TestRebuiltAsRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		properties map[string]string
		preserve   bool
		kind       compute.Kind
		text       string
	}{
		"another version":     {map[string]string{"hw_tpm_version": "1.2"}, false, compute.Conflict, "a rebuild keeps the vTPM"},
		"another model":       {map[string]string{"hw_tpm_version": "2.0"}, false, compute.Conflict, "a rebuild keeps the vTPM"},
		"half a TPM":          {map[string]string{"hw_tpm_model": "tpm-crb"}, false, compute.Invalid, "without a TPM version"},
		"no boolean":          {map[string]string{"hw_ephemeral_encryption": "maybe"}, false, compute.Invalid, "hw_ephemeral_encryption"},
		"plain and preserved": {nil, true, compute.Conflict, "they cannot be preserved"},
	} {
		_, err := rebuildable().RebuiltAs(rebuildOp, compute.RebuildArguments{Image: imageAsking(c.properties), PreserveEphemeral: c.preserve}, compute.FormatLUKS)
		require.ErrorContains(t, err, c.text, name)
		require.Equal(t, c.kind, compute.KindOf(err), name)
	}
	small := imageAsking(nil)
	small.VirtualBytes = 2 << 30
	_, err := rebuildable().RebuiltAs(rebuildOp, compute.RebuildArguments{Image: small}, compute.FormatLUKS)
	require.Equal(t, compute.Invalid, compute.KindOf(err))
}

func TestCheckRebuilder(t *testing.T) {
	t.Parallel()
	owner := compute.Credential{ProjectID: "p1", UserID: "u1"}
	colleague, stranger := compute.Credential{ProjectID: "p1", UserID: "u2"}, compute.Credential{ProjectID: "p2", UserID: "u1"}
	host := map[string]string{"hw:ephemeral_encryption_secret_security": "host", "hw:tpm_secret_security": "host"}
	deployment := map[string]string{"hw:ephemeral_encryption_secret_security": "deployment", "hw:tpm_secret_security": "deployment"}
	tpmOnly := map[string]string{"hw_tpm_version": "2.0", "hw_tpm_model": "CRB"}
	plain := func(s *compute.Server) {
		s.TPM = nil
		for i := range s.Disks {
			s.Disks[i].Encrypted, s.Disks[i].Format, s.Disks[i].Secret = false, "", nil
		}
	}
	for name, c := range map[string]struct {
		asker  compute.Credential
		specs  map[string]string
		change func(*compute.Server)
		to     map[string]string
		text   string // "": he may
	}{
		"the owner, the same":                 {owner, nil, nil, encryptedAndTPM, ""},
		"the owner, to plain":                 {owner, nil, nil, nil, ""},
		"the owner, from plain":               {owner, host, plain, encryptedAndTPM, ""},
		"a colleague, the same":               {colleague, nil, nil, encryptedAndTPM, ""},
		"a colleague, to plain":               {colleague, nil, nil, nil, "other encryption options"},
		"a colleague, from plain":             {colleague, nil, plain, encryptedAndTPM, "other encryption options"},
		"a colleague, a vTPM":                 {colleague, nil, plain, tpmOnly, ""},
		"a colleague, a vTPM to be delegated": {colleague, host, plain, tpmOnly, "delegation"},
		"another project, the same":           {stranger, nil, nil, encryptedAndTPM, "keeps its keys in project p1"},
		"another project, delegated":          {stranger, host, func(s *compute.Server) { s.TPM.Security = compute.SecurityHost }, encryptedAndTPM, ""},
		"another project, the deployment's":   {stranger, deployment, nil, encryptedAndTPM, ""},
		"another project, a vTPM":             {stranger, nil, plain, tpmOnly, "keeps its keys in project p1"},
		"another project, plain to plain":     {stranger, nil, plain, nil, ""},
	} {
		s := rebuildable()
		s.Flavor.ExtraSpecs = c.specs
		if c.change != nil {
			c.change(&s)
		}
		will, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: imageAsking(c.to)}, compute.FormatLUKS)
		require.NoError(t, err, name)
		err = s.CheckRebuilder(will, c.asker)
		if c.text == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.text, name)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), name)
	}
}

// onlyOf gives the things that a server uses on a host and another server does not on
// another host.
func onlyOf(was compute.Server, on compute.HostID, is compute.Server, then compute.HostID, things []compute.Thing) []compute.Thing {
	var out []compute.Thing
	for _, t := range things {
		if was.Uses(on, t) && !is.Uses(then, t) {
			out = append(out, t)
		}
	}
	return out
}

// uses is what a rebuildable server of the mode host has on a host, of every kind.
type uses struct {
	server                 compute.Server
	host                   compute.HostID
	domain, console, state compute.Thing
	things                 []compute.Thing
}

func (u uses) file(d compute.Disk) compute.Thing {
	return compute.Thing{Kind: compute.ThingDiskFile, Place: u.host.String(), Name: u.server.ID.String() + "/" + d.Name()}
}

func (u uses) key(id *compute.SecretID) compute.Thing {
	return compute.Thing{Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: "strongroom …", Reference: id.String()}
}

func usesOf(s compute.Server) uses {
	s.Flavor.ExtraSpecs = map[string]string{"hw:ephemeral_encryption_secret_security": "host"}
	u := uses{server: s, host: compute.HostID{UUID: uuid.New()}}
	u.console = compute.Thing{Kind: compute.ThingDiskFile, Place: u.host.String(), Name: s.ID.String() + "/console.log"}
	u.domain = compute.Thing{Kind: compute.ThingDomain, Place: u.host.String(), Name: s.InstanceName()}
	u.state = compute.Thing{Kind: compute.ThingTPMState, Place: u.host.String(), Name: s.ID.String()}
	u.things = []compute.Thing{u.domain, u.console, u.state, {Kind: compute.ThingTrust, Place: compute.PlaceIdentity}, u.key(s.TPM.Secret)}
	for _, d := range s.Disks {
		u.things = append(u.things, u.file(d), u.key(d.Secret))
	}
	return u
}

// A rebuild removes what its server does not use any more, and nothing else.
func TestUsesOfARebuild(t *testing.T) {
	t.Parallel()
	u := usesOf(rebuildable())
	s := u.server
	same, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: imageAsking(encryptedAndTPM), PreserveEphemeral: true}, compute.FormatLUKS)
	require.NoError(t, err)
	require.ElementsMatch(t, []compute.Thing{u.file(s.Disks[0]), u.key(s.Disks[0].Secret), u.file(s.Disks[2]), u.key(s.Disks[2].Secret)},
		onlyOf(s, u.host, same, u.host, u.things))
	plain, err := s.RebuiltAs(rebuildOp, compute.RebuildArguments{Image: imageAsking(nil)}, compute.FormatLUKS)
	require.NoError(t, err)
	require.ElementsMatch(t, u.things[2:], onlyOf(s, u.host, plain, u.host, u.things), "all but the domain and its console log")
	require.Empty(t, onlyOf(s, u.host, s, u.host, u.things))
}

// B4: "disk" on one host is not "disk" on another: a server that moved, and changed in
// nothing else, has no use for anything on the host that it left.
func TestB4AServerUsesFilesOnItsHostOnly(t *testing.T) {
	t.Parallel()
	u := usesOf(rebuildable())
	left := []compute.Thing{u.domain, u.console, u.state}
	for _, d := range u.server.Disks {
		left = append(left, u.file(d))
	}
	other := compute.HostID{UUID: uuid.New()}
	require.ElementsMatch(t, left, onlyOf(u.server, u.host, u.server, other, u.things), "all that is on the host, and no key")
}
