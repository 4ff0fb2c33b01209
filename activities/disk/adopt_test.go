package disk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// Volumes of Nova's [ephemeral_storage_encryption], made by the tools as it did, become disks
// of servers (EE-48). Each is opened by its disk's own options, whatever those of others are
// (EE-42), and what does not decrypt it is refused before anything can be written.
func TestEE48LegacyVolumes(t *testing.T) {
	t.Parallel()
	b := inMachine(t)
	if b == nil {
		return
	}
	for i, v := range []struct {
		how       compute.DMCrypt
		isDefault bool // it has cryptsetup's own hash, for Nova named none
	}{
		{compute.DefaultLegacyEncryption, true},
		{compute.DMCrypt{Cipher: "aes-xts-plain64", KeySize: 256, Hash: "ripemd160"}, true},
		{compute.DMCrypt{Cipher: "aes-cbc-essiv:sha256", KeySize: 256, Hash: "sha256"}, false}, // cryptsetup's since 2.7
	} {
		t.Run(v.how.String(), func(t *testing.T) {
			n := b.nova(t, v.how, v.isDefault)
			n.wrote(t)
			n.adopted(t)
			if i == 0 {
				n.refusesWhatIsWrong(t)
			}
			n.reads(t)
			if i == 0 { // it was seen to be right: a guest may wipe what was there
				n.options(t, compute.DMCrypt{Cipher: v.how.Cipher, KeySize: v.how.KeySize, Hash: "sha512"})
				n.guest(t, func(*testing.T, string) {})
			}
			n.gone(t)
		})
	}
}

// What is adopted, and what is looked for in it (EE-48).
func TestEE48AdoptVolumes(t *testing.T) {
	t.Parallel()
	b := inMachine(t)
	if b == nil {
		return
	}
	t.Run("what guests have", b.knowsWhatGuestsHave)
	t.Run("wrong IV", b.seesWrongIVs)
	t.Run("nothing in it", b.forcesNothing)
	t.Run("refused", b.refusesToAdopt)
	t.Run("killed while it looked", b.looksAgain)
}

// novaDisk is a disk that Nova made.
type novaDisk struct {
	*device
	how   compute.DMCrypt
	named bool
}

const (
	novaFile = "what the guest wrote when Nova ran it"
	novaMiB  = 12
)

// nova makes a volume as Nova did, and has it open as Nova had. The hash is named where it is
// not cryptsetup's default here, as it was there.
func (b *testBundle) nova(t *testing.T, how compute.DMCrypt, isDefault bool) *novaDisk {
	t.Helper()
	n := &novaDisk{device: b.device(t, compute.FormatPlain, nil), how: how, named: !isDefault}
	n.Disk.Role, n.Disk.SizeMB = compute.RootDisk, novaMiB
	n.key = strings.Repeat("00c0ffee5ca1ab1e", how.KeySize/64) // the key's bytes in hex, as Nova handed them over
	n.keys[*n.Disk.Secret] = n.key
	n.options(t, how)
	run(t, "lvm", "lvcreate", "--quiet", "--yes", "--size", strconv.Itoa(novaMiB)+"m", "--name", n.volume(), volumeGroup)
	n.openAsNova(t)
	return n
}

func (n *novaDisk) mapper() string { return "/dev/mapper/" + n.volume() + "-dmcrypt" }

func (n *novaDisk) openAsNova(t *testing.T) {
	t.Helper()
	args := []string{
		"create", n.volume() + "-dmcrypt", "/dev/" + volumeGroup + "/" + n.volume(),
		"--cipher=" + n.how.Cipher, "--key-size=" + strconv.Itoa(n.how.KeySize), "--key-file=-",
	}
	if n.named {
		args = append(args, "--hash="+n.how.Hash)
	}
	runWith(t, n.key, "cryptsetup", args...)
}

func (n *novaDisk) closeAsNova(t *testing.T) {
	t.Helper()
	run(t, "cryptsetup", "remove", n.volume()+"-dmcrypt")
}

func (n *novaDisk) options(t *testing.T, how compute.DMCrypt) {
	t.Helper()
	var err error
	n.Disk.EncryptionOptions, err = how.Options()
	require.NoError(t, err)
}

// wrote is what the guest did when Nova ran it.
func (n *novaDisk) wrote(t *testing.T) {
	t.Helper()
	run(t, "mkfs.ext4", "-q", n.mapper())
	mounted(t, n.mapper(), 0, func(folder string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), []byte(novaFile), 0o600))
	})
	n.closeAsNova(t)
}

func mounted(t *testing.T, device string, flags uintptr, do func(folder string)) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, unix.Mount(device, folder, "ext4", flags, ""))
	defer func() { require.NoError(t, unix.Unmount(folder, 0)) }()
	do(folder)
}

func (n *novaDisk) adopt(t *testing.T, force bool) error {
	t.Helper()
	return n.Adopt(t.Context(), disk.AdoptInput{Server: n.Server, Disks: []compute.Disk{n.Disk}, Force: force})
}

// adopted adopts the volume, also twice at once.
func (n *novaDisk) adopted(t *testing.T) {
	t.Helper()
	before := n.raw(t)
	require.NoError(t, n.Remove(t.Context(), ofFile(n.Server, n.Disk.Name())))
	require.Equal(t, []string{n.volume()}, volumes(t), "it is not ours yet")
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { require.NoError(t, n.adopt(t, false)) })
	}
	both.Wait()
	require.True(t, bytes.Equal(before, n.raw(t)))
	require.Equal(t, []string{n.Server.String() + "/" + n.Disk.Name()}, n.seen(t, compute.ThingDiskFile))
}

// raw is all of the volume's bytes, as they are stored.
func (n *novaDisk) raw(t *testing.T) []byte {
	t.Helper()
	return readAt(t, "/dev/"+volumeGroup+"/"+n.volume(), 0, novaMiB<<20)
}

// refusesWhatIsWrong tries each of what decrypts a volume, one wrong at a time.
func (n *novaDisk) refusesWhatIsWrong(t *testing.T) {
	t.Helper()
	before := n.raw(t)
	wrong := map[string]func(*compute.DMCrypt){
		"cipher": func(l *compute.DMCrypt) { l.Cipher = "aes-cbc-plain"; l.KeySize = 256 },
		"size": func(l *compute.DMCrypt) {
			l.KeySize = map[int]int{256: 512, 512: 256}[l.KeySize]
			l.Cipher = "aes-xts-plain64"
		},
		"hash": func(l *compute.DMCrypt) { l.Hash = "sha512" },
		"key":  func(*compute.DMCrypt) { n.keys[*n.Disk.Secret] = strings.Repeat("0badc0de", len(n.key)/8) },
	}
	for name, change := range wrong {
		how := n.how
		change(&how)
		n.options(t, how)
		_, err := n.OpenDevices(t.Context(), compute.Credential{}, n.server())
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, how.String())
		require.Contains(t, compute.Public(err), how.String(), "its owner reads what is wrong")
		require.Empty(t, opened(t), name)
		require.True(t, bytes.Equal(before, n.raw(t)), "nothing was written: %s", name)
		n.keys[*n.Disk.Secret] = n.key
	}
	n.options(t, n.how)
}

// reads is what the guest does now.
func (n *novaDisk) reads(t *testing.T) {
	t.Helper()
	n.guest(t, func(t *testing.T, path string) {
		t.Helper()
		mounted(t, path, unix.MS_RDONLY, func(folder string) {
			got, err := os.ReadFile(filepath.Join(folder, "file"))
			require.NoError(t, err)
			require.Equal(t, novaFile, string(got))
		})
	})
}

// knowsWhatGuestsHave: whatever it is that a guest has on its disk, it is no noise.
func (b *testBundle) knowsWhatGuestsHave(t *testing.T) {
	sector := make([]byte, 512)
	sector[510], sector[511] = 0x55, 0xaa // of a boot loader, with no partition yet
	for name, make := range map[string]func(path string){
		"swap":        func(path string) { run(t, "mkswap", path) },
		"LVM":         func(path string) { run(t, "lvm", "pvcreate", "--quiet", path) },
		"boot sector": func(path string) { require.NoError(t, writeAt(path, 0, sector)) },
	} {
		n := b.nova(t, compute.DefaultLegacyEncryption, true)
		make(n.mapper())
		n.closeAsNova(t)
		require.NoError(t, n.adopt(t, false), name)
		n.options(t, compute.DMCrypt{Cipher: "aes-xts-plain64", KeySize: 256, Hash: "ripemd160"})
		_, err := n.OpenDevices(t.Context(), compute.Credential{}, n.server())
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", name, err)
		n.options(t, n.how)
		n.open(t)
		n.gone(t)
	}
}

// seesWrongIVs: in CBC a wrong IV changes 16 bytes of each sector, where most signatures have
// nothing. What blkid finds there is no sign that a guest can use the disk.
func (b *testBundle) seesWrongIVs(t *testing.T) {
	cbc := func(iv string) compute.DMCrypt {
		return compute.DMCrypt{Cipher: "aes-cbc-" + iv, KeySize: 256, Hash: "ripemd160"}
	}
	ext4 := func(path string) { run(t, "mkfs.ext4", "-q", "-O", "^metadata_csum", path) } // as in the days of Nova's
	swap := func(path string) { run(t, "mkswap", path) }
	track := func(path string) {
		track := make([]byte, 63*512)
		track[0], track[510], track[511] = 0xeb, 0x55, 0xaa
		require.NoError(t, writeAt(path, 0, track))
	}
	for name, c := range map[string]struct {
		right string
		make  func(path string)
		wrong []string
	}{
		"ext4":        {"essiv:sha256", ext4, []string{"plain64"}},
		"swap":        {"essiv:sha256", swap, []string{"plain64"}},
		"boot sector": {"plain64", track, []string{"essiv:sha256", "null"}}, // the first sector is the same with null
		"ext4 plain":  {"plain64", ext4, []string{"plain64be"}},
	} {
		n := b.nova(t, cbc(c.right), true)
		c.make(n.mapper())
		n.closeAsNova(t)
		require.NoError(t, n.adopt(t, false), name)
		before := n.raw(t)
		for _, iv := range c.wrong {
			n.options(t, cbc(iv))
			_, err := n.OpenDevices(t.Context(), compute.Credential{}, n.server())
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s with %s: %v", name, iv, err)
			if name != "swap" { // whose version is in such bytes: blkid finds none
				require.ErrorContains(t, err, "IV mode", name)
			}
			require.Empty(t, opened(t))
		}
		require.True(t, bytes.Equal(before, n.raw(t)), "nothing was written")
		n.options(t, n.how)
		if name == "ext4 plain" {
			n.options(t, cbc("plain")) // the same below 2 TiB
		}
		n.open(t)
		n.gone(t)
	}
	n := b.nova(t, cbc("essiv:sha256"), true)
	sector := make([]byte, 512)
	sector[510], sector[511] = 0x55, 0xaa
	require.NoError(t, writeAt(n.mapper(), 0, sector))
	n.closeAsNova(t)
	require.NoError(t, n.adopt(t, false))
	_, err := n.OpenDevices(t.Context(), compute.Credential{}, n.server())
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "nothing shows the IV: %v", err)
	require.ErrorContains(t, err, "IV mode")
	require.NoError(t, n.adopt(t, true), "whoever knows says so")
	n.open(t)
	n.gone(t)
}

// forcesNothing: a volume in which there is nothing opens when somebody says so.
func (b *testBundle) forcesNothing(t *testing.T) {
	n := b.nova(t, compute.DefaultLegacyEncryption, true)
	n.closeAsNova(t)
	require.NoError(t, n.adopt(t, false))
	_, err := n.OpenDevices(t.Context(), compute.Credential{}, n.server())
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.NoError(t, n.adopt(t, false))
	_, err = n.OpenDevices(t.Context(), compute.Credential{}, n.server())
	require.Error(t, err, "once more is not enough")
	require.NoError(t, n.adopt(t, true))
	n.open(t)
	n.gone(t)
}

func (b *testBundle) refusesToAdopt(t *testing.T) {
	n := b.nova(t, compute.DefaultLegacyEncryption, true)
	held, err := os.Open(n.mapper())
	require.NoError(t, err)
	err = n.adopt(t, false)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "Nova still runs it: %v", err)
	require.NoError(t, held.Close())

	larger := *n.device
	larger.Disk.SizeMB++
	err = larger.Adopt(t.Context(), disk.AdoptInput{Server: n.Server, Disks: []compute.Disk{larger.Disk}})
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	swap := n.Disk
	swap.Role = compute.SwapDisk
	err = n.Adopt(t.Context(), disk.AdoptInput{Server: n.Server, Disks: []compute.Disk{n.Disk, swap}})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	luks := n.Disk
	luks.Format = compute.FormatLUKS
	err = n.Adopt(t.Context(), disk.AdoptInput{Server: n.Server, Disks: []compute.Disk{luks}})
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
	require.Empty(t, n.seen(t, compute.ThingDiskFile), "all or none")
	require.NoError(t, n.Remove(t.Context(), ofFile(n.Server, n.Disk.Name())))
	require.Equal(t, []string{n.volume()}, volumes(t), "what was not adopted is not ours to remove")

	n.closeAsNova(t)
	run(t, "lvm", "lvchange", "--quiet", "--activate", "n", volumeGroup+"/"+n.volume())
	require.NoError(t, n.adopt(t, false), "also after a start of the host")
	n.gone(t)
}

// looksAgain: of a worker that died while it looked into a volume nothing stays open, and
// nobody takes what it had open for the disk.
func (b *testBundle) looksAgain(t *testing.T) {
	n := b.nova(t, compute.DefaultLegacyEncryption, true)
	n.wrote(t)
	require.NoError(t, n.adopt(t, false))
	require.True(t, b.dieAfter("open", func() error {
		_, err := n.OpenDevices(t.Context(), compute.Credential{}, n.server())
		return err
	}))
	require.Equal(t, []string{n.volume() + ".check-dmcrypt"}, opened(t))
	n.reads(t)
	require.Empty(t, opened(t))
	n.gone(t)
}
