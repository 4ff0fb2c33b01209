package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// output is how a command prints: a table for people, JSON for scripts.
type output struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"table or json."`
}

func (o output) print(value any, table func(*tabwriter.Writer)) error {
	if o.Output == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // "<is> True" stays readable
		return e.Encode(value)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	table(w)
	return w.Flush()
}

func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	_, _ = fmt.Fprintln(w, strings.Join(text, "\t"))
}
