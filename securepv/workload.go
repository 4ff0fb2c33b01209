package securepv

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// template is the path to the pod template of each kind of workload (PV-13).
var template = map[string][]string{
	"Pod":                   {},
	"Deployment":            {"spec", "template"},
	"ReplicaSet":            {"spec", "template"},
	"ReplicationController": {"spec", "template"},
	"StatefulSet":           {"spec", "template"},
	"DaemonSet":             {"spec", "template"},
	"Job":                   {"spec", "template"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template"},
}

// groups are the API groups of those kinds: a kind of the same name in another group is not ours.
var groups = map[string]string{
	"Pod": "", "ReplicationController": "",
	"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "DaemonSet": "apps",
	"Job": "batch", "CronJob": "batch",
}

// workload is one object that has pods.
type workload struct {
	object   *yaml.Node
	kind     string
	metadata []*yaml.Node // its own and its pod template's
	pod      *yaml.Node   // the pod's spec
	claims   []*yaml.Node // volumeClaimTemplates, of a StatefulSet
}

// asWorkload gives an object that is a workload as one; of others nil. What it has is not read yet.
func asWorkload(o object) *workload {
	if _, known := template[o.kind]; !known || o.group != groups[o.kind] {
		return nil
	}
	return &workload{object: o.node, kind: o.kind}
}

// read finds what generate looks at and changes, and refuses what it could not change.
func (w *workload) read() error {
	if err := plain(w.object, yaml.MappingNode); err != nil { // some readers take what is merged, others what stands beside it
		return err
	}
	own, err := child(w.object, "metadata")
	if err != nil {
		return err
	}
	w.metadata = append(w.metadata, own)
	at, err := child(w.object, template[w.kind]...)
	if err != nil {
		return err
	}
	if at != w.object {
		of, err := child(at, "metadata")
		if err != nil {
			return err
		}
		w.metadata = append(w.metadata, of)
	}
	if w.pod, err = child(at, "spec"); err != nil {
		return err
	}
	if w.pod == nil {
		return fmt.Errorf("spec: the %s has no pod", w.kind)
	}
	if w.kind != "StatefulSet" {
		return nil
	}
	spec, err := child(w.object, "spec")
	if err != nil {
		return err
	}
	w.claims, err = list(spec, "volumeClaimTemplates")
	return err
}

// groupOf is the API group of an object.
func groupOf(object *yaml.Node) string {
	version := text(object, "apiVersion")
	for i := range version {
		if version[i] == '/' {
			return version[:i]
		}
	}
	return ""
}

// namespace is the workload's, "default" where the text names none.
func (w *workload) namespace() string {
	if ns := text(w.metadata[0], "namespace"); ns != "" {
		return ns
	}
	return "default"
}
