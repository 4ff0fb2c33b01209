package workflows_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// secureBoot are the properties of an image for a server with UEFI, as crb else.
var secureBoot = map[string]string{
	"hw_ephemeral_encryption": "true", "hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb", "hw_firmware_type": "uefi", "os_secure_boot": "required",
}

// newUEFI is a bench with a server that is to begin with UEFI.
func newUEFI(t *testing.T) *bench {
	b := newBench(t, true)
	b.row.server.Image.Properties = map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}
	return b
}

// onUEFI is a bench with such a server that is active.
func onUEFI(t *testing.T) *bench {
	b := newUEFI(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

// registerNVRAM registers what makes the variables of a server's UEFI.
func (w *world) registerNVRAM(r registry) {
	registerOnHost(w, r, disk.CreateNVRAM, func(ctx context.Context, in disk.NVRAMInput) (none, error) {
		folder := hostOf(ctx) + " " + in.Server.String() + "/"
		text := "new"
		if !in.Firmware.UEFI {
			return none{}, compute.Errorf(compute.Invalid, "it begins with a BIOS")
		}
		if in.Of != "" {
			if !w.files[folder+in.Of] || w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] == compute.PowerRunning {
				return none{}, compute.Errorf(compute.Corrupt, "it runs, or its variables are missing")
			}
			text = w.nvram[folder+in.Of]
		}
		w.makeNVRAM(hostOf(ctx), in.Server, in.File, text)
		return none{}, nil
	})
	registerOnHost(w, r, disk.ReceiveNVRAM, func(ctx context.Context, in disk.ReceiveNVRAMInput) (none, error) {
		name := in.Server.String() + "/" + in.File
		row := w.ledger[compute.Sighting{Kind: compute.ThingDiskFile, Place: hostOf(ctx), Name: name}]
		from := in.From.Host.String() + " "
		if row.State != compute.ThingIntended || row.Operation != in.Operation || w.domains[from+compute.InstanceName(in.Server)] == compute.PowerRunning || !w.files[from+name] {
			return none{}, compute.Errorf(compute.Forbidden, "no ticket, or it runs, or there is none")
		}
		w.makeNVRAM(hostOf(ctx), in.Server, in.File, w.nvram[from+name])
		return none{}, nil
	})
}

// registerStoredNVRAM registers what keeps the variables of a shelved server.
func (w *world) registerStoredNVRAM(r registry) {
	registerOnHost(w, r, disk.SaveNVRAM, func(ctx context.Context, in disk.SaveNVRAMInput) (disk.SaveNVRAMResult, error) {
		key := hostOf(ctx) + " " + in.Server.String() + "/" + in.File
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] == compute.PowerRunning || !w.files[key] {
			return disk.SaveNVRAMResult{}, compute.Errorf(compute.Corrupt, "it runs, or its variables are missing")
		}
		w.made(compute.ThingObject, compute.PlaceObjects, in.Object)
		w.stored[in.Object] = w.nvram[key]
		return disk.SaveNVRAMResult{SizeBytes: int64(len(w.nvram[key])), SHA256: sumOf(w.nvram[key])}, nil
	})
	registerOnHost(w, r, disk.RestoreNVRAM, func(ctx context.Context, in disk.RestoreNVRAMInput) (none, error) {
		data, is := w.stored[in.Stored.Object]
		switch {
		case !in.Firmware.UEFI:
			return none{}, compute.Errorf(compute.Invalid, "it begins with a BIOS")
		case !is:
			return none{}, compute.Errorf(compute.NotFound, "no such object")
		case sumOf(data) != in.Stored.SHA256:
			return none{}, compute.Errorf(compute.Corrupt, "its sha256 is another one")
		}
		w.makeNVRAM(hostOf(ctx), in.Server, in.File, data)
		return none{}, nil
	})
}

func (w *world) makeNVRAM(host string, server compute.ServerID, file, text string) {
	name := server.String() + "/" + file
	w.made(compute.ThingDiskFile, host, name)
	if key := host + " " + name; !w.files[key] {
		w.files[key], w.nvram[key] = true, text
	}
}

// bootNVRAM has a guest write to its variables as it boots.
func (w *world) bootNVRAM(host string, s compute.Server) error {
	file := s.NVRAM()
	if file == "" {
		return nil
	}
	key := host + " " + s.ID.String() + "/" + file
	if !w.files[key] {
		return compute.Errorf(compute.Corrupt, "its UEFI variables are missing")
	}
	w.nvram[key] += " booted"
	return nil
}

// variables are those of the server's UEFI where it is.
func (b *bench) variables() string {
	s := b.row.server
	return b.nvram[s.Host.String()+" "+s.ID.String()+"/"+s.NVRAM()]
}

// The variables of a server's UEFI go with it wherever it goes, as it left them; where it is reverted they
// are those that it had before, and where its disks are new, so are they.
func TestUEFIVariablesGoWithTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup func(*testing.T) *bench
		do    func(*bench) error
		want  string
	}{
		"created":             {onUEFI, func(*bench) error { return nil }, "new booted"},
		"migrated":            {onUEFI, func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) }, "new booted booted"},
		"migrated off":        {shutOffWith(onUEFI), func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) }, "new booted"},
		"resized here":        {onUEFI, func(b *bench) error { return b.resizeIt(here(nil)) }, "new booted booted"},
		"resized there":       {onUEFI, func(b *bench) error { return b.resizeIt(there(nil)) }, "new booted booted"},
		"reverted here":       {resized(onUEFI, here(nil)), (*bench).revertIt, "new booted booted"},
		"reverted there":      {resized(onUEFI, there(nil)), (*bench).revertIt, "new booted booted"},
		"confirmed":           {resized(onUEFI, here(nil)), (*bench).confirmIt, "new booted booted"},
		"migrated live":       {onUEFI, func(b *bench) error { return b.live(nil) }, "new booted"},
		"evacuated":           {fenced(onUEFI), func(b *bench) error { return b.evacuateIt(compute.EvacuateArguments{}) }, "new booted"},
		"rebuilt":             {onUEFI, func(b *bench) error { return b.rebuildIt(secureBoot) }, "new booted"},
		"rebuilt from a BIOS": {spawned, func(b *bench) error { return b.rebuildIt(secureBoot) }, "new booted"},
		"shelved":             {onUEFI, func(b *bench) error { return b.shelveIt(compute.NeverOffload) }, "new booted"},
		"unshelved":           {offloaded(onUEFI), func(b *bench) error { return b.unshelveIt(compute.UnshelveArguments{}) }, "new booted booted"},
		"unshelved, off":      {offloaded(shutOffWith(onUEFI)), func(b *bench) error { return b.unshelveIt(compute.UnshelveArguments{}) }, "new booted booted"},
		"unshelved here":      {shelvedHere(onUEFI), func(b *bench) error { return b.unshelveIt(compute.UnshelveArguments{}) }, "new booted booted"},
		"rescued":             {onUEFI, func(b *bench) error { return b.rescueIt() }, "new booted booted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := c.setup(t)
			require.NoError(t, c.do(b))
			b.reapAll()
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			require.Equal(t, c.want, b.variables())
			kept := slices.Collect(maps.Keys(b.nvram))
			machines := 1
			if b.row.server.Former != nil {
				machines = 2
			}
			require.Len(t, kept, machines, "%v", kept)
		})
	}
}

func (b *bench) rebuildIt(properties map[string]string) error {
	b.t.Helper()
	return b.run(compute.OpRebuild, b.accept(compute.OpRebuild, compute.TaskRebuilding, rebuildTo(properties)), nil)
}

func (b *bench) rescueIt() error {
	b.t.Helper()
	return b.run(compute.OpRescue, b.accept(compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: rescueImage}), nil)
}

// A server that was rebuilt to an image without UEFI has no variables any more, and one that goes has
// none left.
func TestUEFIVariablesGo(t *testing.T) {
	t.Parallel()
	b := onUEFI(t)
	require.NoError(t, b.rebuildIt(crb))
	require.Empty(t, b.nvram)
	b = onUEFI(t)
	require.NoError(t, b.run(compute.OpDelete, b.accept(compute.OpDelete, compute.TaskDeleting, nil), nil))
	require.Empty(t, b.nvram)
	require.Empty(t, b.things())
	for _, setup := range []func(*testing.T) *bench{offloaded(onUEFI), shelvedHere(onUEFI)} {
		b = setup(t)
		require.NotEmpty(t, b.keptIn("nvram"))
		require.NoError(t, b.run(compute.OpDelete, b.accept(compute.OpDelete, compute.TaskDeleting, nil), nil))
		require.Empty(t, b.stored)
		require.Empty(t, b.things())
		require.Empty(t, b.ledger)
	}
}

// shelvedHere is a bench with a server that is shelved on its host.
func shelvedHere(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.shelveIt(compute.NeverOffload))
		b.forget()
		return b
	}
}
