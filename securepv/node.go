package securepv

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field gives the value of a key of a mapping, nil where there is none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if n := mapping.Content[i]; n.Kind == yaml.ScalarNode && n.Value == key { // the value of an alias is the name of its anchor
			return mapping.Content[i+1]
		}
	}
	return nil
}

// noKeyTwice refuses a mapping that has a key twice, as fromJSON does: readers do not agree on which of them counts, and the other one may be what runs.
func noKeyTwice(n *yaml.Node) error {
	keys := map[string]bool{}
	for i, in := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			key := in
			if key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			switch {
			case key.Style&yaml.TaggedStyle != 0:
				return fmt.Errorf("the key %q has a tag: readers do not agree on what it says", key.Value)
			case key.Kind != yaml.ScalarNode || key.Value == "<<": // several mappings may be merged
			case keys[key.Value]:
				return errTwice(key.Value)
			default:
				keys[key.Value] = true
			}
		}
		if err := noKeyTwice(in); err != nil {
			return err
		}
	}
	return nil
}

func errTwice(key string) error { return fmt.Errorf("the key %q is there twice", key) }

// text gives a scalar's value, "" where there is none.
func text(mapping *yaml.Node, key string) string {
	if n := field(mapping, key); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// followed gives what is at a path, wherever YAML aliases on the way to it lead, nil where some part of it is absent.
func followed(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n = field(n, key); n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
	}
	return n
}

// child gives the mapping at a path, nil where some part of it is absent or null.
func child(mapping *yaml.Node, path ...string) (*yaml.Node, error) {
	for _, key := range path {
		mapping = field(mapping, key)
		if absent(mapping) {
			return nil, nil
		}
		if err := plain(mapping, yaml.MappingNode); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return mapping, nil
}

var (
	errNoMapping = errors.New("it must be a mapping")
	errNoList    = errors.New("it must be a list")
	errAlias     = errors.New("it is a YAML alias or merges one: write it out, for a change here would change the other place, too")
)

// plain refuses what is not of a kind, or shares its content with another place.
func plain(n *yaml.Node, kind yaml.Kind) error {
	switch {
	case n.Kind == yaml.AliasNode || field(n, "<<") != nil:
		return errAlias
	case n.Kind == kind:
		return nil
	case kind == yaml.SequenceNode:
		return errNoList
	}
	return errNoMapping
}

func absent(n *yaml.Node) bool { return n == nil || n.ShortTag() == "!!null" }

// list gives the mappings of a list, none where it is absent.
func list(mapping *yaml.Node, key string) ([]*yaml.Node, error) {
	n := field(mapping, key)
	if absent(n) {
		return nil, nil
	}
	if err := plain(n, yaml.SequenceNode); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	for i, item := range n.Content {
		if err := plain(item, yaml.MappingNode); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
	}
	return n.Content, nil
}

// named gives the item of a list with this name, and nil where there is none.
func named(items []*yaml.Node, name string) *yaml.Node {
	for _, item := range items {
		if text(item, "name") == name {
			return item
		}
	}
	return nil
}

// setList puts a list under a key: in the place of what is there, else last. An empty one is put nowhere.
func setList(mapping *yaml.Node, key string, items []*yaml.Node) {
	n := field(mapping, key)
	switch {
	case !absent(n):
		n.Content = items
		return
	case len(items) == 0:
		return
	}
	value := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
	if i := slices.Index(mapping.Content, n); n != nil {
		mapping.Content[i] = value
		return
	}
	mapping.Content = append(mapping.Content, scalar("!!str", key), value)
}

// replace gives the list with the item in the place of the one of its name, else last. One that is the same stays.
func replace(items []*yaml.Node, item *yaml.Node) []*yaml.Node {
	out, done := make([]*yaml.Node, 0, len(items)+1), false
	for _, n := range items {
		if text(n, "name") == text(item, "name") {
			if !done && same(n, item) {
				out, done = append(out, n), true
			} else if !done {
				out, done = append(out, item), true
			}
			continue
		}
		out = append(out, n)
	}
	if !done {
		out = append(out, item)
	}
	return out
}

// without gives the list without the items of a name.
func without(items []*yaml.Node, name string) []*yaml.Node {
	var out []*yaml.Node
	for _, n := range items {
		if text(n, "name") != name {
			out = append(out, n)
		}
	}
	return out
}

// node makes a node of a value whose fields have yaml tags. Types of this package can all be encoded.
func node(value any) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic(err) // a defect of this package, whatever the input is
	}
	return &n
}

// encode gives a node's text, without the end of its last line, with lists indented or not.
func encode(n *yaml.Node, compact bool) string {
	var out strings.Builder
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if compact {
		e.CompactSeqIndent()
	}
	if err := errors.Join(e.Encode(n), e.Close()); err != nil {
		panic(err) // a defect of this package, as above
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// same reports whether two nodes say the same, in the same order and with the same anchors. How they are written is no matter.
func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && a.Anchor == b.Anchor && slices.EqualFunc(a.Content, b.Content, same)
}
