package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"strongroom/deploy/source"
)

// areasFile lists the areas, and says what their fields mean.
const areasFile = "integration/areas.yaml"

// area is a part of the deep tests.
type area struct {
	Name, About                                                 string
	Sources, Suites, Packages, Tests, Services, Installs, Tasks []string

	endToEnd []string // tests of the suites
	beside   []test   // single tests beside the code
	files    []string // of those
}

// readAreas reads the areas of the repository below a folder, and finds their tests.
func readAreas(root string) (areas []*area, err error) {
	file, err := os.Open(filepath.Join(root, areasFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&areas); err != nil {
		return nil, fmt.Errorf("%s: %w", areasFile, err)
	}
	if err := findTests(root, areas); err != nil {
		return nil, fmt.Errorf("%s: %w", areasFile, err)
	}
	return areas, nil
}

// findTests finds the tests that the areas name, and those that seed.Deep names with an area. It is an error if a suite of integration is not
// in one area, or if something that is named is not there.
func findTests(root string, areas []*area) error {
	byName, ofSuite := map[string]*area{}, map[string]*area{}
	wanted := map[test][]*area{} // beside the code
	var wrong []error
	for _, a := range areas {
		byName[a.Name] = a
		for _, suite := range a.Suites {
			if other := ofSuite[suite]; other != nil {
				wrong = append(wrong, fmt.Errorf("suite %s is in %s and in %s", suite, other.Name, a.Name))
			}
			ofSuite[suite] = a
		}
		for _, name := range a.Tests {
			at := strings.LastIndex(name, ".")
			one := test{path.Join(module, name[:max(at, 0)]), name[at+1:]}
			wanted[one] = append(wanted[one], a)
		}
	}
	found, suites := map[test]string{}, map[string]bool{} // tests with their files, suites
	err := source.GoFiles(root, func(name string, text []byte) error {
		name, err := filepath.Rel(root, name)
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		pkg := path.Join(module, path.Dir(name))
		tests, deep, err := testsIn(name, text)
		if err != nil {
			return err
		}
		for area, names := range deep {
			if byName[area] == nil {
				wrong = append(wrong, fmt.Errorf("%s: seed.Deep has the area %q, which is not there", name, area))
				continue
			}
			for _, one := range names {
				wanted[test{pkg, one}] = append(wanted[test{pkg, one}], byName[area])
			}
		}
		for _, one := range tests {
			found[test{pkg, one}] = name
		}
		if suite := strings.TrimSuffix(path.Base(name), "_test.go"); pkg == endToEnd && len(tests) > 0 {
			suites[suite] = true
			if a := ofSuite[suite]; a == nil {
				wrong = append(wrong, fmt.Errorf("suite %s is in no area", suite))
			} else {
				a.endToEnd = append(a.endToEnd, tests...)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for suite, a := range ofSuite {
		if !suites[suite] {
			wrong = append(wrong, fmt.Errorf("%s: there are no tests in integration/%s_test.go", a.Name, suite))
		}
	}
	for one, of := range wanted {
		for _, a := range of {
			if found[one] == "" {
				wrong = append(wrong, fmt.Errorf("%s: there is no test %s.%s", a.Name, one.pkg, one.name))
				continue
			}
			if slices.Contains(a.Packages, strings.TrimPrefix(one.pkg, module+"/")) {
				continue // all of its tests are run
			}
			a.beside = append(a.beside, one)
			a.files = append(a.files, found[one])
		}
	}
	for _, a := range areas {
		slices.Sort(a.endToEnd)
		slices.SortFunc(a.beside, compareTests)
		slices.Sort(a.files)
		a.files = slices.Compact(a.files)
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

// testsIn gives the tests of a file, and those that its calls of seed.Deep name, by area.
func testsIn(name string, text []byte) (tests []string, deep map[string][]string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range file.Decls {
		if f := source.Test(d); f != nil {
			tests = append(tests, f.Name.Name)
		}
	}
	deep = map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || types.ExprString(call.Fun) != "seed.Deep" {
			return true
		}
		of, _ := strconv.Unquote(types.ExprString(call.Args[0]))
		for _, argument := range call.Args[1:] {
			deep[of] = append(deep[of], types.ExprString(argument))
		}
		return true
	})
	return tests, deep, nil
}

// patterns are those of the files that the area is about: a path in which * stands for a part of a name, or a folder.
func (a *area) patterns() (patterns []string) {
	for _, pattern := range a.Sources {
		patterns = append(patterns, alternatives(pattern)...)
	}
	for _, suite := range a.Suites {
		patterns = append(patterns, "integration/"+suite+"_test.go")
	}
	return slices.Concat(patterns, a.Packages, a.files)
}

var braces = regexp.MustCompile(`^(.*)\{(.*)\}(.*)$`)

// alternatives writes a pattern with {a,b} as several.
func alternatives(pattern string) (all []string) {
	parts := braces.FindStringSubmatch(pattern)
	if parts == nil {
		return []string{pattern}
	}
	for one := range strings.SplitSeq(parts[2], ",") {
		all = append(all, parts[1]+one+parts[3])
	}
	return all
}

// hash is of the area's files as they are, and of what a run of it consists of.
func (a *area) hash(root string) (string, error) {
	out, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	files := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	slices.Sort(files)
	files = slices.Compact(files) // after a merge that is not done git has some several times
	sum := sha256.New()
	fmt.Fprintln(sum, a.jobs())
	for _, pattern := range a.patterns() {
		found := false
		for _, name := range files {
			matches, err := path.Match(pattern, name)
			if err != nil {
				return "", fmt.Errorf("%s: %s: %s: %w", areasFile, a.Name, pattern, err)
			}
			if !matches && !strings.HasPrefix(name, pattern+"/") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, name))
			if errors.Is(err, fs.ErrNotExist) { // deleted, and still in the index
				continue
			}
			if err != nil {
				return "", err
			}
			found = true
			fmt.Fprintf(sum, "%s %x\n", name, sha256.Sum256(text))
		}
		if !found {
			return "", fmt.Errorf("%s: %s: %s matches no file", areasFile, a.Name, pattern)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// changed are the area's files that differ from a commit, those that git does not know yet among them.
func (a *area) changed(root, commit string) ([]string, error) {
	paths := []string{"--"}
	for _, pattern := range a.patterns() {
		paths = append(paths, ":(top,glob)"+pattern)
	}
	differ, err := git(root, slices.Concat([]string{"diff", "--name-only", commit}, paths)...)
	if err != nil {
		return nil, err
	}
	added, err := git(root, slices.Concat([]string{"ls-files", "--others", "--exclude-standard"}, paths)...)
	return strings.Fields(differ + added), err
}

// git runs git in the repository, and returns what it prints.
func git(root string, arguments ...string) (string, error) {
	command := exec.Command("git", arguments...)
	command.Dir = root
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %s", arguments[0], strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}
