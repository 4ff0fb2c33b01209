package securepv

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The annotations, each under the name of the RFC and under our own. They stand on the workload
// or on its pod template.
const (
	rfcPrefix = "contrast.edgeless.systems/"
	ownPrefix = "strongroom.dev/"

	securePV        = "secure-pv"
	skipInitializer = "skip-initializer"
	podRole         = "pod-role" // "coordinator": the one that gives initializers their secrets
)

// Volume is one pair of the annotation: a block device, and the emptyDir in which the workload
// finds the file system of that device.
type Volume struct{ Device, Mount string }

// name is what Kubernetes allows as the name of a volume (a DNS label).
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ParseVolumes reads the annotation's value: "device-name:mount-name", several with commas between
// them. No name may occur twice, nor be that of a volume which the initializer has anyway (PV-01).
func ParseVolumes(value string) ([]Volume, error) {
	var out []Volume
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(value, ",") {
		parts := strings.Split(strings.TrimSpace(pair), ":")
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			return nil, fmt.Errorf("%q: secure PV annotation has to be in the format 'device-name:mount-name', several with commas between them", value)
		}
		for _, part := range parts {
			if !name.MatchString(part) {
				return nil, fmt.Errorf("%q is no name of a volume: lower case letters, digits and '-', at most 63", part)
			}
			if part == secretsVolume || part == secretVolume {
				return nil, fmt.Errorf("%q is the name of the initializer's own volume: give this one another", part)
			}
			if seen[part] {
				return nil, fmt.Errorf("%q is named twice", part)
			}
			seen[part] = true
		}
		out = append(out, Volume{Device: parts[0], Mount: parts[1]})
	}
	return out, nil
}

// asksToSkip reports whether the workload or its pod template says in so many words that it gets no initializer (PV-09),
// or that it is the coordinator, which gives initializers their secrets. It may have anything else in it: it stays as it is.
func (w *workload) asksToSkip() bool {
	for _, at := range [][]string{nil, template[w.kind]} {
		annotations := followed(w.object, append(slices.Clone(at), "metadata", "annotations")...)
		for _, prefix := range []string{rfcPrefix, ownPrefix} {
			skip := followed(annotations, prefix+skipInitializer)
			if skip != nil && skip.ShortTag() == "!!str" && skip.Value == "true" || text(annotations, prefix+podRole) == "coordinator" {
				return true
			}
		}
	}
	return false
}

// annotated gives an annotation's value, of whichever name and place it has.
func (w *workload) annotated(key string) (value string, found bool, err error) {
	for _, meta := range w.metadata {
		annotations, err := child(meta, "annotations")
		if err != nil {
			return "", false, err
		}
		for _, prefix := range []string{rfcPrefix, ownPrefix} {
			n := field(annotations, prefix+key)
			switch {
			case n == nil:
			case n.ShortTag() != "!!str":
				return "", false, fmt.Errorf("annotation %s: it must be a text: put it in quotes", prefix+key)
			case found && n.Value != value:
				return "", false, fmt.Errorf("annotation %s says %q and %q: workload and pod template must agree", key, value, n.Value)
			default:
				value, found = n.Value, true
			}
		}
	}
	return value, found, nil
}
