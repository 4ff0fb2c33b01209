package securepv

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// owner is whose a new file system is to be: the user and the group that the workload's containers have in common. The zero value is root.
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
			warnings = append(warnings, fmt.Sprintf("containers %s write to %q as different users, or as one that only their image tells, and the new file system stays root's: say a securityContext.fsGroup of the pod", strings.Join(differ, ", "), v.Mount))
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
	var users, groups []int32
	unknown := false // a user that is not root, and that the image names
	for _, c := range writers {
		contexts := []*yaml.Node{followed(c, "securityContext"), pod}
		of, err := idsOf(contexts...)
		if err != nil {
			return o, nil, err
		}
		anonymous := c != nil && of.user == 0 && isSaid("runAsNonRoot", contexts...)
		if of == (owner{}) && !anonymous {
			continue
		}
		unknown = unknown || anonymous
		differ, users, groups = append(differ, text(c, "name")), append(users, of.user), append(groups, of.group)
	}
	if users = slices.Compact(slices.Sorted(slices.Values(users))); len(users) == 1 && !unknown {
		o.user = users[0]
	}
	if groups = slices.Compact(slices.Sorted(slices.Values(groups))); len(groups) == 1 {
		o.group = groups[0]
	}
	group, err := number("fsGroup", pod)
	if group != 0 {
		o.group = group
	}
	if o != (owner{}) || len(users) < 2 && !unknown {
		differ = nil
	}
	return o, differ, err
}

// writersTo are the pod's containers that mount a volume and may write there, sidecars (init containers that are always started again) among them. Other
// init containers prepare it, often as root.
func (w *workload) writersTo(mount string) (out []*yaml.Node, err error) {
	containers, err := list(w.pod, "containers")
	if err != nil {
		return nil, err
	}
	inits, err := list(w.pod, "initContainers")
	if err != nil {
		return nil, err
	}
	for _, c := range inits {
		if text(c, "restartPolicy") == "Always" && text(c, "name") != initializerName {
			containers = append(containers, c)
		}
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

// isSaid reads the first of the securityContexts that says whether something is so; false where none says it.
func isSaid(key string, contexts ...*yaml.Node) bool {
	for _, c := range contexts {
		if n := followed(c, key); !absent(n) {
			return n.Value == "true"
		}
	}
	return false
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
