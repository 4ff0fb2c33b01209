package securepv

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// What the initializer's container has, as Contrast has it (reference F.3).
const (
	initializerName = "contrast-initializer"
	secretsVolume   = "contrast-secrets"
	secretsPath     = "/contrast"
	devicePath      = "/dev/csi0" // of the first volume; the others have /dev/csi1, …
	statePath       = "/state"    // of the first volume; the others have /state1, …
	doneFile        = "/done"

	// Of a workload whose secret is a Kubernetes Secret, or in Barbican.
	secretVolume = "initializer-secret"
	secretFolder = "/run/initializer-secret"
	secretFile   = "workload-secret"
	cloudsFile   = "clouds.yaml"
	secretMode   = 0o444 // whatever user the pod says; no other container mounts it
)

// How long the probe bears with a start. A new volume, however large, has some 3 GiB written to it until it is ready: ext4's journal, of up to 1 GiB, and what its groups
// have in their superblocks, each block twice, for dm-integrity has a journal of its own. That is an hour at 1 MB/s. A probe that is over before has the container killed and
// the format begun again, without end. One that waits long costs little: an initializer that cannot do its work ends by itself, with the reason.
const (
	startupTime   = time.Hour
	startupPeriod = 5 * time.Second
)

// startupProbe waits for a time, in whole periods.
func startupProbe(wait time.Duration) *probe {
	periods := (cmp.Or(wait, startupTime) + startupPeriod - 1) / startupPeriod
	return &probe{Exec: execAction{Command: []string{"/bin/test", "-f", doneFile}}, FailureThreshold: int(periods), PeriodSeconds: int(startupPeriod.Seconds())}
}

type envVar struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

type volumeMount struct {
	Name             string `yaml:"name"`
	MountPath        string `yaml:"mountPath"`
	MountPropagation string `yaml:"mountPropagation,omitempty"`
	ReadOnly         bool   `yaml:"readOnly,omitempty"`
}

type volumeDevice struct {
	Name       string `yaml:"name"`
	DevicePath string `yaml:"devicePath"`
}

type capabilities struct {
	Add []string `yaml:"add"`
}

type securityContext struct {
	Capabilities *capabilities `yaml:"capabilities,omitempty"`
	Privileged   bool          `yaml:"privileged,omitempty"`
	RunAsUser    *int          `yaml:"runAsUser,omitempty"`
	RunAsNonRoot *bool         `yaml:"runAsNonRoot,omitempty"`
}

type memory struct {
	Memory string `yaml:"memory"`
}

type resources struct {
	Limits   memory `yaml:"limits"`
	Requests memory `yaml:"requests"`
}

type execAction struct {
	Command []string `yaml:"command"`
}

type probe struct {
	Exec             execAction `yaml:"exec"`
	FailureThreshold int        `yaml:"failureThreshold"`
	PeriodSeconds    int        `yaml:"periodSeconds"`
}

type container struct {
	Name            string          `yaml:"name"`
	Image           string          `yaml:"image"`
	RestartPolicy   string          `yaml:"restartPolicy,omitempty"`
	Env             []envVar        `yaml:"env"`
	SecurityContext securityContext `yaml:"securityContext"`
	Resources       resources       `yaml:"resources"`
	StartupProbe    *probe          `yaml:"startupProbe,omitempty"`
	VolumeDevices   []volumeDevice  `yaml:"volumeDevices,omitempty"`
	VolumeMounts    []volumeMount   `yaml:"volumeMounts"`
}

type emptyDirVolume struct {
	Name     string `yaml:"name"`
	EmptyDir struct {
		Medium string `yaml:"medium"`
	} `yaml:"emptyDir"`
}

// inMemory is an emptyDir that never reaches a disk of the node.
func inMemory(name string) *yaml.Node {
	v := emptyDirVolume{Name: name}
	v.EmptyDir.Medium = "Memory"
	return node(v)
}

// keyToPath is one key of a Secret, and its file.
type keyToPath struct {
	Key  string `yaml:"key"`
	Path string `yaml:"path"`
	Mode int    `yaml:"mode"`
}

type secretSource struct {
	Name string `yaml:"name"`
	From struct {
		SecretName  string      `yaml:"secretName"`
		DefaultMode int         `yaml:"defaultMode,omitempty"`
		Items       []keyToPath `yaml:"items,omitempty"`
	} `yaml:"secret"`
}

// secretVolume is a volume that has one key of a Secret, or for Barbican the whole Secret with clouds.yaml, for that may name
// other files, as the certificates of an authority. nil: the coordinator gives the secret.
func (o Options) secretVolume() *yaml.Node {
	v := secretSource{Name: secretVolume}
	switch {
	case o.Secret != nil:
		v.From.SecretName = o.Secret.Name
		v.From.Items = []keyToPath{{o.Secret.Key, secretFile, secretMode}}
	case o.Barbican != nil:
		v.From.SecretName, v.From.DefaultMode = o.Barbican.Clouds, secretMode
	default:
		return nil
	}
	return node(v)
}

// secretEnv is the environment that says where the secret comes from.
func (o Options) secretEnv() []envVar {
	switch {
	case o.Secret != nil:
		return []envVar{{"WORKLOAD_SECRET_FILE", path.Join(secretFolder, secretFile)}}
	case o.Barbican == nil:
		return []envVar{{"COORDINATOR_HOST", o.Coordinator}}
	}
	env := []envVar{{"BARBICAN_SECRET", o.Barbican.Secret.String()}, {"OS_CLIENT_CONFIG_FILE", path.Join(secretFolder, cloudsFile)}}
	if o.Barbican.Cloud != "" {
		env = append(env, envVar{"OS_CLOUD", o.Barbican.Cloud})
	}
	return env
}

// isInMemory reports whether a volume is such an emptyDir and nothing else.
func isInMemory(volume *yaml.Node) bool {
	dir := field(volume, "emptyDir")
	return len(volume.Content) == 4 && dir != nil && len(dir.Content) == 2 && text(dir, "medium") == "Memory"
}

// newInitializer gives the container. Without volumes it writes the secrets and ends (PV-07); with
// them it opens each, and goes on for as long as the pod does (PV-04, PV-05, PV-06): as root, which mounts, also where the
// pod's containers are to run as another user. owners are whose new file systems are, none where all are root's.
func newInitializer(o Options, volumes []Volume, owners []string, forOthers bool) *yaml.Node {
	c := container{
		Name: initializerName, Image: o.Image,
		Env:             o.secretEnv(),
		SecurityContext: securityContext{Capabilities: &capabilities{Add: []string{"NET_ADMIN"}}},
		Resources:       resources{Limits: memory{"50Mi"}, Requests: memory{"50Mi"}},
		VolumeMounts:    []volumeMount{{Name: secretsVolume, MountPath: secretsPath}},
	}
	if o.Secret != nil || o.Barbican != nil {
		c.VolumeMounts = append(c.VolumeMounts, volumeMount{Name: secretVolume, MountPath: secretFolder, ReadOnly: true})
	}
	if len(volumes) == 0 {
		return node(c)
	}
	var devices []string
	for i, v := range volumes {
		device := nth(devicePath, "/dev/csi", i)
		devices = append(devices, device)
		c.VolumeDevices = append(c.VolumeDevices, volumeDevice{Name: v.Device, DevicePath: device})
		c.VolumeMounts = append(c.VolumeMounts, volumeMount{Name: v.Mount, MountPath: nth(statePath, statePath, i), MountPropagation: "Bidirectional"})
	}
	c.Env = append(c.Env, envVar{"CRYPTSETUP_DEVICE", strings.Join(devices, ",")})
	for _, v := range []envVar{{"CRYPTSETUP_OWNER", strings.Join(owners, ",")}, {"CRYPTSETUP_FORMAT", o.Format}, {"CRYPTSETUP_KDF", o.KDF}} {
		if v.Value != "" {
			c.Env = append(c.Env, v)
		}
	}
	c.SecurityContext = securityContext{Privileged: true}
	if forOthers {
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsNonRoot = new(0), new(false)
	}
	c.Resources = resources{Limits: memory{"100Mi"}, Requests: memory{"100Mi"}}
	c.RestartPolicy = "Always"
	c.StartupProbe = startupProbe(o.StartupTime)
	return node(c)
}

func nth(first, base string, i int) string {
	if i == 0 {
		return first
	}
	return base + strconv.Itoa(i)
}

// stateVolumes gives the volumes that an initializer made before has below /state.
func stateVolumes(initializer *yaml.Node) ([]string, error) {
	mounts, err := list(initializer, "volumeMounts")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", initializerName, err)
	}
	var out []string
	for _, m := range mounts {
		at := path.Clean(text(m, "mountPath"))
		_, err := strconv.Atoi(strings.TrimPrefix(at, statePath))
		if at == statePath || strings.HasPrefix(at, statePath) && err == nil {
			out = append(out, text(m, "name"))
		}
	}
	return out, nil
}
