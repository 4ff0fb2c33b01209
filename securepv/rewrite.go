package securepv

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// edits are what changes in a text.
type edits struct {
	source
	all []edit
}

type edit struct {
	from, to int
	text     string
}

// rewrite gives the text with what its nodes have now and had not, each in its place. All else stays to the byte; the result is read again, so that it says
// nothing else. before is how many lines the file has before the text.
func (s source) rewrite(root *yaml.Node, before int) ([]byte, error) {
	if !utf8.Valid(s.text) {
		return nil, errors.New("it is not in UTF-8, and nothing can be injected into it: convert it")
	}
	e := edits{source: s}
	e.node(root, 0)
	out := e.apply()
	if again, err := fromYAML(out); err == nil && again != nil && same(root, again) {
		return out, nil
	}
	var at []string
	for _, one := range e.all {
		i, _ := slices.BinarySearch(s.lines, one.from)
		at = append(at, strconv.Itoa(before+max(i, 1)))
	}
	return nil, fmt.Errorf("nothing can be injected here (line %s) without a change of something else: give each key and item of the pod a line of its own, and end the last line",
		strings.Join(slices.Compact(at), ", "))
}

func (e *edits) add(from, to int, text string) { e.all = append(e.all, edit{from, to, text}) }

// apply makes the changes. Of those at one place, the one that was added first comes first.
func (e *edits) apply() (out []byte) {
	slices.SortStableFunc(e.all, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	done := 0
	for _, one := range e.all {
		out = append(out, e.text[done:max(done, one.from)]...)
		out = append(out, one.text...)
		done = max(done, one.to)
	}
	return bytes.TrimSuffix(append(out, e.text[done:]...), []byte(e.added))
}

// node adds what is new in a node, with lists that are indented as those in it, or as those around it: by step. What is new within comes first, for it may be
// at the same place.
func (e *edits) node(n *yaml.Node, step int) {
	was := e.children[n]
	if own := e.step(n); own >= 0 {
		step = own
	}
	for i, in := range was {
		switch isEmpty := len(e.children[in]) == 0; {
		case n.Kind == yaml.MappingNode && n.Content[i] != in, in.Kind == yaml.SequenceNode && isEmpty && len(in.Content) > 0:
			e.fill(n, in, n.Content[i], step)
		default:
			e.node(in, step)
		}
	}
	switch {
	case slices.Equal(was, n.Content):
	case n.Kind == yaml.SequenceNode:
		e.list(n, step)
	case inFlow(n):
		e.flowKeys(n, n.Content[len(was):])
	default:
		e.keys(n, n.Content[len(was):], step)
	}
}

// fill writes a list in the place of an empty one, or of null.
func (e *edits) fill(mapping, was, n *yaml.Node, step int) {
	from, to := e.start(was), e.end(was)
	if was == n {
		from, _ = e.content(was) // its anchor stays
	}
	switch {
	case !inFlow(mapping):
		e.add(len(bytes.TrimRight(e.text[:from], " ")), to, "")
		at := e.nextLine(to)
		e.add(at, at, e.under(mapping, n, step, at))
	case e.text[from-1] == ':':
		e.add(from, to, " "+flow(n))
	default:
		e.add(from, to, flow(n))
	}
}

// keys writes keys and their lists at the end of a mapping. A block scalar that ends the text where its last line has no end stays there: an end would be
// a part of it.
func (e *edits) keys(n *yaml.Node, added []*yaml.Node, step int) {
	was, at := e.children[n], e.nextLine(e.end(n))
	last := len(was) - 2
	if line, alone := e.beginsLine(was[last]); alone && at == len(e.text) && e.added != "" && isBlock(e.leaf(n)) {
		floor := 0
		if last > 0 {
			floor = e.nextLine(e.end(was[last-1]))
		}
		at = e.aboveComments(line, floor)
		n.Content = slices.Concat(n.Content[:last], added, n.Content[last:len(was)])
	}
	pad := strings.Repeat(" ", was[0].Column-1)
	for i := 0; i < len(added); i += 2 {
		e.add(at, at, pad+added[i].Value+":"+e.endBefore(at)+e.under(n, added[i+1], step, at))
	}
}

func (e *edits) flowKeys(n *yaml.Node, added []*yaml.Node) {
	at, _ := e.content(n)
	at += len("{")
	between := ""
	if was := e.children[n]; len(was) > 0 {
		at, between = e.end(was[len(was)-1]), ", "
	}
	for i := 0; i < len(added); i += 2 {
		e.add(at, at, between+added[i].Value+": "+flow(added[i+1]))
		between = ", "
	}
}

// list writes the new items of a list that was not empty, each in the place of one that goes if there is one, and removes what else goes.
func (e *edits) list(n *yaml.Node, step int) {
	was, next := e.children[n], 0
	stays := make([]bool, len(was))
	for i, item := range was {
		stays[i] = slices.Contains(n.Content, item)
	}
	for _, item := range n.Content {
		if i := slices.Index(was, item); i >= 0 {
			next = i + 1
			continue
		}
		if next < len(was) && !stays[next] {
			from, to := e.item(n, next)
			e.add(from, to, e.asItem(n, item, step, from))
			stays[next] = true
			next++
			continue
		}
		e.insert(n, next, item, step)
	}
	for i := range was {
		from, to := e.item(n, i)
		switch {
		case stays[i]:
		case !inFlow(n):
			e.add(from, to, "")
		case slices.Contains(stays[i:], true):
			e.add(from, e.start(was[i+1]), "")
		default:
			e.add(e.end(was[i-1]), to, "")
		}
	}
}

// insert writes an item of a list before the one that is the next.
func (e *edits) insert(n *yaml.Node, next int, item *yaml.Node, step int) {
	first, _ := e.item(n, 0)
	_, after := e.item(n, max(next-1, 0))
	switch {
	case next > 0 && inFlow(n):
		e.add(after, after, ", "+flow(item))
	case next > 0:
		e.add(after, after, e.asItem(n, item, step, after))
	case inFlow(n):
		e.add(first, first, flow(item)+", ")
	default:
		first = e.aboveComments(first, 0)
		e.add(first, first, e.asItem(n, item, step, first))
	}
}

// item is the place of an item that a list had: its lines, or in a flow list its text.
func (e *edits) item(n *yaml.Node, i int) (from, to int) {
	item := e.children[n][i]
	if inFlow(n) {
		return e.start(item), e.end(item)
	}
	_, line := e.dash(item)
	return line, e.nextLine(e.end(item))
}

// asItem is an item as a list has them, at a place.
func (e *edits) asItem(n, item *yaml.Node, step, at int) string {
	if inFlow(n) {
		return flow(item)
	}
	dash, line := e.dash(e.children[n][0])
	return e.lines([]*yaml.Node{item}, dash-line, step, at)
}

// under is a list in lines below its key in a mapping, at a place.
func (e *edits) under(mapping, n *yaml.Node, step, at int) string {
	return e.lines(n.Content, e.children[mapping][0].Column-1+step, step, at)
}

// lines are the items of a list, with the ends that lines have at a place.
func (e *edits) lines(items []*yaml.Node, indent, step, at int) string {
	end, pad := e.endBefore(at), strings.Repeat(" ", indent)
	text := encode(&yaml.Node{Kind: yaml.SequenceNode, Content: items}, step == 0)
	return pad + strings.ReplaceAll(text, "\n", end+pad) + end
}

// flow is a node in one line.
func flow(n *yaml.Node) string {
	return encode(&yaml.Node{Kind: n.Kind, Style: yaml.FlowStyle, Content: n.Content}, true)
}
