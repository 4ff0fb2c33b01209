package securepv

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// checkDevice refuses a device that the initializer could not have as a block device, or not alone (PV-02). A claim template of a StatefulSet is
// what its pods have, also where their volumes have one of its name.
func (w *workload) checkDevice(name string, claims claims) error {
	volumes, err := list(w.pod, "volumes")
	if err != nil {
		return err
	}
	if t := w.claimTemplate(name); t != nil {
		what := "volumeClaimTemplates: " + name
		if err := usable(t, what); err != nil {
			return err
		}
		return w.checkAlone(name, what)
	}
	v := named(volumes, name)
	if v == nil {
		return fmt.Errorf("annotation %s: device %q not found: it must be among volumes or volumeClaimTemplates", securePV, name)
	}
	if err := w.checkVolume(v, name, claims); err != nil {
		return err
	}
	return w.checkAlone(name, "volumes: "+name)
}

// checkVolume looks at one of the pod's own volumes, and at its claim if that is in the input.
func (w *workload) checkVolume(v *yaml.Node, name string, claims claims) error {
	if claim := field(v, "persistentVolumeClaim"); !absent(claim) {
		id := w.namespace() + "/" + text(claim, "claimName")
		if pvc := claims[id]; pvc != nil {
			return usable(pvc, "PersistentVolumeClaim "+id)
		}
		return nil
	}
	if ephemeral, err := child(v, "ephemeral", "volumeClaimTemplate"); err == nil && ephemeral != nil {
		return usable(ephemeral, "volumes: "+name)
	}
	return fmt.Errorf("annotation %s: volume %q must be a PersistentVolumeClaim, for Kubernetes gives pods no other volume as a block device", securePV, name)
}

func (w *workload) claimTemplate(name string) *yaml.Node {
	for _, t := range w.claims {
		if meta, err := child(t, "metadata"); err == nil && text(meta, "name") == name {
			return t
		}
	}
	return nil
}

// usable refuses a claim that is no block device. Its size is the initializer's to look at: a claim asks for the least that will do.
func usable(claim *yaml.Node, what string) error {
	spec, err := child(claim, "spec")
	if err != nil || text(spec, "volumeMode") != "Block" {
		return fmt.Errorf("%s: spec.volumeMode must be Block: the initializer needs the device, and Kubernetes would mount a file system of its own", what)
	}
	return nil
}

// checkAlone refuses a device that another container has, too: as a file system it is none, and what is written past the initializer
// destroys the encrypted one.
func (w *workload) checkAlone(name, what string) error {
	user, err := w.userOf(name, "volumeMounts", "volumeDevices")
	if err != nil {
		return err
	}
	if user != "" {
		return fmt.Errorf("%s: container %q has it, too, and the device must be the initializer's alone: let it mount what the annotation %s names after the colon", what, user, securePV)
	}
	return nil
}
