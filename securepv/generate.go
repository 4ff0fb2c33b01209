package securepv

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
)

// PublishedImage is the image that this release's initializers have, with its digest; "" where none
// was published with it. The linker sets it.
var PublishedImage string

// Options are what the flags of strongroom generate say.
type Options struct {
	Image           string        // of the initializer
	Coordinator     string        // host name; "" is coordinator-ready in the workload's namespace
	Secret          *Secret       // which has the workloads' secret
	Barbican        *Barbican     // which has it; of neither: the coordinator gives it
	Format          string        // which volumes are formatted, "never" for none; "" is what the image says
	KDF             string        // of those that are; "" is what the image says
	StartupTime     time.Duration // after which an initializer that has not opened its volumes is started again; 0 is an hour
	SkipInitializer bool          // change nothing (PV-09)
}

// Secret is a key of a Kubernetes Secret, in the workload's namespace.
type Secret struct{ Name, Key string }

// ParseSecret reads "name/key". A key alone is not taken for a Secret that has no name.
func ParseSecret(text string) (Secret, error) {
	name, key, found := strings.Cut(text, "/")
	if !found || !secretName.MatchString(name) || len(name) > 253 || !secretKey.MatchString(key) || len(key) > 253 {
		return Secret{}, fmt.Errorf("%q: say which Secret and which of its keys, as shop/seed", text)
	}
	return Secret{name, key}, nil
}

// As Kubernetes lets them be.
var (
	secretName = regexp.MustCompile(`\A[a-z0-9]([-a-z0-9.]*[a-z0-9])?\z`)
	secretKey  = regexp.MustCompile(`\A[-._a-zA-Z0-9]+\z`)
)

// Barbican is a secret of OpenStack's key manager, and what reads it.
type Barbican struct {
	Secret uuid.UUID
	Clouds string // the Kubernetes Secret with clouds.yaml, in the workload's namespace
	Cloud  string // which of them; "" is the initializer's default
}

// ParseBarbican reads a secret's id and a Secret's name.
func ParseBarbican(secret, clouds, cloud string) (Barbican, error) {
	id, err := uuid.Parse(secret)
	switch {
	case err != nil:
		return Barbican{}, fmt.Errorf("%q: say the id of a secret of Barbican, which is the end of its address", secret)
	case !secretName.MatchString(clouds) || len(clouds) > 253:
		return Barbican{}, fmt.Errorf("%q: say which Kubernetes Secret has clouds.yaml", clouds)
	}
	return Barbican{id, clouds, cloud}, nil
}

// File is one input: what it is called in messages, and its text.
type File struct {
	Name string
	Text []byte
}

// Result is what Generate makes of a file.
type Result struct {
	Text     []byte
	Warnings []string
}

// Generate injects the initializer into all workloads of some files, which may name each other's
// PersistentVolumeClaims. A document that has none is not touched, nor is one that has its
// initializer already: generating twice gives the same text. All that is wrong is told at once, each
// a *Problem; then there are no results.
func Generate(files []File, o Options) ([]Result, error) {
	parsed, problems := make([][]*document, len(files)), []error(nil)
	for i, f := range files {
		docs, err := parse(f)
		parsed[i], problems = docs, append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	claims := claimsOf(parsed)
	results := make([]Result, len(files))
	for i := range files {
		for _, d := range parsed[i] {
			var err error
			if !o.SkipInitializer {
				results[i].Warnings, err = d.generate(o, claims, results[i].Warnings)
			}
			results[i].Text = slices.Concat(results[i].Text, d.separator, d.text)
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return results, nil
}

// Problem says what is wrong with which object. Its text goes to users.
type Problem struct {
	File       string
	Document   int // from 1
	Kind, Name string
	Err        error
}

func (p *Problem) Error() string {
	where := fmt.Sprintf("%s: document %d", p.File, p.Document)
	if p.Kind != "" {
		where += fmt.Sprintf(", %s %q", p.Kind, p.Name)
	}
	return where + ": " + p.Err.Error()
}

func (p *Problem) Unwrap() error { return p.Err }

// document is one of a file's, with the line that separates it from the one before.
type document struct {
	file      string
	number    int
	before    int // how many lines the file has before its text
	separator []byte
	text      []byte
	root      *yaml.Node // nil where there is nothing but comments
	json      bool       // it is JSON, and stays that
}

// separator is a line that begins a document. No text of a document can look like it.
var separator = regexp.MustCompile(`(?m)^---[ \t]*(?:#.*)?\r?(?:\n|\z)`)

// parse splits a file, so that what is not changed stays as it is to the byte.
func parse(f File) (docs []*document, err error) {
	text, from, line, lines := f.Text, 0, []byte(nil), 0
	var problems []error
	add := func(body []byte) {
		if line == nil && len(body) == 0 {
			return // nothing before the first separator
		}
		d := &document{file: f.Name, number: len(docs) + 1, before: lines, separator: line, text: body}
		problems = append(problems, d.parse())
		docs = append(docs, d)
	}
	for _, at := range separator.FindAllIndex(text, -1) {
		add(text[from:at[0]])
		lines += bytes.Count(text[from:at[1]], []byte("\n"))
		line, from = text[at[0]:at[1]], at[1]
	}
	add(text[from:])
	return docs, errors.Join(problems...)
}

func (d *document) parse() (err error) {
	if isJSON(d.text) {
		d.json = true
		if d.root, err = fromJSON(d.text); err != nil {
			return d.problem(object{}, err)
		}
		return nil
	}
	if d.root, err = fromYAML(d.text); err != nil {
		return d.problem(object{}, err)
	}
	return nil
}

// fromYAML reads a document, nil where there is nothing but comments.
func fromYAML(text []byte) (*yaml.Node, error) {
	root, decoder := new(yaml.Node), yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(root); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("another document begins in it: put a line of '---' and nothing else before each")
	}
	return root, noKeyTwice(root)
}

func (d *document) problem(o object, err error) error {
	return &Problem{File: d.file, Document: d.number, Kind: o.kind, Name: text(followed(o.node, "metadata"), "name"), Err: err}
}

// object is one of Kubernetes, or a list of them.
type object struct {
	node        *yaml.Node
	kind, group string
	isList      bool
}

// objects are the document's object, and if that is a list, those in it.
func (d *document) objects() ([]object, error) {
	if d.root == nil || len(d.root.Content) == 0 {
		return nil, nil
	}
	return d.objectsIn(d.root.Content[0], "", "")
}

// objectsIn gives an object, and if that is a list, those in it, in however many lists. What does not say of which kind it is, is of the kind that its
// list is of, as in a PodList (K9).
func (d *document) objectsIn(node *yaml.Node, kind, group string) ([]object, error) {
	o := object{node: node, kind: cmp.Or(text(node, "kind"), kind), group: group}
	if field(node, "apiVersion") != nil {
		o.group = groupOf(node)
	}
	of, isList := strings.CutSuffix(o.kind, "List")
	if !isList || of != "" && !hasObjects(node) {
		return []object{o}, nil
	}
	items, err := list(node, "items")
	if err != nil {
		return nil, d.problem(o, err)
	}
	o.isList = true
	all := []object{o}
	for _, item := range items {
		in, err := d.objectsIn(item, of, o.group)
		if err != nil {
			return nil, err
		}
		all = append(all, in...)
	}
	return all, nil
}

// hasObjects reports whether an object of a kind like PodList has objects as its items. Others have such names, too.
func hasObjects(node *yaml.Node) bool {
	items := followed(node, "items")
	return items != nil && items.Kind == yaml.SequenceNode && len(items.Content) > 0 &&
		!slices.ContainsFunc(items.Content, func(item *yaml.Node) bool { return item.Kind != yaml.MappingNode })
}

// generate changes the document's workloads and adds to the warnings.
func (d *document) generate(o Options, claims claims, warnings []string) ([]string, error) {
	objects, err := d.objects()
	if err != nil || len(objects) == 0 {
		return warnings, err
	}
	was := newSource(d.text, d.root)
	var problems []error
	for _, one := range objects {
		w := asWorkload(one)
		if err := one.checkAnnotations(w); err != nil {
			problems = append(problems, d.problem(one, err))
			continue
		}
		if w == nil {
			continue
		}
		told, err := w.inject(o, claims)
		for _, t := range told {
			warnings = append(warnings, d.problem(one, errors.New(t)).Error())
		}
		if err != nil {
			problems = append(problems, d.problem(one, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return warnings, err
	}
	if err := d.write(was); err != nil {
		return warnings, d.problem(object{}, err)
	}
	return warnings, nil
}

// write changes the document's text to what its nodes say now.
func (d *document) write(was source) (err error) {
	switch {
	case !was.changed(d.root):
	case d.json:
		d.text, err = toJSON(d.root, d.text)
	default:
		d.text, err = was.rewrite(d.root, d.before)
	}
	return err
}

// claims are the PersistentVolumeClaims of all files, by namespace and name.
type claims map[string]*yaml.Node

func claimsOf(files [][]*document) claims {
	out := claims{}
	for _, docs := range files {
		for _, d := range docs {
			objects, err := d.objects()
			if err != nil {
				continue // told when the document's turn comes
			}
			for _, o := range objects {
				if o.kind != "PersistentVolumeClaim" || o.group != "" {
					continue
				}
				meta, err := child(o.node, "metadata")
				if err != nil {
					continue
				}
				w := workload{metadata: []*yaml.Node{meta}}
				out[w.namespace()+"/"+text(meta, "name")] = o.node
			}
		}
	}
	return out
}
