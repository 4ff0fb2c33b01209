package workflows_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/record"
	"strongroom/compute"
)

// keySlots is what opens each disk: "<host> <server>/<file>".
type keySlots map[string]map[int]compute.SecretID

// registerRotation registers what changes the keys of disks that are there.
func (w *world) registerRotation(r registry) {
	registerOnHost(w, r, disk.KeySlots, func(ctx context.Context, in disk.KeySlotsInput) (disk.KeySlotsResult, error) {
		out := disk.KeySlotsResult{Slots: map[string][]int{}}
		for _, d := range in.Disks {
			out.Slots[d.ID.String()] = slices.Sorted(maps.Keys(w.slotsOf(diskFile(ctx, in.Server, d))))
		}
		return out, nil
	})
	registerOnHost(w, r, disk.AddKey, func(ctx context.Context, in disk.AddKeyInput) (disk.AddKeyResult, error) {
		file := diskFile(ctx, in.Server, in.Disk)
		if !w.has(in.Disk.Secret) || !w.has(&in.Secret) {
			return disk.AddKeyResult{}, compute.Errorf(compute.Forbidden, "no such secret")
		}
		w.slotsOf(file)
		if !w.opens(file, *in.Disk.Secret) {
			return disk.AddKeyResult{}, compute.Errorf(compute.Corrupt, "the key does not open the disk")
		}
		if !w.opens(file, in.Secret) {
			free := 0
			for w.slots[file][free] != (compute.SecretID{}) || slices.Contains(in.Before, free) {
				free++
			}
			w.slots[file][free] = in.Secret
		}
		return disk.AddKeyResult{EncryptionOptions: map[string]string{"cipher-alg": "aes-256"}}, nil
	})
}

// eraseSlots erases the key slots of a disk that the ledger names.
func (w *world) eraseSlots(host string, t compute.Thing) error {
	server, name, old, _ := compute.KeySlotsOf(t.Name)
	file := host + " " + server.String() + "/" + name
	left := maps.Clone(w.slotsOf(file))
	maps.DeleteFunc(left, func(slot int, _ compute.SecretID) bool {
		return slices.Contains(strings.Split(t.Reference, ","), strconv.Itoa(slot)) == old
	})
	if len(left) == 0 && len(w.slots[file]) > 0 && w.files[file] {
		return compute.Errorf(compute.Corrupt, "the last slot stays")
	}
	for _, was := range w.slots[file] {
		for _, now := range left {
			w.replaced(was, now)
		}
	}
	if len(left) > 0 {
		w.slots[file] = left
	}
	w.recordOpens()
	return nil
}

func (w *world) rotate(_ context.Context, in record.RotateInput) (none, error) {
	w.close(in.OperationInput, in.Close)
	done := true
	for _, d := range w.row.server.Disks {
		if to, ok := in.Disks[d.ID.String()]; ok && *d.Secret != to.Secret {
			done = false
		}
	}
	if done {
		return none{}, nil
	}
	return none{}, w.fenced(in.OperationInput, func() {
		for i, d := range w.row.server.Disks {
			if to, ok := in.Disks[d.ID.String()]; ok {
				w.row.server.Disks[i].Secret, w.row.server.Disks[i].EncryptionOptions = &to.Secret, to.Options
			}
		}
		w.open(in.OperationInput, in.Open)
		w.recordOpens()
	})
}

// recordOpens notes a disk that the secret on record does not open: it is lost.
func (w *world) recordOpens() {
	for _, d := range w.row.server.Disks {
		for file, slots := range w.slots {
			if d.Encrypted && d.Secret != nil && w.files[file] && isDisk(file, d) && (!slices.Contains(slices.Collect(maps.Values(slots)), *d.Secret) || !w.has(d.Secret)) {
				w.broken = append(w.broken, fmt.Sprintf("the secret on record does not open disk %s", d.Name()))
			}
		}
	}
}

// openWithTheirSecrets requires that each disk opens with the secret on record, and
// with no other one.
func (b *bench) openWithTheirSecrets() {
	b.t.Helper()
	for _, d := range b.row.server.Disks {
		for file, slots := range b.slots {
			if b.files[file] && isDisk(file, d) {
				require.NotNil(b.t, d.Secret)
				require.Equal(b.t, []compute.SecretID{*d.Secret}, slices.Collect(maps.Values(slots)), d.Name())
				require.True(b.t, b.has(d.Secret))
			}
		}
	}
}

func (w *world) opens(file string, id compute.SecretID) bool {
	return slices.Contains(slices.Collect(maps.Values(w.slots[file])), id)
}

// slotsOf gives a disk's slots: of one whose keys were never rotated, the one that
// it was made with.
func (w *world) slotsOf(file string) map[int]compute.SecretID {
	if w.slots[file] == nil && len(w.locks[file]) > 0 {
		w.slots[file] = map[int]compute.SecretID{0: w.locks[file][0]}
	}
	return w.slots[file]
}

// replaced notes that what one secret opened needs another one from now on.
func (w *world) replaced(old, now compute.SecretID) {
	for key, opened := range w.locks {
		w.locks[key] = slices.Clone(opened)
		for i, id := range opened {
			if id == old {
				w.locks[key][i] = now
			}
		}
	}
}

// slotted notes that a secret went that a disk still has a key slot for.
func (w *world) slotted(name string) {
	for file := range w.slots {
		if w.files[file] && w.opens(file, w.secrets[name]) && !w.givenUp(file) {
			w.broken = append(w.broken, name+" went before its key slot in "+file)
		}
	}
}

func diskFile(ctx context.Context, server compute.ServerID, d compute.Disk) string {
	return hostOf(ctx) + " " + server.String() + "/" + d.Name()
}

func isDisk(file string, d compute.Disk) bool {
	return len(file) > len(d.Name()) && file[len(file)-len(d.Name())-1:] == "/"+d.Name()
}
