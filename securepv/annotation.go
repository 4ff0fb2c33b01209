package securepv

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
	return slices.ContainsFunc(w.annotations(), isSkipped)
}

// annotations are those of the workload and of its pod template, nil where there are none.
func (w *workload) annotations() (out []*yaml.Node) {
	for _, at := range [][]string{nil, template[w.kind]} {
		out = append(out, followed(w.object, append(slices.Clone(at), "metadata", "annotations")...))
	}
	return out
}

// checkAnnotations refuses an annotation that would have no effect, so that nobody who asks for encryption gets none without a word (K9): that of an
// object whose pods are not known here, and one that stands where no initializer looks. w is nil for what is no workload.
func (o object) checkAnnotations(w *workload) error {
	if isSkipped(followed(o.node, "metadata", "annotations")) || w != nil && w.asksToSkip() {
		return nil
	}
	known := map[*yaml.Node]bool{}
	if w != nil {
		for _, annotations := range w.annotations() {
			known[annotations] = true
		}
	}
	found := o.stray(o.node, way{}, known, map[place]bool{})
	if found == nil {
		return nil
	}
	at := strings.Join(found.path, ".")
	switch {
	case w != nil && found.indirect:
		return fmt.Errorf("annotation %s at %s: %w", securePV, at, errAlias)
	case w == nil:
		return fmt.Errorf("annotation %s at %s: %s, and its data would lie in clear. Known are %s", securePV, at, o.isNoWorkload(), strings.Join(kinds(), ", "))
	}
	return fmt.Errorf("annotation %s at %s has no effect, and data would lie in clear: it belongs into the metadata of the %s or of its pod template", securePV, at, w.kind)
}

func (o object) isNoWorkload() string {
	if o.kind == "" {
		return "this object says no kind"
	}
	if o.group == "" {
		return fmt.Sprintf("a %s is no workload that is known here", o.kind)
	}
	return fmt.Sprintf("a %s of %s is no workload that is known here", o.kind, o.group)
}

// kinds are those of workloads, with their API groups.
func kinds() (out []string) {
	for kind, group := range groups {
		out = append(out, strings.TrimSuffix(kind+" of "+group, " of "))
	}
	slices.Sort(out)
	return out
}

// way is how a node is come to.
type way struct {
	path     []string // as it is written
	keys     []string // as readers see it: what a mapping merges (<<) is its own to them
	merged   bool     // it is what is merged, or a list of that
	indirect bool     // by a merge, or by a key that is a YAML alias
}

func (w way) to(key string) way {
	return way{path: append(slices.Clone(w.path), key), keys: append(slices.Clone(w.keys), key), indirect: w.indirect}
}

func (w way) merging(key string) way {
	return way{path: append(slices.Clone(w.path), key), keys: w.keys, merged: true, indirect: true}
}

// last are the last two keys.
func (w way) last() string { return strings.Join(w.keys[max(0, len(w.keys)-2):], ".") }

// place is a node, by the last keys on the way to it: aliases lead there on many.
type place struct {
	node   *yaml.Node
	keys   string
	merged bool
}

// stray is the way to annotations that ask for volumes in none of the known places, nil where there are none.
func (o object) stray(n *yaml.Node, by way, known map[*yaml.Node]bool, seen map[place]bool) *way {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	at := place{n, by.last(), by.merged}
	if n == nil || seen[at] {
		return nil
	}
	seen[at] = true
	if n.Kind == yaml.MappingNode && isForAnnotations(by.last()) {
		asks, indirect := asksForVolumes(n)
		by.indirect = by.indirect || indirect
		switch {
		case !by.merged && isSkipped(n): // what is merged, the mapping that merges it may contradict
			return nil
		case indirect, asks && !known[n]:
			return &by
		}
	}
	for i, in := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		next := by.next(n, i)
		if o.isList && n == o.node && next.last() == "items" && !next.indirect { // they are objects of their own
			continue
		}
		if found := o.stray(in, next, known, seen); found != nil {
			return found
		}
	}
	return nil
}

// isForAnnotations reports whether annotations stand where these last two keys lead to: those of an object, or in a field of another kind's own that
// passes them on to pods, such as podMetadata.annotations, podAnnotations and driver.annotations. Under resources a policy looks for them,
// and keys that begin with x- hold what is merged elsewhere.
func isForAnnotations(keys string) bool {
	keys = strings.ToLower(keys)
	return strings.HasSuffix(keys, "annotations") && keys != "resources.annotations" && !strings.HasPrefix(keys, "x-")
}

// next is the way on to what is at an index of a node.
func (w way) next(n *yaml.Node, i int) way {
	if n.Kind != yaml.MappingNode {
		if w.merged {
			return w.merging(strconv.Itoa(i))
		}
		return w.to(strconv.Itoa(i))
	}
	key, indirect := keyOf(n.Content[i-1])
	if key == "<<" {
		return w.merging(key)
	}
	next := w.to(key)
	next.indirect = next.indirect || indirect
	return next
}

// asksForVolumes reports whether annotations do, and whether by a key that is a YAML alias, which field does not find.
func asksForVolumes(annotations *yaml.Node) (asks, indirect bool) {
	for i := 0; i+1 < len(annotations.Content); i += 2 {
		if key, alias := keyOf(annotations.Content[i]); key == rfcPrefix+securePV || key == ownPrefix+securePV {
			asks, indirect = true, indirect || alias
		}
	}
	return asks, indirect
}

// keyOf gives the text of a key, and whether it is a YAML alias.
func keyOf(n *yaml.Node) (text string, alias bool) {
	if n.Kind == yaml.AliasNode {
		return n.Alias.Value, true
	}
	return n.Value, false
}

// isSkipped reports whether annotations say in so many words that there is to be no initializer.
func isSkipped(annotations *yaml.Node) bool {
	for _, prefix := range []string{rfcPrefix, ownPrefix} {
		skip := followed(annotations, prefix+skipInitializer)
		if skip != nil && skip.ShortTag() == "!!str" && skip.Value == "true" || text(annotations, prefix+podRole) == "coordinator" {
			return true
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
