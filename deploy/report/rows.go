package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"strongroom/deploy/source"
)

const (
	module = "strongroom"    // the path of packages
	itself = "deploy/report" // whose tests are about rows, and show none

	endToEnd = module + "/integration"
)

// naming is where rows of the design documents are named: by a test, in its comment or
// its body, or else in a file, for the tests of that file.
type naming struct {
	rows  []string
	tests []test
}

// rowsNamed finds the rows that the tests below a folder name.
func rowsNamed(root string) (found []naming, err error) {
	err = source.GoFiles(root, func(name string, text []byte) error {
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil || folder == itself || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		more, err := namedIn(path.Join(module, folder), string(text))
		found = append(found, more...)
		return err
	})
	return found, err
}

// namedIn finds the rows that one file of a package names.
func namedIn(pkg, text string) (found []naming, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []test
	rest, end := "", 0
	for _, d := range file.Decls {
		f := source.Test(d)
		if f == nil {
			continue
		}
		begin := f.Pos()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		rest += text[end:files.Position(begin).Offset]
		end = files.Position(f.End()).Offset
		all = append(all, test{pkg, f.Name.Name})
		found = append(found, naming{rowsIn(text[files.Position(begin).Offset:end]), all[len(all)-1:]})
	}
	return append(found, naming{rowsIn(rest + text[end:]), all}), nil
}

// row is one row, or from one to another.
var row = regexp.MustCompile(`\b(EE|TPM|SH|VT|PV)-(\d\d)\b(?:\s*(?://)?\s*…\s*(?://)?\s*(?:EE|TPM|SH|VT|PV)-(\d\d)\b)?`)

// rowsIn gives the rows that a text names.
func rowsIn(text string) (rows []string) {
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[2])
		to, err := strconv.Atoi(m[3])
		if err != nil {
			to = from
		}
		for n := from; n <= to; n++ {
			rows = append(rows, fmt.Sprintf("%s-%02d", m[1], n))
		}
	}
	return rows
}

// shown counts the rows that are named. missing are those whose tests ran and did not pass, and deep those of which no test ran.
func shown(named []naming, suites []suite) (all int, missing, deep []string) {
	rows, passed, ran := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range named {
		for _, r := range n.rows {
			rows[r] = true
			for _, t := range n.tests {
				for _, s := range suites {
					ended := s.ended[t]
					passed[r] = passed[r] || ended == "pass"
					ran[r] = ran[r] || ended == "pass" || ended == "fail"
				}
			}
		}
	}
	for _, r := range slices.Sorted(maps.Keys(rows)) {
		if !ran[r] {
			deep = append(deep, r)
		} else if !passed[r] {
			missing = append(missing, r)
		}
	}
	return len(rows), missing, deep
}
