package initializer_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"strongroom/activities/secret"
	"strongroom/deploy/guest/vm"
	sample "strongroom/integration/seed"
	"strongroom/securepv/initializer"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text))
	}
	if kind := os.Getenv(attestVariable); kind != "" {
		os.Exit(attest(kind))
	}
	sample.Deep("volumes", TestPV11InAMachine, TestPV11KilledAtEachStepInAMachine, TestPV11KilledAtEachStepOfALaterStart, TestPV11KilledAtEachStepOfARotation)
	os.Exit(vm.Main(m))
}

const (
	seed  = "6b1f0d3c9a8e57241f0bd2c36a95e8471c02d4f6b8093a5e7d1c4f60b2a8e935"
	other = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

func pass(text string) *secret.Passphrase { return secret.New([]byte(text)) }

// bench is a volume that is a file, and a folder where it is mounted.
type bench struct {
	t      *testing.T
	kernel loops
	volume initializer.Volume
	opener *initializer.Opener
	said   *bytes.Buffer
}

const deviceBytes = 96 << 20

func setup(t *testing.T) *bench {
	t.Helper()
	for _, p := range []string{"cryptsetup", "losetup", "mkfs.ext4", "resize2fs"} {
		if _, err := exec.LookPath(p); err != nil && os.Getenv("CI") == "" {
			t.Skipf("needs %s", p)
		}
	}
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("needs root: it mounts")
	}
	dir := t.TempDir()
	b := &bench{t: t, kernel: loops{dir: dir, step: func(string) {}}, said: &bytes.Buffer{}}
	b.volume = initializer.Volume{Device: filepath.Join(dir, "device"), Mount: filepath.Join(dir, "state")}
	b.opener = &initializer.Opener{Kernel: b.kernel, KDF: initializer.PBKDF2, Log: slog.New(slog.NewTextHandler(io.MultiWriter(b.said, t.Output()), nil))}
	b.write(0, nil)
	require.NoError(t, os.Truncate(b.volume.Device, deviceBytes))
	t.Cleanup(b.kernel.away)
	return b
}

// write puts something on the device.
func (b *bench) write(at int64, part []byte) {
	b.t.Helper()
	f, err := os.OpenFile(b.volume.Device, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(b.t, err)
	_, err = f.WriteAt(part, at)
	require.NoError(b.t, err)
	require.NoError(b.t, f.Close())
}

// begin reads what is before the data.
func (b *bench) begin() []byte {
	b.t.Helper()
	f, err := os.Open(b.volume.Device)
	require.NoError(b.t, err)
	defer f.Close()
	all := make([]byte, headBytes)
	_, err = f.ReadAt(all, 0)
	require.NoError(b.t, err)
	return all
}

func (b *bench) sum() [32]byte {
	b.t.Helper()
	all, err := os.ReadFile(b.volume.Device)
	require.NoError(b.t, err)
	return sha256.Sum256(all)
}

func (b *bench) open(key string) (before bool, err error) {
	return b.opener.Open(b.t.Context(), b.volume, pass(key))
}

// opens opens the volume, which must be possible.
func (b *bench) opens() (before bool) {
	b.t.Helper()
	before, err := b.open(seed)
	require.NoError(b.t, err)
	require.True(b.t, b.mounted())
	return before
}

func (b *bench) closes() {
	b.t.Helper()
	require.NoError(b.t, b.opener.Close(b.t.Context(), b.volume))
	require.False(b.t, b.mounted())
	m, err := b.kernel.Mappings(b.volume.Device)
	require.NoError(b.t, err)
	require.Empty(b.t, m)
}

func (b *bench) mounted() bool {
	b.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(b.t, err)
	return strings.Contains(string(mounts), " "+b.volume.Mount+" ext4 ")
}

func (b *bench) data() string { return filepath.Join(b.volume.Mount, "data") }

// refused sees that a volume is neither opened nor changed.
func (b *bench) refused(says string) {
	b.t.Helper()
	before := b.sum()
	_, err := b.open(seed)
	var r *initializer.Refused
	require.ErrorAs(b.t, err, &r)
	require.ErrorContains(b.t, err, says)
	require.NotContains(b.t, err.Error(), "\n")
	require.Equal(b.t, before, b.sum(), "it was changed")
	require.False(b.t, b.mounted())
}

// PV-11: the first start formats, later ones open the same data, and what one leaves open the next one
// uses on.
func TestPV11OpensTheSameDataAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, kdf := range []initializer.KDF{"", initializer.PBKDF2} {
		b := setup(t)
		b.opener.KDF = kdf
		require.False(t, b.opens())
		require.Equal(t, kdf != initializer.PBKDF2, bytes.Contains(b.begin()[:copyBytes], []byte("argon2id")))
		b.closes()
	}
	require.False(t, b.opens())
	require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
	require.True(t, b.opens(), "it is open already")
	require.Contains(t, b.said.String(), "the volume is open already")
	require.NoError(t, exec.Command("umount", b.volume.Mount).Run())
	require.True(t, b.opens(), "it is open and not mounted")
	_, err := b.open(other)
	require.ErrorIs(t, err, initializer.ErrWrongKey, "only who has the key may have what is open")
	b.closes()
	b.closes()
	require.False(t, b.opens())
	got, err := os.ReadFile(b.data())
	require.NoError(t, err)
	require.Equal(t, "kept", string(got))
	require.Equal(t, 1, b.kernel.formats())
	b.closes()

	c := exec.Command("cryptsetup", "open", "--test-passphrase", "--key-file", "-", b.volume.Device) // as anybody's LUKS volume
	c.Stdin = strings.NewReader(seed)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	before := b.sum()
	_, err = b.open(other)
	require.ErrorIs(t, err, initializer.ErrWrongKey)
	require.ErrorContains(t, err, b.volume.Device)
	require.Equal(t, before, b.sum())
	require.NotContains(t, b.said.String(), seed)
}

// PV-11: a new file system is its workload's user's from the first start on, and whose it was made then it stays.
func TestPV11ANewFileSystemHasItsOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.volume.Owner = initializer.Owner{User: 1000, Group: 2000}
	is := func(user, group int, mode os.FileMode) {
		t.Helper()
		var s unix.Stat_t
		require.NoError(t, unix.Stat(b.volume.Mount, &s))
		require.Equal(t, []int{user, group}, []int{int(s.Uid), int(s.Gid)})
		info, err := os.Stat(b.volume.Mount)
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|mode, info.Mode())
	}
	b.opens()
	is(1000, 2000, os.ModeSetgid|0o775)
	b.closes()
	b.volume.Owner = initializer.Owner{User: 3000, Group: 3000}
	b.opens()
	is(1000, 2000, os.ModeSetgid|0o775)
	require.NoError(t, os.Chown(b.volume.Mount, 0, 0))
	require.NoError(t, os.Chmod(b.volume.Mount, 0o755))
	require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
	b.closes()
	b.opens()
	is(0, 0, 0o755)
	b.closes()
}

// A volume that something uses is not closed under it, and is closed when it is free.
func TestPV11InUse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opens()
	f, err := os.Create(b.data())
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- b.opener.Close(t.Context(), b.volume) }()
	select {
	case err := <-done:
		require.Fail(t, "closed although it is used", "%v", err)
	default:
	}
	require.NoError(t, f.Close())
	require.NoError(t, <-done)
}

// Contrast's issue 2455: a container that is started again has a mount of its own of what the one before
// it has mounted. It ends its own, and the volume is closed when the kubelet ends the other; one that
// is started once more before that keeps it open.
func TestPV11MountedElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opens()
	other := t.TempDir()
	require.NoError(t, unix.Mount(b.volume.Mount, other, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
	open := func() int {
		m, err := b.kernel.Mappings(b.volume.Device)
		require.NoError(t, err)
		return len(m)
	}
	for range 2 {
		require.NoError(t, b.opener.Close(t.Context(), b.volume))
		require.False(t, b.mounted())
		require.Equal(t, 1, open())
		require.Contains(t, b.said.String(), "it is closed as soon as that is unmounted")
		require.True(t, b.opens(), "it was open before")
	}
	require.NoError(t, unix.Unmount(other, 0))
	require.Equal(t, 1, open(), "it is kept open")
	require.NoError(t, unix.Mount(b.volume.Mount, other, "", unix.MS_BIND, ""))
	require.NoError(t, b.opener.Close(t.Context(), b.volume))
	require.NoError(t, unix.Unmount(other, 0))
	require.Zero(t, open())
	require.False(t, b.opens())
	b.closes()
}

// A volume that has grown has its room at the next start, where the initializer may give it; where it may
// not, it says so and opens the volume.
func TestPV11Growth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opens()
	small := room(t, b.volume.Mount)
	b.closes()
	require.NoError(t, os.Truncate(b.volume.Device, 2*deviceBytes))
	b.opens()
	if strings.Contains(b.said.String(), "Permission denied to resize") {
		small -= deviceBytes // this kernel gives root no CAP_SYS_RESOURCE: see TestPV11InAMachine
	}
	require.Greater(t, room(t, b.volume.Mount), small+deviceBytes/2)
	b.closes()
}

// A new volume is not formatted where that is not wanted.
func TestPV11NeverFormat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opener.NeverFormat = true
	b.refused("not to be formatted")
	b.opener.NeverFormat = false
	b.opens()
	b.closes()
	b.opener.NeverFormat = true
	b.opens()
	b.closes()
}

// What is neither new nor ours is refused and stays as it is to the byte.
func TestPV11RefusesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	header, m := newHeader(t, []byte(seed), false)
	segment := func(m object) object { return m["segments"].(object)["0"].(object) }
	slot := func(m object) object { return m["keyslots"].(object)["0"].(object) }
	raw := func(from, to string) func(b *bench) {
		return func(b *bench) {
			text, err := json.Marshal(m)
			require.NoError(t, err)
			anew := strings.Replace(string(text), from, to, 1)
			require.NotEqual(t, string(text), anew)
			image := bytes.Clone(header)
			putMetadata(t, image, []byte(anew), idOf(header), 3)
			b.write(0, image)
		}
	}
	with := func(change func(m object)) func(b *bench) {
		return func(b *bench) { b.write(0, changed(b.t, header, m, change)) }
	}
	tool := func(name string, args ...string) func(b *bench) {
		return func(b *bench) {
			c := exec.Command(name, append(args, b.volume.Device)...)
			c.Stdin = strings.NewReader(seed)
			out, err := c.CombinedOutput()
			require.NoError(b.t, err, string(out))
		}
	}
	luks := func(kind string) func(b *bench) {
		return tool("cryptsetup", "luksFormat", "--batch-mode", "--type", kind, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "-")
	}
	for name, c := range map[string]struct {
		make func(b *bench)
		says string
	}{
		"ext4":                    {tool("mkfs.ext4", "-q", "-F"), "neither new nor an encrypted volume of ours, for there are data near byte 0"},
		"data in the middle":      {func(b *bench) { b.write(60<<20, random(1<<20)) }, "neither new nor"},
		"data at the end":         {func(b *bench) { b.write(deviceBytes-1, []byte{1}) }, "neither new nor"},
		"its header was zeroed":   {func(b *bench) { b.opens(); b.closes(); b.write(0, make([]byte, headBytes)) }, "neither new nor"},
		"too small":               {func(b *bench) { require.NoError(b.t, os.Truncate(b.volume.Device, 63<<20)) }, "needs 67108864"},
		"LUKS2 of somebody else":  {luks("luks2"), "integrity is hmac"},
		"LUKS1":                   {luks("luks1"), "its version is 1, not 2"},
		"cut in its metadata":     {func(b *bench) { b.write(0, header); require.NoError(b.t, os.Truncate(b.volume.Device, 20<<10)) }, "it ends after 20480 bytes"},
		"cut in its key material": {func(b *bench) { b.write(0, header); require.NoError(b.t, os.Truncate(b.volume.Device, 100<<10)) }, "it ends after 102400 bytes"},
		"both checksums wrong":    {func(b *bench) { b.write(0, header); b.write(5000, []byte{1}); b.write(copyBytes+5000, []byte{1}) }, "its checksum is wrong"},
		"nothing is encrypted":    {with(func(m object) { segment(m)["encryption"] = "cipher_null-ecb" }), "encrypted with aes-xts-plain64"},
		"a linear segment":        {with(func(m object) { segment(m)["type"] = "linear" }), "of the type crypt"},
		"no integrity":            {with(func(m object) { delete(segment(m), "integrity") }), "integrity is hmac"},
		"integrity without key":   {with(func(m object) { segment(m)["integrity"].(object)["type"] = "crc32c" }), "integrity is hmac"},
		"flags":                   {with(func(m object) { segment(m)["flags"] = []string{"backup-final"} }), "no flags"},
		"data in the header":      {with(func(m object) { segment(m)["offset"] = "32768" }), "from 16 MiB"},
		"two key slots":           {with(func(m object) { m["keyslots"].(object)["1"] = slot(m) }), "2 key slots"},
		"no key slot":             {with(func(m object) { m["keyslots"] = object{} }), "0 key slots"},
		"two segments":            {with(func(m object) { m["segments"].(object)["1"] = segment(m) }), "2 segments"},
		"a token":                 {with(func(m object) { m["tokens"].(object)["0"] = object{} }), "1 tokens"},
		"a requirement": {with(func(m object) {
			m["config"].(object)["requirements"] = object{"mandatory": []string{"online-reencrypt"}}
		}), "requirements"},
		"material without cipher": {with(func(m object) { slot(m)["area"].(object)["encryption"] = "cipher_null-ecb" }), "its key material is encrypted"},
		"material elsewhere":      {with(func(m object) { slot(m)["area"].(object)["offset"] = "16777216" }), "in the header"},
		"too dear":                {with(func(m object) { slot(m)["kdf"].(object)["iterations"] = 2_000_000_000 }), "a cost that the container has"},
		"too much memory": {with(func(m object) {
			slot(m)["kdf"] = object{"type": "argon2id", "time": 4, "memory": 4 << 20, "cpus": 1, "salt": slot(m)["kdf"].(object)["salt"]}
		}), "a cost that the container has"},
		"another digest":           {with(func(m object) { m["digests"].(object)["0"].(object)["segments"] = []string{} }), "that of its segment"},
		"a field in other letters": {raw(`"encryption":"aes-xts-plain64","integrity"`, `"encryption":"cipher_null-ecb","ENCRYPTION":"aes-xts-plain64","integrity"`), "metadata"},
		"a field twice":            {raw(`"encryption":"aes-xts-plain64","integrity"`, `"encryption":"cipher_null-ecb","encryption":"aes-xts-plain64","integrity"`), "metadata"},
		"a newer second copy": {func(b *bench) {
			evil := changed(b.t, header, m, func(m object) { segment(m)["encryption"] = "cipher_null-ecb" })
			text, _, _ := bytes.Cut(evil[4096:copyBytes], []byte{0})
			image := bytes.Clone(header)
			putCopy(image, copyBytes, text, idOf(header), 4)
			b.write(0, image)
		}, "encrypted with aes-xts-plain64"},
		"begun with another secret": {func(b *bench) {
			b.killed(func(string) bool { return b.kernel.formats() == 1 }, other)
		}, "with another secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			c.make(b)
			b.refused(c.says)
		})
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// killed opens the volume, and panics as if the process ended, at the first step for which at says so.
func (b *bench) killed(at func(step string) bool, key string) (last string) {
	b.t.Helper()
	o := *b.opener
	type end struct{}
	o.Step = func(step string) {
		if last = step; at(step) {
			panic(end{})
		}
	}
	defer func() {
		_, is := recover().(end)
		require.True(b.t, is, "it was not killed")
	}()
	_, _ = o.Open(b.t.Context(), b.volume, pass(key))
	return last
}

// One damaged or older copy of the metadata, as a write that was cut leaves it, is mended from the other.
func TestPV11MendsOneCopyOfTheHeader(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{0, 4096, 6000, copyBytes, copyBytes + 6000} {
		b := setup(t)
		b.opens()
		require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
		b.closes()
		b.write(at, random(100))
		b.opens()
		got, err := os.ReadFile(b.data())
		require.NoError(t, err)
		require.Equal(t, "kept", string(got))
		b.closes()
		begin := b.begin()
		require.Equal(t, begin[4096:copyBytes], begin[copyBytes+4096:2*copyBytes], "both are alike again")
		out, err := exec.Command("cryptsetup", "luksDump", b.volume.Device).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// place is where a value is in JSON.
type place struct {
	of  object
	key string
}

// places are all values of an object, and of those in it.
func places(of object) (all []place) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, place{of, key})
		if below, is := of[key].(object); is {
			all = append(all, places(below)...)
		}
	}
	return all
}

// Whatever value of the metadata is another, is missing or is added: the volume is not opened.
func TestPV11OtherMetadataOpenNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	header, m := newHeader(t, []byte(seed), false)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	b.write(0, header)
	b.opener.Log = slog.New(slog.DiscardHandler)
	rapid.Check(t, func(r *rapid.T) {
		var anew object
		require.NoError(r, json.Unmarshal(text, &anew))
		p := rapid.SampledFrom(places(anew)).Draw(r, "place")
		switch change := rapid.SampledFrom([]string{"other", "gone", "more", "letters"}).Draw(r, "change"); change {
		case "gone":
			if p.key == "tokens" {
				r.Skip("none is none")
			}
			delete(p.of, p.key)
		case "more":
			p.of[rapid.StringMatching(`[a-z_]{3,8}[0-9]`).Draw(r, "key")] = p.of[p.key]
		case "letters":
			if strings.ToUpper(p.key) == p.key {
				r.Skip("a number")
			}
			p.of[strings.ToUpper(p.key)] = p.of[p.key]
		default:
			switch was := p.of[p.key].(type) {
			case string:
				if p.key == "size" && was != "dynamic" {
					r.Skip("there may be more room for the key material")
				}
				p.of[p.key] = was + rapid.StringMatching(`[a-z0-9]{1,4}`).Draw(r, "text")
			case float64:
				p.of[p.key] = was + float64(rapid.IntRange(1, 1000).Draw(r, "number"))
			default:
				p.of[p.key] = rapid.SampledFrom([]any{"text", 1, true, []string{"1"}}).Draw(r, "value")
			}
		}
		image := bytes.Clone(header[:2*copyBytes])
		putMetadata(r, image, anew, idOf(header), 3)
		b.write(0, image)
		_, err := b.open(seed)
		require.Error(r, err)
		all, err := b.kernel.Mappings(b.volume.Device)
		require.NoError(r, err)
		require.Empty(r, all)
	})
	b.write(0, header)
	_, err = b.open(seed)
	require.ErrorContains(t, err, "mount", "as it was, it opens, and there is no file system in it")
}
