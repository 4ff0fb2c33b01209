package securepv

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// source is the text of a document, and the nodes that were read of it as they were then.
type source struct {
	text     []byte // ends with the end of a line
	added    string // that end, where the document has none
	lines    []int  // where each begins, and the end of the text
	children map[*yaml.Node][]*yaml.Node
}

// lineEnd is what the parser counts as the end of a line; white is what can be around the words of a text.
var lineEnd = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

const (
	white         = " \t\r\n\u0085\u2028\u2029"
	byteOrderMark = "\ufeff"
)

func newSource(text []byte, root *yaml.Node) source {
	s := source{text: text, lines: []int{0}, children: map[*yaml.Node][]*yaml.Node{}}
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		s.lines[0] = len(byteOrderMark)
	}
	for _, end := range lineEnd.FindAllIndex(text, -1) {
		s.lines = append(s.lines, end[1])
	}
	if last := s.lines[len(s.lines)-1]; last < len(text) {
		s.added = s.endBefore(last)
		s.text = slices.Concat(text, []byte(s.added))
		s.lines = append(s.lines, len(s.text))
	}
	s.note(root)
	return s
}

func (s source) note(n *yaml.Node) {
	s.children[n] = slices.Clone(n.Content)
	for _, in := range n.Content {
		s.note(in)
	}
}

// changed reports whether a node has other nodes in it than it had.
func (s source) changed(n *yaml.Node) bool {
	return !slices.Equal(s.children[n], n.Content) || slices.ContainsFunc(n.Content, s.changed)
}

// lineOf is where the line begins in which a place is; nextLine, where the one after it does.
func (s source) lineOf(at int) int {
	i, found := slices.BinarySearch(s.lines, at)
	if !found {
		i--
	}
	return s.lines[max(i, 0)]
}

func (s source) nextLine(at int) int {
	i, _ := slices.BinarySearch(s.lines, at+1)
	return s.lines[min(i, len(s.lines)-1)]
}

// endBefore is how the last line before a place ends that ends as lines commonly do.
func (s source) endBefore(at int) string {
	switch i := bytes.LastIndexAny(s.text[:at], "\r\n"); {
	case i > 0 && s.text[i-1] == '\r' && s.text[i] == '\n':
		return "\r\n"
	case i >= 0:
		return string(s.text[i])
	}
	return "\n"
}

// start is where a node begins, with its anchor and its tag. The parser counts columns in characters.
func (s source) start(n *yaml.Node) int {
	at := s.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at
}

// content is where a node begins after its anchor and its tag; properties, where these end.
func (s source) content(n *yaml.Node) (at, properties int) {
	at = s.start(n)
	properties = at
	for at < len(s.text) && strings.IndexByte("&!", s.text[at]) >= 0 {
		properties = at + bytes.IndexAny(s.text[at:], white)
		at = s.skip(properties, white)
	}
	return at, properties
}

// skip passes some characters, and comments.
func (s source) skip(at int, chars string) int {
	for {
		at = len(s.text) - len(bytes.TrimLeft(s.text[at:], chars))
		if at == len(s.text) || s.text[at] != '#' {
			return at
		}
		at = s.nextLine(at)
	}
}

// leaf is the last node in a node.
func (s source) leaf(n *yaml.Node) *yaml.Node {
	for in := s.children[n]; len(in) > 0; in = s.children[n] {
		n = in[len(in)-1]
	}
	return n
}

// quoted is a scalar in quotes.
var quoted = regexp.MustCompile(`\A(?s:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')`)

// end is where a node ends: after its last character, or in the last of its lines.
func (s source) end(n *yaml.Node) int {
	at, properties := s.content(n)
	in := s.children[n]
	switch {
	case n.Kind == yaml.AliasNode:
		return at + len("*") + len(n.Value)
	case n.Kind == yaml.ScalarNode && isBlock(n):
		return s.endOfBlock(at, n.Value)
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return at + len(quoted.Find(s.text[at:]))
	case n.Kind == yaml.ScalarNode && n.Value == "":
		return properties
	case n.Kind == yaml.ScalarNode:
		return s.pass(at, n.Value)
	case !inFlow(n) || len(in) > 0 && s.text[at] != '{' && s.text[at] != '[': // a pair alone, [a: b], has no brackets
		return s.end(in[len(in)-1])
	case len(in) > 0:
		return s.skip(s.end(in[len(in)-1]), white+",") + 1
	}
	return s.skip(at+1, white) + 1
}

// pass is where the words of a value end that begins at a place. The space between them can be another one than in the value, for lines are folded.
func (s source) pass(at int, value string) int {
	for _, word := range words(value) {
		at = len(s.text) - len(bytes.TrimLeft(s.text[at:], white))
		at = min(at+len(word), len(s.text))
	}
	return at
}

func words(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(white, r) })
}

// endOfBlock is a place in the last line of a block scalar whose '|' or '>' is at a place. Lines without a word are among its own where its value has them.
func (s source) endOfBlock(at int, value string) int {
	end := at
	if len(words(value)) > 0 {
		end = s.pass(s.nextLine(at), value)
	}
	space := value[len(strings.TrimRight(value, white)):]
	if keeps := bytes.ContainsRune(s.text[at:min(at+3, len(s.text))], '+'); !keeps && strings.Trim(space, "\n") == "" {
		return end
	}
	for next := s.nextLine(end); next < len(s.text) && len(bytes.Trim(s.text[next:s.nextLine(next)], white)) == 0; next = s.nextLine(next) {
		end = next
	}
	return end
}

func inFlow(n *yaml.Node) bool  { return n.Style&yaml.FlowStyle != 0 }
func isBlock(n *yaml.Node) bool { return n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 }

// dashed is a line with an item of a list.
var dashed = regexp.MustCompile(`\A *-[ \t\r\n]`)

// dash is where the '-' of an item is, and in which line that stands.
func (s source) dash(item *yaml.Node) (at, line int) {
	line = s.lineOf(s.start(item))
	for line > s.lines[0] && !dashed.Match(s.text[line:]) {
		line = s.lineOf(line - 1)
	}
	return len(s.text) - len(bytes.TrimLeft(s.text[line:], " ")), line
}

// beginsLine reports whether a node is the first in its line, and where that begins.
func (s source) beginsLine(n *yaml.Node) (line int, yes bool) {
	at := s.start(n)
	line = s.lineOf(at)
	return line, len(bytes.TrimLeft(s.text[line:at], " ")) == 0
}

// aboveComments is where the comments begin that stand directly above a line, not before floor.
func (s source) aboveComments(line, floor int) int {
	for line > floor {
		before := s.lineOf(line - 1)
		if before < floor || !bytes.HasPrefix(bytes.TrimLeft(s.text[before:line], " \t"), []byte("#")) {
			break
		}
		line = before
	}
	return line
}

// step is by how much the first list in a node is indented, -1 where there is none.
func (s source) step(n *yaml.Node) int {
	in := s.children[n]
	for i, value := range in {
		if n.Kind == yaml.MappingNode && i%2 == 1 && value.Kind == yaml.SequenceNode && !inFlow(value) {
			dash, line := s.dash(s.children[value][0])
			return max(dash-line-(in[i-1].Column-1), 0)
		}
		if step := s.step(value); step >= 0 {
			return step
		}
	}
	return -1
}
