package luks_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk/luks"
	"strongroom/compute"
)

// Of the form of our own: they need few rounds.
var first, second = ownForm("the first passphrase"), ownForm("the second passphrase")

func ownForm(text string) []byte {
	sum := sha512.Sum512([]byte(text))
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// A slot is added to headers of every writer, in the place that QEMU and cryptsetup
// see, and the one before is erased.
func TestRotation(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) string{
		"ours": func(t *testing.T) string { return newDisk(t, first) },
		"cryptsetup's": func(t *testing.T) string {
			path := empty(t)
			out, err := run(first, "cryptsetup", "luksFormat", "-q", "--type", "luks1", "--hash", "sha512",
				"--pbkdf-force-iterations", "1000", "--key-file", "-", path)
			require.NoError(t, err, "%s", out)
			return path
		},
		"QEMU's": func(t *testing.T) string {
			path := empty(t)
			var out []byte
			err := errors.New("not tried")
			for attempt := 0; err != nil && attempt < 20; attempt++ { // its benchmark fails by chance
				out, err = run(first, "qemu-img", "create", "-q", "-f", "luks", "--object", "secret,id=k,file=/dev/stdin",
					"-o", "key-secret=k,iter-time=10,hash-alg=sha256", path, "1M")
			}
			require.NoError(t, err, "%s", out)
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := make(t)
			h := open(t, path)
			before, err := h.Slots()
			require.NoError(t, err)
			require.Equal(t, []int{0}, before)
			require.True(t, opens(path, first))
			require.False(t, opens(path, second))

			_, err = h.AddSlot(before, second, first)
			require.ErrorIs(t, err, luks.ErrPassphrase)
			slot, err := h.AddSlot(before, first, second)
			require.NoError(t, err)
			require.Equal(t, 1, slot)
			again, err := h.AddSlot(before, first, second)
			require.NoError(t, err)
			require.Equal(t, slot, again)
			require.True(t, opens(path, first))
			require.True(t, opens(path, second))

			require.NoError(t, h.EraseSlots(among(before)))
			require.False(t, opens(path, first))
			require.True(t, opens(path, second))
			require.NoError(t, h.EraseSlots(among(before)), "it is done")
			require.ErrorIs(t, h.EraseSlots(among([]int{slot})), luks.ErrLast)
			require.ErrorContains(t, luks.ErrLast, compute.LastSlotStays) // what a repair knows it by
			require.True(t, opens(path, second))
			require.True(t, wiped(t, path, 0))
		})
	}
}

// Wherever it is cut off, at a write or in the middle of one, the first passphrase
// opens the disk; and what comes next finds its way.
func TestRotationCutOff(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"again", "undone"} {
		for _, torn := range []bool{false, true} {
			for at := range 3 {
				if torn && at != 1 {
					continue // within one sector: nothing to tear
				}
				t.Run("add "+strconv.Itoa(at)+" "+then+" torn "+strconv.FormatBool(torn), func(t *testing.T) {
					t.Parallel()
					path := newDisk(t, first)
					h := open(t, path)
					h.File = &dying{File: h.File, after: at, torn: torn}
					_, err := h.AddSlot([]int{0}, first, second)
					require.ErrorIs(t, err, errDied)
					h = open(t, path)
					require.True(t, opens(path, first))
					if then == "undone" {
						require.NoError(t, h.EraseSlots(func(i int) bool { return i != 0 }))
						require.True(t, opens(path, first))
						require.False(t, opens(path, second))
						require.True(t, wiped(t, path, 1))
						return
					}
					_, err = h.AddSlot([]int{0}, first, second)
					require.NoError(t, err)
					require.True(t, opens(path, first))
					require.True(t, opens(path, second))
					active, err := h.Slots()
					require.NoError(t, err)
					require.Equal(t, []int{0, 1}, active)
				})
			}
		}
	}
	for at := range 3 {
		t.Run("erase "+strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			path := newDisk(t, first)
			h := open(t, path)
			_, err := h.AddSlot([]int{0}, first, second)
			require.NoError(t, err)
			h.File = &dying{File: h.File, after: at}
			require.ErrorIs(t, h.EraseSlots(among([]int{0})), errDied)
			require.True(t, opens(path, second))
			h = open(t, path)
			require.NoError(t, h.EraseSlots(among([]int{0})))
			require.True(t, opens(path, second))
			require.False(t, opens(path, first))
			require.True(t, wiped(t, path, 0))
		})
	}
}

// A slot whose key material was lost is no slot: another attempt takes it over.
func TestATornSlotIsTakenOver(t *testing.T) {
	t.Parallel()
	path := newDisk(t, first)
	h := open(t, path)
	slot, err := h.AddSlot([]int{0}, first, second)
	require.NoError(t, err)
	_, err = h.File.WriteAt([]byte("noise"), 4096+504*512)
	require.NoError(t, err)
	require.False(t, opens(path, second))
	again, err := h.AddSlot([]int{0}, first, second)
	require.NoError(t, err)
	require.Equal(t, slot, again)
	require.True(t, opens(path, second))
}

func TestEightSlotsAreAll(t *testing.T) {
	t.Parallel()
	path := newDisk(t, first)
	h := open(t, path)
	for i := 1; i < 8; i++ {
		before, err := h.Slots()
		require.NoError(t, err)
		slot, err := h.AddSlot(before, first, ownForm("p"+strconv.Itoa(i)))
		require.NoError(t, err)
		require.Equal(t, i, slot)
	}
	require.True(t, opens(path, ownForm("p7")), "its entry is across two sectors")
	before, err := h.Slots()
	require.NoError(t, err)
	_, err = h.AddSlot(before, first, second)
	require.ErrorIs(t, err, luks.ErrFull)
}

func TestWhatIsNoHeaderIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*os.File){
		"noise":                   func(f *os.File) { _, _ = f.WriteAt([]byte("noise"), 0) },
		"version 2":               func(f *os.File) { _, _ = f.WriteAt([]byte{0, 2}, 6) },
		"another cipher":          func(f *os.File) { _, _ = f.WriteAt([]byte("serpent\x00"), 8) },
		"a slot beyond its room":  func(f *os.File) { _, _ = f.WriteAt([]byte{0xff, 0xff}, 208+40) },
		"a slot over the header":  func(f *os.File) { _, _ = f.WriteAt([]byte{0, 0, 0, 0}, 208+40) },
		"a slot with no stripes":  func(f *os.File) { _, _ = f.WriteAt([]byte{0, 0, 0, 0}, 208+44) },
		"a slot to hash for ever": func(f *os.File) { _, _ = f.WriteAt([]byte{0xff}, 208+4) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newDisk(t, first)
			h := open(t, path)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			damage(f)
			require.NoError(t, f.Close())
			was, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = h.AddSlot([]int{0}, first, second)
			want := luks.ErrForeign
			if name == "a slot to hash for ever" {
				want = luks.ErrCost
			}
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, h.EraseSlots(among([]int{0})), want)
			is, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(was, is))
		})
	}
}

func among(all []int) func(int) bool {
	return func(slot int) bool {
		for _, i := range all {
			if i == slot {
				return true
			}
		}
		return false
	}
}

func empty(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 8<<20))
	return path
}

func open(t *testing.T, path string) luks.Header {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return luks.Header{File: f, Room: luks.Bytes}
}

// opens asks cryptsetup and QEMU, which must agree.
func opens(path string, passphrase []byte) bool {
	a, crypt := run(passphrase, "cryptsetup", "open", "--test-passphrase", "--key-file", "-", path)
	b, qemu := run(passphrase, "qemu-img", "map", "--output=json", "--start-offset=0", "--object", "secret,id=k,file=/dev/stdin", "--max-length=512",
		"--image-opts", "driver=luks,key-secret=k,file.filename="+path)
	if (crypt == nil) != (qemu == nil) {
		panic(fmt.Sprintf("cryptsetup and QEMU do not agree: %v %s, %v %s", crypt, a, qemu, b))
	}
	return crypt == nil
}

// wiped asks cryptsetup whether a slot is closed, and whether its key material
// opens with the slot's entry put back.
func wiped(t *testing.T, path string, slot int) bool {
	t.Helper()
	out, err := exec.Command("cryptsetup", "luksDump", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	entry := data[208+48*slot : 208+48*(slot+1)]
	return bytes.Contains(out, []byte("Key Slot "+strconv.Itoa(slot)+": DISABLED")) && bytes.Count(entry[4:40], []byte{0}) == 36
}

var errDied = errors.New("died")

// dying is a file whose writer dies at a write, having done nothing of it or half:
// whole sectors, for a disk does not tear those.
type dying struct {
	luks.File
	after int
	torn  bool
}

func (d *dying) WriteAt(p []byte, at int64) (int, error) {
	if d.after == 0 {
		if d.torn {
			end := (at + int64(len(p))/2) / 512 * 512
			_, _ = d.File.WriteAt(p[:max(0, end-at)], at)
		}
		return 0, errDied
	}
	d.after--
	return d.File.WriteAt(p, at)
}
