package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// pod runs the containers of a pod as a kubelet has them run, with crun: every container has a root of its
// own above the image's, and what the pod gives it of volumes and devices. All have the same image.
type pod struct {
	t      *testing.T
	spec   corev1.PodSpec
	image  v1.Config
	lower  string            // the image's files
	dir    string            // of the pod; a mount
	claims map[string]string // devices, by the claim's name
	values map[string]string // of Secrets, by "name/key"
	number int               // of containers that were made
}

// begin makes the pod's volumes.
func (p *pod) begin() {
	p.t.Helper()
	for _, v := range p.spec.Volumes {
		at := p.volume(v.Name)
		switch {
		case v.EmptyDir != nil:
			require.NoError(p.t, os.MkdirAll(at, 0o777))
			require.Equal(p.t, corev1.StorageMediumMemory, v.EmptyDir.Medium)
			require.NoError(p.t, unix.Mount("tmpfs", at, "tmpfs", 0, ""))
		case v.Secret != nil:
			require.NoError(p.t, os.MkdirAll(at, 0o700))
			for _, item := range v.Secret.Items {
				value, is := p.values[v.Secret.SecretName+"/"+item.Key]
				require.True(p.t, is)
				require.NoError(p.t, os.WriteFile(filepath.Join(at, item.Path), []byte(value), os.FileMode(*item.Mode)))
			}
		default:
			require.Contains(p.t, p.claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
}

// end takes the volumes away, with what containers have left mounted in them, which it counts.
func (p *pod) end() (left int) {
	p.t.Helper()
	for _, v := range p.spec.Volumes {
		if v.EmptyDir == nil {
			continue
		}
		for left--; unix.Unmount(p.volume(v.Name), 0) == nil; left++ {
		}
	}
	require.NoError(p.t, os.RemoveAll(filepath.Join(p.dir, "volumes")))
	return left
}

func (p *pod) volume(name string) string { return filepath.Join(p.dir, "volumes", name) }

func (p *pod) claim(volume string) string {
	for _, v := range p.spec.Volumes {
		if v.Name == volume {
			return p.claims[v.PersistentVolumeClaim.ClaimName]
		}
	}
	return ""
}

// running is a container.
type running struct {
	pod *pod
	id  string
	cmd *exec.Cmd
	out output

	over chan struct{}
	err  error // once it is over
}

// start starts a container of the pod anew.
func (p *pod) start(c corev1.Container) *running {
	p.t.Helper()
	p.number++
	r := &running{pod: p, over: make(chan struct{}), id: fmt.Sprintf("%s-%d", c.Name, p.number)}
	bundle := filepath.Join(p.dir, "containers", r.id)
	for _, sub := range []string{"upper", "work", "rootfs"} {
		require.NoError(p.t, os.MkdirAll(filepath.Join(bundle, sub), 0o755))
	}
	root := filepath.Join(bundle, "rootfs")
	require.NoError(p.t, unix.Mount("overlay", root, "overlay", 0,
		fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", p.lower, filepath.Join(bundle, "upper"), filepath.Join(bundle, "work"))))
	spec := p.runtime(c, root)
	spec.Linux.CgroupsPath = "/" + r.id
	text, err := json.Marshal(spec)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600))
	r.cmd = crun("run", "--no-pivot", "--no-new-keyring", "--bundle", bundle, r.id) // a file system in memory cannot be changed for another
	r.cmd.Stdout, r.cmd.Stderr = io.MultiWriter(&r.out, p.t.Output()), p.t.Output()
	require.NoError(p.t, r.cmd.Start())
	go func() {
		defer close(r.over)
		r.err = r.cmd.Wait()
	}()
	return r
}

// starts starts the containers that come before the workload, each when the one before it is done or ready, and gives that
// which stays.
func (p *pod) starts() (stays *running) {
	p.t.Helper()
	for _, c := range p.spec.InitContainers {
		r := p.start(c)
		if c.RestartPolicy == nil {
			require.NoError(p.t, r.wait())
			continue
		}
		require.Equal(p.t, corev1.ContainerRestartPolicyAlways, *c.RestartPolicy)
		require.Nil(p.t, stays)
		stays = r
		r.becomesReady(c.StartupProbe)
	}
	return stays
}

// output is what a container has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// says waits until a container that runs on has printed what it is to.
func (r *running) says(want string) {
	r.pod.t.Helper()
	require.Eventually(r.pod.t, func() bool { return r.out.String() == want }, patience, 100*time.Millisecond)
	select {
	case <-r.over:
		require.Fail(r.pod.t, "it has ended")
	default:
	}
}

// executes runs a command in a container, as kubectl exec -i does.
func (r *running) executes(in string, command ...string) {
	r.pod.t.Helper()
	do := crun(append([]string{"exec", r.id}, command...)...)
	do.Stdin = strings.NewReader(in)
	out, err := do.CombinedOutput()
	require.NoError(r.pod.t, err, string(out))
}

// patience is how long a container may take on a machine that is emulated, and busy.
const patience = 8 * time.Minute

func crun(args ...string) *exec.Cmd {
	return exec.Command("crun", append([]string{"--root", "/run/crun", "--cgroup-manager=cgroupfs"}, args...)...)
}

// memory reads what the kernel says of the memory of a container that runs.
func (r *running) memory(what string) string {
	r.pod.t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", r.id, "memory."+what))
	require.NoError(r.pod.t, err)
	return strings.TrimSpace(string(text))
}

// wait waits until a container has ended by itself.
func (r *running) wait() error {
	select {
	case <-r.over:
	case <-time.After(patience):
		require.Fail(r.pod.t, "it does not end", r.id)
	}
	return errors.Join(r.err, unix.Unmount(filepath.Join(r.pod.dir, "containers", r.id, "rootfs"), unix.MNT_DETACH))
}

func (r *running) kill(signal string) error {
	if out, err := crun("kill", r.id, signal).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// becomesReady waits until the container's startup probe succeeds.
func (r *running) becomesReady(probe *corev1.Probe) {
	r.pod.t.Helper()
	for end := time.After(patience); crun(append([]string{"exec", r.id}, probe.Exec.Command...)...).Run() != nil; {
		select {
		case <-end:
			require.Fail(r.pod.t, "it does not become ready", r.id)
		case <-r.over:
			require.NoError(r.pod.t, r.err)
			require.Fail(r.pod.t, "it has ended")
		case <-time.After(time.Second):
		}
	}
}

// runtime says how a container runs, in the words of OCI.
func (p *pod) runtime(c corev1.Container, root string) *specs.Spec {
	p.t.Helper()
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	s := &specs.Spec{
		Version:  "1.0.2", // which Debian's crun knows
		Root:     &specs.Root{Path: root},
		Hostname: "pod",
		Process:  &specs.Process{Cwd: "/", Env: slices.Clone(p.image.Env), Args: append(orElse(c.Command, p.image.Entrypoint), c.Args...)},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "mode=1777"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev"}},
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}}},
	}
	for _, e := range c.Env {
		s.Process.Env = append(s.Process.Env, e.Name+"="+e.Value)
	}
	limit := c.Resources.Limits.Memory().Value()
	s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: privileged, Access: "rwm"}}}
	if limit > 0 {
		s.Linux.Resources.Memory = &specs.LinuxMemory{Limit: &limit}
	}
	names := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}
	if privileged {
		names = allCapabilities()
		s.Linux.Devices = devices(p.t)
	} else {
		s.Mounts[3].Options = append(s.Mounts[3].Options, "ro")
	}
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: names, Effective: names, Permitted: names}
	for _, d := range c.VolumeDevices {
		device := deviceOf(p.t, p.claim(d.Name))
		device.Path = d.DevicePath
		s.Linux.Devices = append(s.Linux.Devices, device)
	}
	propagation := map[corev1.MountPropagationMode]string{
		corev1.MountPropagationNone: "rprivate", corev1.MountPropagationHostToContainer: "rslave", corev1.MountPropagationBidirectional: "rshared",
	}
	s.Linux.RootfsPropagation = "rprivate"
	for _, m := range c.VolumeMounts {
		how := propagation[corev1.MountPropagationNone]
		if m.MountPropagation != nil {
			how = propagation[*m.MountPropagation]
			s.Linux.RootfsPropagation = how
		}
		options := []string{"rbind", how}
		if m.ReadOnly {
			options = append(options, "ro")
		}
		s.Mounts = append(s.Mounts, specs.Mount{Destination: m.MountPath, Type: "bind", Source: p.volume(m.Name), Options: options})
	}
	return s
}

func orElse(a, b []string) []string {
	if len(a) > 0 {
		return slices.Clone(a)
	}
	return slices.Clone(b)
}

// allCapabilities are those of Linux, by their names.
func allCapabilities() (names []string) {
	for _, name := range strings.Fields(`AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH
		FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW
		PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE
		SYS_TIME SYS_TTY_CONFIG WAKE_ALARM`) {
		names = append(names, "CAP_"+name)
	}
	return names
}

// devices are all of the machine's, which a privileged container has from when it starts.
func devices(t *testing.T) (all []specs.LinuxDevice) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeDevice == 0 {
			return err
		}
		all = append(all, deviceOf(t, path))
		return nil
	}))
	return all
}

func deviceOf(t *testing.T, path string) specs.LinuxDevice {
	t.Helper()
	var s unix.Stat_t
	require.NoError(t, unix.Stat(path, &s))
	kind := "c"
	if s.Mode&unix.S_IFMT == unix.S_IFBLK {
		kind = "b"
	}
	mode := os.FileMode(0o600)
	return specs.LinuxDevice{Path: path, Type: kind, Major: int64(unix.Major(s.Rdev)), Minor: int64(unix.Minor(s.Rdev)), FileMode: &mode}
}
