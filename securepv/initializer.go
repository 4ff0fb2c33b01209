package securepv

import (
	"fmt"
	"path"
	"strconv"
	"strings"

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

	// Of a workload whose secret is a Kubernetes Secret.
	secretVolume = "initializer-secret"
	secretFolder = "/run/initializer-secret"
	secretFile   = "workload-secret"
	secretMode   = 0o444 // whatever user the pod says; no other container mounts it
)

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
		SecretName string      `yaml:"secretName"`
		Items      []keyToPath `yaml:"items"`
	} `yaml:"secret"`
}

// ofSecret is a volume that has one key of a Secret.
func ofSecret(s Secret) *yaml.Node {
	v := secretSource{Name: secretVolume}
	v.From.SecretName = s.Name
	v.From.Items = []keyToPath{{s.Key, secretFile, secretMode}}
	return node(v)
}

// isInMemory reports whether a volume is such an emptyDir and nothing else.
func isInMemory(volume *yaml.Node) bool {
	dir := field(volume, "emptyDir")
	return len(volume.Content) == 4 && dir != nil && len(dir.Content) == 2 && text(dir, "medium") == "Memory"
}

// newInitializer gives the container. Without volumes it writes the secrets and ends (PV-07); with
// them it opens each, and goes on for as long as the pod does (PV-04, PV-05, PV-06): as root, which mounts, also where the
// pod's containers are to run as another user.
func newInitializer(o Options, volumes []Volume, forOthers bool) *yaml.Node {
	c := container{
		Name: initializerName, Image: o.Image,
		Env:             []envVar{{"COORDINATOR_HOST", o.Coordinator}},
		SecurityContext: securityContext{Capabilities: &capabilities{Add: []string{"NET_ADMIN"}}},
		Resources:       resources{Limits: memory{"50Mi"}, Requests: memory{"50Mi"}},
		VolumeMounts:    []volumeMount{{Name: secretsVolume, MountPath: secretsPath}},
	}
	if o.Secret != nil {
		c.Env = []envVar{{"WORKLOAD_SECRET_FILE", path.Join(secretFolder, secretFile)}}
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
	c.SecurityContext = securityContext{Privileged: true}
	if forOthers {
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsNonRoot = new(0), new(false)
	}
	c.Resources = resources{Limits: memory{"100Mi"}, Requests: memory{"100Mi"}}
	c.RestartPolicy = "Always"
	c.StartupProbe = &probe{Exec: execAction{Command: []string{"/bin/test", "-f", doneFile}}, FailureThreshold: 20, PeriodSeconds: 5}
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
