package securepv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// isJSON says whether a document is an object in JSON. It is written as JSON again (K31).
func isJSON(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Valid(text)
}

// fromJSON reads JSON as it would read YAML, in the order of its keys. Numbers keep their text.
func fromJSON(text []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := nextOf(d)
	if err != nil {
		return nil, err
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{n}}, nil
}

func nextOf(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if t == '[' {
			n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		}
		keys := map[string]bool{}
		for d.More() { // of an object, a key and its value in turn
			in, err := nextOf(d)
			if err != nil {
				return nil, err
			}
			if t == '{' && len(n.Content)%2 == 0 {
				if keys[in.Value] { // readers do not agree on which of them counts
					return nil, errTwice(in.Value)
				}
				keys[in.Value] = true
			}
			n.Content = append(n.Content, in)
		}
		_, err := d.Token() // its end
		return n, err
	case string:
		return scalar("!!str", t), nil
	case json.Number:
		return scalar("!!float", t.String()), nil
	case bool:
		return scalar("!!bool", strconv.FormatBool(t)), nil
	}
	return scalar("!!null", "null"), nil
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// indent is what the first line of an object that has lines is indented by.
var indent = regexp.MustCompile(`\{\r?\n([ \t]+)"`)

// toJSON writes a document as JSON, in as many lines as like has.
func toJSON(root *yaml.Node, like []byte) ([]byte, error) {
	out, err := appendJSON(nil, root.Content[0])
	if err != nil {
		return nil, err
	}
	if by := indent.FindSubmatch(like); by != nil {
		var lines bytes.Buffer
		if err := json.Indent(&lines, out, "", string(by[1])); err != nil {
			return nil, err
		}
		out = lines.Bytes()
	}
	if bytes.HasSuffix(like, []byte("\n")) {
		out = append(out, '\n')
	}
	return out, nil
}

func appendJSON(out []byte, n *yaml.Node) ([]byte, error) {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		ends := "{}"
		if n.Kind == yaml.SequenceNode {
			ends = "[]"
		}
		out = append(out, ends[0])
		for i, in := range n.Content {
			switch {
			case i == 0:
			case n.Kind == yaml.MappingNode && i%2 == 1:
				out = append(out, ':')
			default:
				out = append(out, ',')
			}
			var err error
			if out, err = appendJSON(out, in); err != nil {
				return nil, err
			}
		}
		return append(out, ends[1]), nil
	case yaml.ScalarNode:
		if n.ShortTag() != "!!str" {
			return append(out, n.Value...), nil
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		err := e.Encode(n.Value)
		return append(out, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), err
	}
	return nil, fmt.Errorf("a node of kind %d is not of JSON", n.Kind)
}
