package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"strongroom/securepv"
	"strongroom/securepv/initializer"
)

// parseInitializer reads a command line as main does.
func parseInitializer(t *testing.T, args ...string) (*Initializer, *kong.Context, error) {
	t.Helper()
	var c struct {
		Initializer Initializer `cmd:""`
	}
	k, err := kong.New(&c, Vars, kong.BindTo(t.Context(), (*context.Context)(nil)), kong.Bind(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	got, err := k.Parse(append([]string{"initializer"}, args...))
	return &c.Initializer, got, err
}

// PV-04, PV-05, PV-06, PV-14: what strongroom generate injects and what the program makes of it are one:
// without any argument it mounts each device where the pod has its emptyDir, and writes the file that the
// probe looks for.
func TestPV05InitializerReadsWhatGenerateInjects(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata:
  name: app
  annotations: {strongroom.dev/secure-pv: "data:state,more:extra,third:last"}
spec:
  containers: [{name: app, image: app}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: more, persistentVolumeClaim: {claimName: more}}
  - {name: third, persistentVolumeClaim: {claimName: third}}
`
	got, err := securepv.Generate([]securepv.File{{Name: "pod.yaml", Text: []byte(text)}}, securepv.Options{Image: "initializer"})
	require.NoError(t, err)
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(got[0].Text, &pod))
	container := pod.Spec.InitContainers[0]
	require.Empty(t, container.Command)
	require.Empty(t, container.Args)
	for _, e := range container.Env {
		t.Setenv(e.Name, e.Value)
	}
	c, _, err := parseInitializer(t)
	require.NoError(t, err)
	mounted := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	var want []initializer.Volume
	for i, emptyDir := range []string{"state", "extra", "last"} {
		want = append(want, initializer.Volume{Device: container.VolumeDevices[i].DevicePath, Mount: mounted[emptyDir]})
	}
	require.Equal(t, want, c.Start.volumes())
	require.Equal(t, mounted["contrast-secrets"], c.Start.Folder)
	require.Equal(t, []string{"/bin/test", "-f", c.Start.Done}, container.StartupProbe.Exec.Command)
	require.Equal(t, initializer.Coordinator{Host: "coordinator-ready.default", Command: []string{}}, c.Start.source())
	t.Setenv("ATTESTATION_COMMAND", "attest --platform  snp")
	c, _, err = parseInitializer(t)
	require.NoError(t, err)
	require.Equal(t, []string{"attest", "--platform", "snp"}, c.Start.source().(initializer.Coordinator).Command)

	t.Setenv("CRYPTSETUP_DEVICE", "/dev/other") // written by hand
	c, _, err = parseInitializer(t, "--secret-file", "/run/seed", "--kdf", "pbkdf2", "--format", "never")
	require.NoError(t, err)
	require.Equal(t, []initializer.Volume{{Device: "/dev/other", Mount: "/state"}}, c.Start.volumes())
	require.Equal(t, initializer.File{Path: "/run/seed"}, c.Start.source())
	o := c.Start.opener(nil)
	require.Equal(t, initializer.PBKDF2, o.KDF)
	require.True(t, o.NeverFormat)
	_, _, err = parseInitializer(t, "--secret-file", "/run/seed", "--barbican-secret", "id")
	require.ErrorContains(t, err, "can't be used together")
}

// PV-07, PV-11: the program finds what generate's flags say, where the container has it.
func TestPV07InitializerReadsWhatFlagsInject(t *testing.T) {
	const text = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "annotations": {"strongroom.dev/secure-pv": "data:state"}},
"spec": {"securityContext": {"runAsUser": 1000, "fsGroup": 2000}, "containers": [{"name": "app", "image": "app"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}`
	id := "4a1c22f3-6c1f-4d27-9f5f-0d5a0c2a4f11"
	o := securepv.Options{Image: "initializer", Format: "never", KDF: "pbkdf2", Barbican: &securepv.Barbican{Secret: uuid.MustParse(id), Clouds: "shop-clouds", Cloud: "prod"}}
	got, err := securepv.Generate([]securepv.File{{Name: "pod.json", Text: []byte(text)}}, o)
	require.NoError(t, err)
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(got[0].Text, &pod))
	container := pod.Spec.InitContainers[0]
	for _, e := range container.Env {
		t.Setenv(e.Name, e.Value)
	}
	c, _, err := parseInitializer(t)
	require.NoError(t, err)
	at := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "initializer-secret" })
	require.Equal(t, initializer.Barbican{Secret: id, Clouds: container.VolumeMounts[at].MountPath + "/clouds.yaml", Cloud: "prod"}, c.Start.source())
	require.Equal(t, []initializer.Volume{{Device: "/dev/csi0", Mount: "/state", Owner: initializer.Owner{User: 1000, Group: 2000}}}, c.Start.volumes())
	require.Equal(t, initializer.PBKDF2, c.Start.opener(nil).KDF)
	require.True(t, c.Start.opener(nil).NeverFormat)
}

// PV-11, PV-12: owners are one for each device, of whichever command; what is none is refused.
func TestPV11OwnersOfDevices(t *testing.T) {
	t.Setenv("CRYPTSETUP_DEVICE", "/dev/csi0,/dev/csi1")
	t.Setenv("CRYPTSETUP_OWNER", "1000:2000,0:0")
	c, _, err := parseInitializer(t)
	require.NoError(t, err)
	require.Equal(t, []initializer.Volume{{Device: "/dev/csi0", Mount: "/state", Owner: initializer.Owner{User: 1000, Group: 2000}}, {Device: "/dev/csi1", Mount: "/state1"}}, c.Start.volumes())
	c, _, err = parseInitializer(t, "cryptsetup", "-d", "/dev/csi0", "-m", "/state", "--owner", "7:8")
	require.NoError(t, err, "which has a volume of its own, and the container's environment")
	require.Equal(t, owner{User: 7, Group: 8}, c.Cryptsetup.Owner)
	_, _, err = parseInitializer(t, "rotate", "--new-secret-file", "new")
	require.NoError(t, err)
	t.Setenv("CRYPTSETUP_OWNER", "1000:2000")
	_, _, err = parseInitializer(t)
	require.ErrorContains(t, err, "there are 1 owners of 2 devices")
	for _, odd := range []string{"1000", "app:app", "-1:0", "1:2:3", "1:4294967296", ""} {
		_, _, err = parseInitializer(t, "cryptsetup", "-d", "/dev/csi0", "-m", "/state", "--owner="+odd)
		require.ErrorContains(t, err, "say the numbers of a user and a group", odd)
	}
}

// PV-07, PV-12: the commands as users run them, with their exit codes.
func TestPV12InitializerCommands(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	run := func(args ...string) error {
		_, k, err := parseInitializer(t, args...)
		require.NoError(t, err)
		return k.Run()
	}
	seed := file("seed", strings.Repeat("5a", 32))
	done := filepath.Join(dir, "done")
	require.NoError(t, run("--secret-file", seed, "--folder", filepath.Join(dir, "contrast"), "--done", done))
	text, err := os.ReadFile(filepath.Join(dir, "contrast", "secrets", "workload-secret-seed"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("5a", 32), string(text))
	require.NoFileExists(t, done)
	require.ErrorContains(t, run("--folder", dir, "--done", done), "--attestation-command")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "device"), []byte("not a volume, and no zeroes"), 0o600))
	device := filepath.Join(dir, "device")
	err = run("cryptsetup", "-d", device, "-m", filepath.Join(dir, "state"), "--key-file", seed, "--done", done)
	require.Equal(t, CodeRefused, exitCode(err), "%v", err)
	require.ErrorContains(t, err, device+": refused, and left as it is")
	err = run("rotate", "-d", device, "--secret-file", seed, "--new-secret-file", seed)
	require.Equal(t, CodeRefused, exitCode(err), "%v", err)
	require.Equal(t, 1, exitCode(run("rotate", "-d", device, "--secret-file", filepath.Join(dir, "none"), "--new-secret-file", seed)))
	weak := file("weak", "a word that one can guess")
	require.ErrorContains(t, run("rotate", "-d", device, "--secret-file", seed, "--new-secret-file", weak, "--kdf", "pbkdf2"), "pbkdf2 is for secrets of 32 random bytes")
	require.Equal(t, CodeRefused, exitCode(run("rotate", "-d", device, "--secret-file", seed, "--new-secret-file", weak)), "argon2id is for any: it is the device that is refused")
	for code, err := range map[int]error{CodeWrongKey: initializer.ErrWrongKey, CodeBusy: initializer.ErrBusy, 1: errors.New("other")} {
		require.Equal(t, code, exitCode(withCode(fmt.Errorf("device: %w", err))))
	}
	c, _, err := parseInitializer(t, "cryptsetup", "-d", "/dev/csi0", "-m", "/state")
	require.NoError(t, err)
	require.Equal(t, "/contrast/secrets/workload-secret-seed", c.Cryptsetup.KeyFile)
	_, _, err = parseInitializer(t, "rotate", "-d", device)
	require.ErrorContains(t, err, "--new-secret-file")
}

// exitCode is the one that a program ends with.
func exitCode(err error) int {
	var asks kong.ExitCoder
	if errors.As(err, &asks) {
		return asks.ExitCode()
	}
	return 1
}

// PV-12: the container that opens a volume in a pod that is written by hand is told as Contrast's, in both forms.
func TestPV12CryptsetupIsToldAsContrasts(t *testing.T) {
	for _, args := range [][]string{{"-d", "/dev/csi0", "-m", "/state"}, {"--device-path", "/dev/csi0", "--mount-point", "/state"}, {"--device=/dev/csi0", "--mount=/state"}} {
		c, _, err := parseInitializer(t, append([]string{"cryptsetup"}, args...)...)
		require.NoError(t, err, args)
		require.Equal(t, "/dev/csi0", c.Cryptsetup.Device)
		require.Equal(t, "/state", c.Cryptsetup.Mount)
		require.Equal(t, SeedFile, c.Cryptsetup.KeyFile)
	}
}
