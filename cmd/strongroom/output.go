package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"sigs.k8s.io/yaml"
)

// output is how a command prints what it has: a table for people, the rest for scripts.
type output struct {
	Output    string   `short:"o" enum:"table,json,yaml,value" default:"table" help:"table, json, yaml, or value: the bare values, those of one row in one line."`
	Column    []string `short:"c" placeholder:"COLUMN" help:"Only this column of a list or field of a show; repeatable."`
	NoHeaders bool     `help:"A table without the line of its columns' names."`
}

// long is for lists that have more to tell.
type long struct {
	Long bool `help:"More columns."`
}

// sheet is a value as rows: those of a list, which has a header, or those of a show, each of which is a field's
// name and its value. Notes are for people alone.
type sheet struct {
	columns []string
	lines   []line
}

type line struct {
	cells []string
	note  bool
}

func (s *sheet) header(columns ...string) {
	s.columns = columns
	s.lines = append(s.lines, line{cells: columns, note: true})
}

func (s *sheet) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = printable(fmt.Sprint(c))
	}
	s.lines = append(s.lines, line{cells: text})
}

func (s *sheet) note(words ...string) { s.lines = append(s.lines, line{cells: words, note: true}) }

// printable keeps what others named from steering the terminal, and from looking like more rows than one.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// print prints a value: as it is, or the columns that were asked for.
func (o output) print(value any, fill func(*sheet)) error { return o.printTo(os.Stdout, value, fill) }

func (o output) printTo(w io.Writer, value any, fill func(*sheet)) error {
	var s sheet
	fill(&s)
	if err := o.check(s); err != nil {
		return err
	}
	switch o.Output {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // "<is> True" stays readable
		return e.Encode(o.chosen(value, s))
	case "yaml":
		text, err := yaml.Marshal(o.chosen(value, s))
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	case "value":
		return o.values(w, s)
	}
	return o.table(w, s)
}

// check refuses columns that are not there. A field of a show that this one does not have is no mistake where
// others of its kind have it, so that only lists are strict, and a show of which nothing would be left.
func (o output) check(s sheet) error {
	known := s.columns
	if known == nil {
		for _, l := range s.lines {
			if !l.note {
				known = append(known, l.cells[0])
			}
		}
	}
	for _, c := range o.Column {
		if len(known) > 0 && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, c) }) {
			return usage("there is no column %q: there are %s", c, strings.Join(lower(known), ", "))
		}
	}
	return nil
}

func lower(all []string) []string {
	var out []string
	for _, one := range all {
		if one = strings.ToLower(one); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

func (o output) wants(name string) bool {
	return len(o.Column) == 0 || slices.ContainsFunc(o.Column, func(c string) bool { return strings.EqualFold(c, name) })
}

// rows are the lines of a list with the columns that are wanted, in the order in which they were asked for.
func (o output) rows(s sheet) (columns []string, rows [][]string) {
	var at []int
	for i := range s.columns {
		if len(o.Column) == 0 {
			at = append(at, i)
		}
	}
	for _, c := range o.Column {
		at = append(at, slices.IndexFunc(s.columns, func(k string) bool { return strings.EqualFold(k, c) }))
	}
	pick := func(cells []string) (out []string) {
		for _, i := range at {
			if i >= 0 && i < len(cells) {
				out = append(out, cells[i])
			}
		}
		return out
	}
	for _, l := range s.lines {
		if !l.note {
			rows = append(rows, pick(l.cells))
		}
	}
	return pick(s.columns), rows
}

// chosen is the value that JSON and YAML show.
func (o output) chosen(value any, s sheet) any {
	if len(o.Column) == 0 {
		if list := reflect.ValueOf(value); list.Kind() == reflect.Slice && list.IsNil() {
			return []any{} // a list of nothing, and not null
		}
		return value
	}
	if s.columns == nil {
		fields := map[string]any{}
		for _, l := range s.lines {
			if l.note || !o.wants(l.cells[0]) {
				continue
			}
			name := strings.ToLower(l.cells[0])
			switch was := fields[name].(type) { // of a field that is there more than once, all
			case nil:
				fields[name] = l.cells[1]
			case []any:
				fields[name] = append(was, l.cells[1])
			default:
				fields[name] = []any{was, l.cells[1]}
			}
		}
		return fields
	}
	columns, rows := o.rows(s)
	out := []map[string]string{}
	for _, r := range rows {
		item := map[string]string{}
		for i, cell := range r {
			item[strings.ToLower(columns[i])] = cell
		}
		out = append(out, item)
	}
	return out
}

func (o output) values(w io.Writer, s sheet) error {
	if s.columns == nil {
		for _, l := range s.lines {
			if l.note || !o.wants(l.cells[0]) {
				continue
			}
			if _, err := fmt.Fprintln(w, strings.Join(l.cells[1:], " ")); err != nil {
				return err
			}
		}
		return nil
	}
	_, rows := o.rows(s)
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(r, " ")); err != nil {
			return err
		}
	}
	return nil
}

func (o output) table(out io.Writer, s sheet) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(o.Column) > 0 && s.columns != nil {
		columns, rows := o.rows(s)
		if !o.NoHeaders {
			rows = append([][]string{columns}, rows...)
		}
		for _, r := range rows {
			_, _ = fmt.Fprintln(w, strings.Join(r, "\t"))
		}
		return w.Flush()
	}
	for _, l := range s.lines {
		if l.note && (len(o.Column) > 0 || o.NoHeaders && slices.Equal(l.cells, s.columns)) || !l.note && s.columns == nil && !o.wants(l.cells[0]) {
			continue
		}
		_, _ = fmt.Fprintln(w, strings.Join(l.cells, "\t"))
	}
	return w.Flush()
}
