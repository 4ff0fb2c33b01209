package securepv

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// owner is whose a new file system is to be: the user that the workload's containers are, and the group that they have in common. The zero value is root.
type owner struct{ user, group int32 }

func (o owner) String() string { return fmt.Sprintf("%d:%d", o.user, o.group) }

// owners are those of the volumes, none where all are root's.
func (w *workload) owners(volumes []Volume) (all []string, warnings []string, err error) {
	for _, v := range volumes {
		o, differ, err := w.ownerOf(v.Mount)
		if err != nil {
			return nil, nil, err
		}
		if differ != nil {
			warnings = append(warnings, fmt.Sprintf("containers %s write to %q as different users, and the new file system stays root's: say a securityContext.fsGroup of the pod", strings.Join(differ, ", "), v.Mount))
		}
		all = append(all, o.String())
	}
	if !slices.ContainsFunc(all, func(o string) bool { return o != owner{}.String() }) {
		return nil, warnings, nil
	}
	return all, warnings, nil
}

// ownerOf finds the one that the containers are which write to a volume; root, who may write anyway, is not looked at. Where they are several, differ
// names the containers, but not if the pod has an fsGroup: each container is a member of it, as with any other volume of Kubernetes.
func (w *workload) ownerOf(mount string) (o owner, differ []string, err error) {
	writers, err := w.writersTo(mount)
	if err != nil {
		return o, nil, err
	}
	pod := followed(w.pod, "securityContext")
	if len(writers) == 0 {
		writers = []*yaml.Node{nil} // one that says nothing of its own
	}
	var several []owner
	for _, c := range writers {
		of, err := idsOf(followed(c, "securityContext"), pod)
		if err != nil {
			return o, nil, err
		}
		if of == (owner{}) {
			continue
		}
		differ = append(differ, text(c, "name"))
		if !slices.Contains(several, of) {
			several = append(several, of)
		}
	}
	if len(several) == 1 {
		o = several[0]
	}
	group, err := number("fsGroup", pod)
	if group != 0 {
		o.group = group
	}
	if group != 0 || len(several) < 2 {
		differ = nil
	}
	return o, differ, err
}

// writersTo are the pod's containers that mount a volume and may write there. Init containers prepare it, often as root.
func (w *workload) writersTo(mount string) (out []*yaml.Node, err error) {
	containers, err := list(w.pod, "containers")
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		mounts, err := list(c, "volumeMounts")
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", text(c, "name"), err)
		}
		if slices.ContainsFunc(mounts, func(m *yaml.Node) bool { return text(m, "name") == mount && text(m, "readOnly") != "true" }) {
			out = append(out, c)
		}
	}
	return out, nil
}

// idsOf reads the user and the group of a container, each of the first securityContext that says it.
func idsOf(contexts ...*yaml.Node) (o owner, err error) {
	if o.user, err = number("runAsUser", contexts...); err != nil {
		return o, err
	}
	o.group, err = number("runAsGroup", contexts...)
	return o, err
}

// number reads the number of a user or a group, 0 where none of the securityContexts says one.
func number(key string, contexts ...*yaml.Node) (id int32, err error) {
	for _, c := range contexts {
		n := followed(c, key)
		if absent(n) {
			continue
		}
		if err := n.Decode(&id); err != nil || id < 0 {
			return 0, fmt.Errorf("securityContext.%s: %q is no number of a user or a group", key, n.Value)
		}
		return id, nil
	}
	return 0, nil
}
