package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("volumes", TestPV13APodRuns)
	os.Exit(vm.Main(m))
}

// built builds the program and the image, and gives that as who pulls it by its digest has it.
func built(t *testing.T) (v1.Image, string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	compile := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "strongroom/cmd/strongroom-initializer")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := compile.CombinedOutput()
	require.NoError(t, err, string(out))
	to := filepath.Join(dir, "image")
	digest, err := build(t.Context(), program, to)
	require.NoError(t, err)
	again, err := build(t.Context(), program, to)
	require.NoError(t, err)
	require.Equal(t, digest, again, "the same packages and program")
	p, err := layout.FromPath(to)
	require.NoError(t, err)
	image, err := p.Image(digest)
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing else is left")
	return image, digest.String()
}

func TestOnlyAnImageIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "letter")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := build(t.Context(), file, dir)
	require.ErrorContains(t, err, "no image that could be replaced")
	require.FileExists(t, file)
}

// byHand is a pod that generate leaves alone: a container of its own opens the volume, with the secret that the
// initializer has written.
const byHand = `apiVersion: v1
kind: Pod
metadata:
  name: by-hand
  annotations: {contrast.edgeless.systems/skip-initializer: "true"}
spec:
  initContainers:
  - name: initializer
    image: initializer
    env: [{name: WORKLOAD_SECRET_FILE, value: /run/seed/seed}]
    volumeMounts: [{name: secrets, mountPath: /contrast}, {name: seed, mountPath: /run/seed}]
  - name: cryptsetup
    image: initializer
    restartPolicy: Always
    args: [cryptsetup, --device-path, /dev/csi0, --mount-point, /state]
    securityContext: {privileged: true}
    startupProbe: {exec: {command: [/bin/test, -f, /done]}}
    volumeDevices: [{name: data, devicePath: /dev/csi0}]
    volumeMounts: [{name: secrets, mountPath: /contrast}, {name: state, mountPath: /state, mountPropagation: Bidirectional}]
  containers:
  - name: shop
    image: shop
    volumeMounts: [{name: state, mountPath: /srv, mountPropagation: HostToContainer}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data-shop-0}}
  - {name: seed, secret: {secretName: shop, items: [{key: seed, path: seed, mode: 0400}]}}
  - {name: secrets, emptyDir: {medium: Memory}}
  - {name: state, emptyDir: {medium: Memory}}
`

// byEnvironment is another one: its initializer is written by hand, and has the device at a path of its own.
const byEnvironment = `apiVersion: v1
kind: Pod
metadata:
  name: by-environment
  annotations: {contrast.edgeless.systems/skip-initializer: "true"}
spec:
  initContainers:
  - name: initializer
    image: initializer
    restartPolicy: Always
    env: [{name: WORKLOAD_SECRET_FILE, value: /run/seed/seed}, {name: CRYPTSETUP_DEVICE, value: /dev/the-shops}, {name: CRYPTSETUP_FORMAT, value: never}]
    securityContext: {privileged: true}
    startupProbe: {exec: {command: [/bin/test, -f, /done]}}
    volumeDevices: [{name: data, devicePath: /dev/the-shops}]
    volumeMounts: [{name: seed, mountPath: /run/seed}, {name: state, mountPath: /state, mountPropagation: Bidirectional}]
  containers:
  - name: shop
    image: shop
    volumeMounts: [{name: state, mountPath: /srv, mountPropagation: HostToContainer}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data-shop-0}}
  - {name: seed, secret: {secretName: shop, items: [{key: seed, path: seed, mode: 0400}]}}
  - {name: state, emptyDir: {medium: Memory}}
`

// PV-04, PV-05, PV-06, PV-07, PV-11, PV-12, PV-13, PV-14: the image has what the initializer needs and no shell, and the
// pod of the example in docs/secure-pv.md, as strongroom generate makes it, runs with it, container by container as a kubelet has them
// run, with the memory that it limits them to. The workload's file is encrypted on the volume, is there for the pod's next start, and nothing
// stays open or mounted when the pod ends. A container that is killed is followed by one that uses on
// what is open (Contrast's issue 2455), and the workload runs on meanwhile, and through a change of the secret. Pods that
// are written by hand read the same volume, in either of the two ways, one with the device at another path.
func TestPV13APodRuns(t *testing.T) {
	t.Parallel()
	if !vm.Inside() {
		folder := t.TempDir()
		prepare(t, folder)
		vm.Machine{
			Modules: []string{"dm-crypt", "dm-integrity", "xts", "aesni-intel", "algif_skcipher", "algif_hash", "algif_aead", "authenc", "hmac", "sha256_generic",
				"ext4", "loop", "overlay"},
			Programs: []string{"crun"},
			DiskMiB:  80,
			Folder:   folder,
		}.Run(t)
		return
	}
	require.NoError(t, os.MkdirAll("/image", 0o755))
	require.NoError(t, unix.Mount("/dev/vdb", "/image", "ext4", unix.MS_RDONLY, ""))
	p := &pod{t: t, lower: "/image/rootfs", dir: "/pod", claims: map[string]string{"data-shop-0": "/dev/vda"}, values: map[string]string{"shop/seed": strings.Repeat("5a", 32)}}
	read := func(name string, into any) {
		text, err := os.ReadFile(filepath.Join("/image", name))
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, into))
	}
	var generated appsv1.StatefulSet
	var manual, environment corev1.Pod
	read("pods/shop.yaml", &generated)
	read("pods/by-hand.yaml", &manual)
	read("pods/by-environment.yaml", &environment)
	read("config.json", &p.image)
	p.spec = podOf(generated)
	initializer := p.spec.InitContainers[0]
	runs := func(command ...string) *running {
		c := p.spec.Containers[0] // the workload's
		c.Command = command
		return p.start(c)
	}
	require.NoError(t, unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""))
	require.NoError(t, os.MkdirAll(p.dir, 0o755))
	require.NoError(t, unix.Mount("tmpfs", p.dir, "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", p.dir, "", unix.MS_SHARED|unix.MS_REC, ""))
	letter, err := os.ReadFile(filepath.Join(p.lower, "etc/mke2fs.conf"))
	require.NoError(t, err)

	p.begin()
	first := p.start(initializer)
	first.becomesReady(initializer.StartupProbe)
	require.NoError(t, runs("/usr/bin/dd", "if=/etc/mke2fs.conf", "of=/srv/letter", "conv=fsync").wait())
	follows := runs("/usr/bin/tail", "-n", "+1", "-f", "/srv/letter")
	follows.says(string(letter))
	require.NoError(t, first.kill("KILL")) // the container's program has crashed
	require.Error(t, first.wait())
	second := p.start(initializer)
	second.becomesReady(initializer.StartupProbe)
	require.NoError(t, runs("/usr/bin/dd", "if=/etc/mke2fs.conf", "of=/srv/letter", "oflag=append", "conv=fsync,notrunc").wait())
	follows.says(string(letter) + string(letter))
	require.Equal(t, strconv.FormatInt(initializer.Resources.Limits.Memory().Value(), 10), second.memory("max"))
	changed := strings.Repeat("c3", 32)
	second.executes(changed, "strongroom", "initializer", "rotate", "--new-secret-file", "/dev/stdin")
	require.Contains(t, second.memory("events"), "oom_kill 0", "it has the memory that it needs")
	t.Logf("of the memory that the container may have it had at most %s bytes", second.memory("peak"))
	require.NoError(t, follows.kill("KILL")) // a kubelet ends the initializer after all others
	require.Error(t, follows.wait())
	require.Equal(t, 1, p.stops(second), "what the container before it has mounted is out of its sight")

	device, err := os.ReadFile("/dev/vda")
	require.NoError(t, err)
	require.NotContains(t, string(device), string(letter[:64]), "INVARIANT: it is in clear on the volume")
	require.True(t, bytes.HasPrefix(device, []byte("LUKS\xba\xbe")))

	p.begin() // the pod, at its next start, with the secret that it has no more
	other := p.start(initializer)
	require.Error(t, other.wait())
	require.Equal(t, 4, other.cmd.ProcessState.ExitCode())
	require.Zero(t, p.end())
	after, err := os.ReadFile("/dev/vda")
	require.NoError(t, err)
	require.True(t, bytes.Equal(device, after), "it was written to")

	p.values["shop/seed"] = changed
	for _, spec := range []corev1.PodSpec{p.spec, manual.Spec, environment.Spec} {
		p.spec = spec
		p.begin()
		last := p.starts()
		reader := runs("/usr/bin/cat", "/srv/letter")
		require.NoError(t, reader.wait())
		require.Equal(t, string(letter)+string(letter), reader.out.String())
		require.Zero(t, p.stops(last))
	}
}

// podOf is the first pod that the controller makes of a StatefulSet.
func podOf(s appsv1.StatefulSet) corev1.PodSpec {
	spec := s.Spec.Template.Spec
	for _, c := range s.Spec.VolumeClaimTemplates {
		claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name + "-" + s.Name + "-0"}
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &claim}})
	}
	return spec
}

// stops ends the pod: its initializer is the last of its containers. It counts the mounts that were left
// to the kubelet.
func (p *pod) stops(initializer *running) (left int) {
	p.t.Helper()
	require.NoError(p.t, initializer.kill("TERM"))
	require.NoError(p.t, initializer.wait())
	left = p.end()
	require.Eventually(p.t, func() bool { // the kernel closes a moment later what it was to close later
		open, err := filepath.Glob("/sys/block/dm-*")
		return err == nil && len(open) == 0
	}, time.Minute, 50*time.Millisecond)
	return left
}

// prepare lays out what the machine gets: the image's files and configuration, and the pod.
func prepare(t *testing.T, folder string) {
	t.Helper()
	image, digest := built(t)
	require.NoError(t, validate.Image(image))
	root := filepath.Join(folder, "rootfs")
	require.NoError(t, os.Mkdir(root, 0o755))
	all := mutate.Extract(image)
	unpack := exec.Command("tar", "-x", "-C", root)
	unpack.Stdin = all
	out, err := unpack.CombinedOutput()
	require.NoError(t, err, string(out))
	_, err = io.Copy(io.Discard, all)
	require.NoError(t, err)
	require.NoError(t, all.Close())
	for _, none := range []string{"bin/sh", "bin/bash", "usr/bin/dpkg", "usr/bin/apt", "usr/bin/perl"} {
		require.NoFileExists(t, filepath.Join(root, none))
	}
	certificates, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	require.NoError(t, err)
	require.Greater(t, strings.Count(string(certificates), "BEGIN CERTIFICATE"), 50)

	config, err := image.ConfigFile()
	require.NoError(t, err)
	text, err := json.Marshal(config.Config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), text, 0o644))
	docs, err := os.ReadFile("../../docs/secure-pv.md")
	require.NoError(t, err)
	_, rest, is := strings.Cut(string(docs), "```yaml\n")
	example, _, ends := strings.Cut(rest, "```\n")
	require.True(t, is && ends)
	pods := filepath.Join(folder, "pods")
	require.NoError(t, os.Mkdir(pods, 0o755))
	for name, text := range map[string]string{"shop.yaml": example, "by-hand.yaml": byHand, "by-environment.yaml": byEnvironment} {
		require.NoError(t, os.WriteFile(filepath.Join(pods, name), []byte(text), 0o644))
	}
	generate := exec.Command("go", "run", "strongroom/cmd/strongroom", "generate", "--in-place",
		"--image", "registry.example/initializer@"+digest, "--secret", "shop/seed", pods)
	out, err = generate.CombinedOutput()
	require.NoError(t, err, string(out))
	for name, text := range map[string]string{"by-hand.yaml": byHand, "by-environment.yaml": byEnvironment} {
		same, err := os.ReadFile(filepath.Join(pods, name))
		require.NoError(t, err)
		require.Equal(t, text, string(same))
	}
}
