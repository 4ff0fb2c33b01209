package disk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// A guest's view of its disk: what comes from the image, and what it wrote.
const (
	fromImage = "write -P 0x11 0 3M"
	written   = "write -P 0x22 1234k 70k;write -P 0x33 5M 1M;write -z 2M 64k;write -P 0x44 7100k 12k"
	readBack  = "read -P 0x11 0 1234k;read -P 0x22 1234k 70k;read -P 0x11 1304k 744k;read -P 0 2M 64k;read -P 0x11 2112k 960k;" +
		"read -P 0x33 5M 1M;read -P 0x44 7100k 12k;read -P 0 7112k 1080k"
	diskMiB = 8
)

// exported is a disk with a past, and what is needed to export it.
type exported struct {
	*testBundle
	disk.ExportInput
	key   string // its passphrase, "" for none
	under *baseImage
}

// baseImage is an image in the host's cache.
type baseImage struct {
	compute.Image
	file   string
	driver string // how QEMU reads it
	secret *compute.SecretID
	key    string // its passphrase, "" for none
}

func (i *baseImage) node(key string) map[string]any {
	if i.key == "" {
		key = ""
	}
	return jsonNode(i.file, i.driver, key, nil)
}

// exported makes a server with a disk that its guest wrote to.
func (b *testBundle) exported(t *testing.T, under *baseImage, encrypted bool) *exported {
	t.Helper()
	e := &exported{testBundle: b, under: under, ExportInput: disk.ExportInput{Server: newServer(), Project: project, Operation: compute.NewOperationID()}}
	e.Disk = compute.Disk{ID: newDisk(), Role: compute.EphemeralDisk, SizeMB: diskMiB}
	if under != nil {
		e.Disk.Role, e.Disk.BackingSecret, e.Image = compute.RootDisk, under.secret, &under.Image
	}
	if encrypted {
		e.Disk.Encrypted, e.Disk.Format = true, compute.FormatLUKS
		e.Disk.Secret, e.key = b.secret(t)
	}
	_, err := b.Create(t.Context(), disk.CreateInput{Server: e.Server, Project: project, Disk: e.Disk, Image: e.Image})
	require.NoError(t, err)
	commands := written
	if under == nil {
		commands = fromImage + ";" + written
	}
	e.writeAs(t, commands)
	e.Target = compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeySame}
	return e
}

// baseImage puts an image into the host's cache: of QEMU's format qcow2 or raw, or
// encrypted as "luks" or "qcow2+luks".
func (b *testBundle) baseImage(t *testing.T, kind string) *baseImage {
	t.Helper()
	i := &baseImage{file: filepath.Join(t.TempDir(), "image"), driver: strings.TrimSuffix(kind, "+luks")}
	args := []string{"create", "-q", "-f", i.driver}
	if strings.Contains(kind, "luks") {
		i.secret, i.key = b.secret(t)
		options := "key-secret=key,iter-time=10,hash-alg=sha512"
		if i.driver == "qcow2" {
			options = "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10,encrypt.hash-alg=sha512"
		}
		args = append(args, "-o", options)
	}
	var out []byte
	var err error
	for range 20 { // QEMU's clock may stand still
		if out, err = qemu(t, "qemu-img", i.key, "", append(args, i.file, "3M")...); err == nil {
			break
		}
	}
	require.NoError(t, err, string(out))
	requireIO(t, i.node("key"), i.key, "", fromImage)
	data, err := os.ReadFile(i.file)
	require.NoError(t, err)
	format := i.driver
	if format == "luks" {
		format = "raw"
	}
	i.Image = b.image(format, data)
	if i.key != "" {
		i.Image.Properties = map[string]string{"os_encrypt_key_id": i.secret.String(), "os_encrypt_format": "LUKSv1"}
	}
	i.file, err = b.CachedImage(project, i.Image)
	require.NoError(t, err)
	b.use(t, i.Image, newServer())
	return i
}

// writeAs writes to the disk as its guest would.
func (e *exported) writeAs(t *testing.T, commands string) {
	t.Helper()
	under := ""
	if e.under != nil {
		under = e.under.key
	}
	requireIO(t, e.source(), e.key, under, commands)
}

// source describes the disk with its image to QEMU; their keys are "key", "under".
func (e *exported) source() map[string]any {
	var under map[string]any
	if e.under != nil {
		under = e.under.node("under")
	}
	key := ""
	if e.key != "" {
		key = "key"
	}
	return jsonNode(filepath.Join(e.InstancesDir, e.Server.String(), e.Disk.Name()), "qcow2", key, under)
}

func jsonNode(file, format, key string, under map[string]any) map[string]any {
	n := map[string]any{"driver": format, "file": map[string]any{"driver": "file", "filename": file}}
	switch {
	case format == "luks":
		n["key-secret"] = key
	case key != "":
		n["encrypt"] = map[string]any{"format": "luks", "key-secret": key}
	}
	if format == "qcow2" {
		n["backing"] = under
	}
	return n
}

// qemu runs one of QEMU's tools with the keys "key" and "under", where they are given.
func qemu(t *testing.T, tool string, key, under string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command(tool, args[0])
	for _, k := range []struct{ id, value string }{{"key", key}, {"under", under}} {
		if k.value == "" {
			continue
		}
		r, err := secret.New([]byte(k.value)).Pipe()
		require.NoError(t, err)
		defer r.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
		cmd.Args = append(cmd.Args, "--object", fmt.Sprintf("secret,id=%s,file=/dev/fd/%d", k.id, 2+len(cmd.ExtraFiles)))
	}
	cmd.Args = append(cmd.Args, args[1:]...)
	return cmd.CombinedOutput()
}

// tryIO runs commands of qemu-io on a node.
func tryIO(t *testing.T, n map[string]any, key, under, commands string) (string, error) {
	t.Helper()
	name, err := json.Marshal(n)
	require.NoError(t, err)
	args := []string{"--cache=writeback"}
	for _, c := range strings.Split(commands, ";") {
		args = append(args, "-c", c)
	}
	out, err := qemu(t, "qemu-io", key, under, append(args, "json:"+string(name))...)
	return string(out), err
}

func requireIO(t *testing.T, n map[string]any, key, under, commands string) {
	t.Helper()
	out, err := tryIO(t, n, key, under, commands)
	require.NoError(t, err, out)
	require.NotContains(t, out, "verification failed")
}

// node describes an export to QEMU.
func (e *exported) node(done compute.Export, encrypted bool) map[string]any {
	key := ""
	if encrypted {
		key = "key"
	}
	return jsonNode(filepath.Join(e.InstancesDir, done.File), done.Format, key, nil)
}

// luksHeader gives the LUKS header in a file.
func luksHeader(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	at := bytes.Index(data, []byte("LUKS\xba\xbe"))
	require.GreaterOrEqual(t, at, 0)
	return data[at : at+luks.Bytes]
}

// EE-16, EE-17, EE-18, EE-19: each kind of disk with each choice of a key.
func TestExport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, under := range []string{"", "qcow2", "raw", "luks", "qcow2+luks"} {
		var img *baseImage
		if under != "" {
			img = b.baseImage(t, under)
		}
		for _, encrypted := range []bool{false, true} {
			if img != nil && img.secret != nil && !encrypted {
				continue // there are no such disks
			}
			for _, target := range []compute.ExportTarget{
				{Key: compute.KeySame, Format: "qcow2"}, {Key: compute.KeySame, Format: "luks"},
				{Key: compute.KeyNew, Format: "qcow2"}, {Key: compute.KeyExisting, Format: "luks"},
				{Key: compute.KeyNone, Format: "qcow2"}, {Key: compute.KeyNone, Format: "raw"},
			} {
				if target.Key == compute.KeySame && target.Format == "luks" && !encrypted {
					target.Format = "raw"
				}
				e := b.exported(t, img, encrypted)
				key := ""
				if target.Key != compute.KeyNone && (encrypted || target.Key != compute.KeySame) {
					target.Secret, key = b.secret(t)
				}
				if target.Key == compute.KeySame && encrypted { // a secret of the image's own, with the disk's passphrase
					b.keys[*target.Secret], key = e.key, e.key
				}
				e.Target = target
				t.Run(fmt.Sprintf("encrypted=%t on %s to %s %s", encrypted, under, target.Key, target.Format), func(t *testing.T) {
					t.Parallel()
					e.check(t, key)
				})
			}
		}
	}
}

// check exports twice at once and once more, and looks at what came of it.
func (e *exported) check(t *testing.T, key string) {
	t.Helper()
	var got [3]compute.Export
	var errs [3]error
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() { got[i], errs[i] = e.Export(t.Context(), e.ExportInput) })
	}
	both.Wait()
	got[2], errs[2] = e.Export(t.Context(), e.ExportInput)
	for i := range got {
		require.NoError(t, errs[i])
		require.Equal(t, got[0], got[i])
	}
	done := got[0]
	file := filepath.Join(e.InstancesDir, done.File)
	folder := e.Server.String() + "/" + compute.ExportFolder(e.Operation)
	beside, err := os.ReadDir(filepath.Join(e.InstancesDir, e.Server.String()))
	require.NoError(t, err)
	require.Len(t, beside, 2, "the disk and the folder, no lock")
	inside, err := os.ReadDir(filepath.Join(e.InstancesDir, folder))
	require.NoError(t, err)
	require.Len(t, inside, 1)
	require.Equal(t, folder+"/"+inside[0].Name(), done.File)
	stat, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, stat.Mode().Perm())
	require.Equal(t, stat.Size(), done.Bytes)
	require.EqualValues(t, diskMiB<<20, done.VirtualBytes)
	require.Equal(t, e.Target.Format, done.Format)

	encrypted := key != ""
	n := e.node(done, encrypted)
	requireIO(t, n, key, "", readBack)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	plain := bytes.Contains(data, bytes.Repeat([]byte{0x33}, 512)) || bytes.Contains(data, bytes.Repeat([]byte{0x11}, 512))
	require.Equal(t, !encrypted, plain, "what is in the file")
	if !encrypted {
		require.Empty(t, done.EncryptionOptions)
		return
	}
	require.Equal(t, encryptionOptions, done.EncryptionOptions)
	wrong := []string{key + "x"}
	if e.under != nil {
		wrong = append(wrong, e.under.key)
	}
	if e.Target.Key != compute.KeySame {
		wrong = append(wrong, e.key)
	}
	for _, other := range wrong {
		if other != "" {
			out, err := tryIO(t, n, other, "", "read 0 512")
			require.Error(t, err)
			require.Contains(t, out, "Invalid password")
		}
	}
	if e.key != "" {
		same := e.Target.Key == compute.KeySame && e.Target.Format == "qcow2"
		own := luksHeader(t, filepath.Join(e.InstancesDir, e.Server.String(), e.Disk.Name()))
		require.Equal(t, same, bytes.Equal(own, luksHeader(t, file)), "header and master key of the disk")
	}
	require.NotContains(t, strings.Join(e.runner.args, " "), key)
}
