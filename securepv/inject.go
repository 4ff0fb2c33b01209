package securepv

import (
	"fmt"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"
)

// inject puts the initializer into a workload, in place of one that was put there before.
func (w *workload) inject(o Options, claims claims) (warnings []string, err error) {
	if w.asksToSkip() {
		return nil, nil
	}
	if err := w.read(); err != nil {
		return nil, err
	}
	if _, _, err := w.annotated(skipInitializer); err != nil {
		return nil, err
	}
	value, annotated, err := w.annotated(securePV)
	if err != nil {
		return nil, err
	}
	var volumes []Volume
	if annotated {
		if volumes, err = ParseVolumes(value); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", securePV, err)
		}
	}
	for _, v := range volumes {
		if err := w.checkDevice(v.Device, claims); err != nil {
			return nil, err
		}
	}
	if err := w.removeStale(volumes); err != nil {
		return nil, err
	}
	if warnings, err = w.ensureVolumes(volumes); err != nil {
		return nil, err
	}
	if err := w.ensureSecret(o.secretVolume()); err != nil {
		return nil, err
	}
	owners, differ, err := w.owners(volumes)
	if err != nil {
		return nil, err
	}
	if o.Coordinator == "" {
		o.Coordinator = "coordinator-ready." + w.namespace()
	}
	return append(warnings, differ...), w.addInitializer(newInitializer(o, volumes, owners, w.isForOthers()))
}

// isForOthers reports whether the pod's containers are to run as another user than root where they do not say.
func (w *workload) isForOthers() bool {
	context := field(w.pod, "securityContext")
	user := text(context, "runAsUser")
	return user != "" && user != "0" || text(context, "runAsNonRoot") == "true"
}

// removeStale removes the volumes that an annotation of before put here and that this one does not
// name. One that a container still uses is no volume of ours to remove: without it, the pod could
// not start, and with it the workload would write into the node's memory.
func (w *workload) removeStale(volumes []Volume) error {
	inits, err := list(w.pod, "initContainers")
	if err != nil {
		return err
	}
	before := named(inits, initializerName)
	if before == nil {
		return nil
	}
	stale, err := stateVolumes(before)
	if err != nil {
		return err
	}
	all, err := list(w.pod, "volumes")
	if err != nil {
		return err
	}
	for _, name := range stale {
		v := named(all, name)
		if v == nil || !isInMemory(v) || slices.ContainsFunc(volumes, func(v Volume) bool { return v.Mount == name }) {
			continue
		}
		user, err := w.userOf(name, "volumeMounts")
		if err != nil {
			return err
		}
		if user != "" {
			return fmt.Errorf("container %q still mounts %q, which the annotation %s gave it: remove that mount, or name the volume in the annotation", user, name, securePV)
		}
		all = without(all, name)
	}
	setList(w.pod, "volumes", all)
	return nil
}

// userOf names a container besides the initializer that has a volume in one of some lists of its own.
func (w *workload) userOf(volume string, lists ...string) (string, error) {
	containers, err := w.containers()
	if err != nil {
		return "", err
	}
	for _, c := range containers {
		for _, key := range lists {
			has, err := list(c, key)
			if err != nil {
				return "", fmt.Errorf("container %q: %w", text(c, "name"), err)
			}
			if named(has, volume) != nil {
				return text(c, "name"), nil
			}
		}
	}
	return "", nil
}

// containers are all but the initializer.
func (w *workload) containers() ([]*yaml.Node, error) {
	inits, err := list(w.pod, "initContainers")
	if err != nil {
		return nil, err
	}
	others, err := list(w.pod, "containers")
	return slices.Concat(without(inits, initializerName), others), err
}

// ensureVolumes adds the emptyDirs, and the one of the secrets. What had the name of one is replaced
// by it (PV-03), of which the user is told.
func (w *workload) ensureVolumes(volumes []Volume) (warnings []string, err error) {
	all, err := list(w.pod, "volumes")
	if err != nil {
		return nil, err
	}
	if before := named(all, secretsVolume); before == nil || absent(field(before, "emptyDir")) {
		if before != nil {
			warnings = append(warnings, fmt.Sprintf("volume %q is replaced by an emptyDir in memory, where the initializer writes the secrets", secretsVolume))
		}
		all = replace(all, inMemory(secretsVolume))
	}
	for _, v := range volumes {
		if w.claimTemplate(v.Mount) != nil {
			return nil, fmt.Errorf("volumeClaimTemplates: %s: annotation %s says that it is the mount, and a StatefulSet gives its pods the claim in place of an emptyDir of that name: give the mount another name",
				v.Mount, securePV)
		}
		if before := named(all, v.Mount); before != nil && !isInMemory(before) {
			warnings = append(warnings, fmt.Sprintf("volume %q is replaced by an emptyDir in memory, where the file system of %q appears", v.Mount, v.Device))
		} else if before != nil {
			continue
		}
		all = replace(all, inMemory(v.Mount))
	}
	setList(w.pod, "volumes", all)
	return warnings, nil
}

// ensureSecret gives the pod the volume of the workload's secret, or of what reads it, and takes away one that an
// initializer had before and that nobody else mounts. nil: it is to have none.
func (w *workload) ensureSecret(volume *yaml.Node) error {
	all, err := list(w.pod, "volumes")
	if err != nil {
		return err
	}
	user, err := w.userOf(secretVolume, "volumeMounts")
	if err != nil {
		return err
	}
	switch {
	case volume != nil && user != "":
		return fmt.Errorf("container %q mounts %q, which is the name of the initializer's own volume: give it another one", user, secretVolume)
	case volume != nil:
		all = replace(all, volume)
	case user == "" && !absent(field(named(all, secretVolume), "secret")):
		all = without(all, secretVolume)
	}
	setList(w.pod, "volumes", all)
	return nil
}

// addInitializer puts it first, and gives all other containers its secrets.
func (w *workload) addInitializer(initializer *yaml.Node) error {
	others, err := w.containers()
	if err != nil {
		return err
	}
	for _, c := range others {
		if err := mountSecrets(c); err != nil {
			return err
		}
	}
	inits, err := list(w.pod, "initContainers")
	if err != nil {
		return err
	}
	if len(inits) > 0 && same(inits[0], initializer) {
		initializer = inits[0]
	}
	setList(w.pod, "initContainers", append([]*yaml.Node{initializer}, without(inits, initializerName)...))
	return nil
}

// mountSecrets gives a container the initializer's secrets, beside the mounts that it has. What it has at their path is refused: Kubernetes takes no two
// at one path (K11).
func mountSecrets(container *yaml.Node) error {
	name := text(container, "name")
	mounts, err := list(container, "volumeMounts")
	if err != nil {
		return fmt.Errorf("container %q: %w", name, err)
	}
	devices, err := list(container, "volumeDevices")
	if err != nil {
		return fmt.Errorf("container %q: %w", name, err)
	}
	at := func(key string) func(*yaml.Node) bool {
		return func(n *yaml.Node) bool { return path.Clean("/"+text(n, key)) == secretsPath }
	}
	if i := slices.IndexFunc(devices, at("devicePath")); i >= 0 {
		return fmt.Errorf("container %q has the device %q at %s, where the initializer's secrets go: give it another path", name, text(devices[i], "name"), secretsPath)
	}
	i := slices.IndexFunc(mounts, at("mountPath"))
	if i < 0 {
		setList(container, "volumeMounts", append(slices.Clone(mounts), node(volumeMount{Name: secretsVolume, MountPath: secretsPath})))
		return nil
	}
	if volume := text(mounts[i], "name"); volume != secretsVolume {
		return fmt.Errorf("container %q has %q mounted at %s, where the initializer's secrets go: mount it elsewhere", name, volume, secretsPath)
	}
	return nil
}
