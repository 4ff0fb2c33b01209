package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// A server that was shelved since the backup is told, and nothing that keeps its data, nor
// the record of its keys, is touched.
func TestDamageOfAServerThatWasShelvedSince(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	has := d.has()
	for _, got := range d.find(d.known(has...), compute.Missing, has[:2]...) {
		require.Equal(t, compute.DamagedRow, got.What)
		require.Empty(t, got.Remedy)
		require.Contains(t, got.Why, "look for images vault-shelved in its project before you rebuild or delete it")
	}
	state := d.thing(compute.ThingObject, compute.PlaceObjects, compute.TPMObject(d.server.ID, "req-1"), "")
	in := compute.RepairInput{Known: map[compute.ServerID]compute.KnownServer{d.server.ID: d.known(has...)}}
	for _, gone := range has[:2] {
		in.Findings = append(in.Findings, compute.LedgerEntry{Thing: gone}.Finding(compute.Missing))
	}
	nvram := d.thing(compute.ThingObject, compute.PlaceObjects, compute.NVRAMObject(d.server.ID, "req-1"), "")
	for _, kept := range []compute.Thing{state, nvram} {
		got := d.findIn(in, compute.Unowned, kept)
		require.Len(t, got, 3)
		for _, damage := range got {
			require.Equal(t, d.server.ID, damage.Server)
			require.Empty(t, damage.Remedy)
			require.Contains(t, damage.Why, "it was shelved since")
		}
	}

	got := d.find(d.known(has...), compute.Missing, has[1]) // its domain is there
	require.Len(t, got, 1)
	require.Contains(t, got[0].Why, "its disk is lost")
}

// A server that was unshelved since has its data on a host alone: they are told, and left
// alone.
func TestDamageOfAServerThatWasUnshelvedSince(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	img := compute.ImageID{UUID: uuid.New()}
	d.server.VMState, d.server.Host = compute.VMShelvedOffloaded, nil
	d.server.Disks[0].Shelved = &compute.ShelvedDisk{Image: img}
	d.server.System = map[string]string{
		compute.SystemTPMObject: compute.TPMObject(d.server.ID, "req-1"), compute.SystemNVRAMObject: compute.NVRAMObject(d.server.ID, "req-1"),
	}
	kept := []compute.Thing{
		d.thing(compute.ThingImage, compute.PlaceImageStore, img.String(), ""),
		d.thing(compute.ThingObject, compute.PlaceObjects, d.server.System[compute.SystemTPMObject], ""),
		d.thing(compute.ThingObject, compute.PlaceObjects, d.server.System[compute.SystemNVRAMObject], ""),
	}
	known := d.known(append(kept, d.has()[2])...)
	got := d.find(known, compute.Missing, kept...)
	require.Len(t, got, len(kept))
	for _, damage := range got {
		require.Empty(t, damage.Remedy)
		require.Contains(t, damage.Why, "it was unshelved since, and what kept its data went")
	}
	for _, damage := range d.find(known, compute.Unowned, d.has()[:2]...) {
		require.Empty(t, damage.Remedy)
		require.Contains(t, damage.Why, "its data are here alone")
	}
	d.server.VMState, d.server.Host = compute.VMShelved, &d.host
	for _, damage := range d.find(d.known(append(kept, d.has()...)...), compute.Missing, kept...) {
		require.Empty(t, damage.Remedy)
		require.Contains(t, damage.Why, "where it was: unshelve it")
	}
}

// A server that was moved to another host since, live or off, or evacuated, has its data there: what
// the older database says of it is left to people, who are not told to rebuild or delete it.
func TestDamageOfAServerThatWasMovedSince(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	d.server.TPM = &compute.TPM{}
	elsewhere, id := uuid.NewString(), d.server.ID.String()
	there := []compute.Thing{
		d.thing(compute.ThingDomain, elsewhere, d.server.InstanceName(), ""), d.thing(compute.ThingDiskFile, elsewhere, id+"/disk", ""),
		d.thing(compute.ThingTPMState, elsewhere, id, ""),
	}
	for _, withKey := range []bool{true, false} {
		has := d.has()
		if !withKey {
			has = has[:2]
		}
		in := compute.RepairInput{Known: map[compute.ServerID]compute.KnownServer{d.server.ID: d.known(has...)}}
		for _, gone := range has[:2] {
			in.Findings = append(in.Findings, compute.LedgerEntry{Thing: gone}.Finding(compute.Missing))
		}
		got := d.findIn(in, compute.Unowned, there...)
		require.Len(t, got, 5)
		for _, damage := range got {
			require.Empty(t, damage.Remedy)
			require.Contains(t, damage.Why, "it was moved or evacuated since")
			require.Contains(t, damage.Why, map[compute.DamageKind]string{
				compute.DamagedRow: "Neither reboot, rebuild nor delete it", compute.DamagedThing: "its data are here alone",
			}[damage.What])
		}
	}
	for _, damage := range d.find(d.known(d.has()...), compute.Unowned, there...) { // its own host has it, or is down
		require.Empty(t, damage.Remedy)
		require.Contains(t, damage.Why, "see on which host its guest runs")
	}
	left := d.thing(compute.ThingDiskFile, elsewhere, id+"/disk.rescue", "") // nothing that it uses
	require.Equal(t, compute.RestoreRow, d.find(d.known(d.has()...), compute.Unowned, left)[0].Remedy)
}
