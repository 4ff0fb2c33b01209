// Package validation checks request bodies and query strings against JSON
// schemas, one for each range of microversions, and says what is wrong in the
// compute API's own words.
package validation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"strongroom/api/microversion"
)

// Schema is a JSON schema (draft 4) as Go writes it down.
type Schema map[string]any

// Properties are the properties of an object.
type Properties map[string]Schema

// Object is an object with these properties and no others.
func Object(required []string, p Properties) Schema {
	s := Schema{"type": "object", "properties": p, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// Open is an object that may have other properties too.
func Open(p Properties) Schema {
	return Schema{"type": "object", "properties": p, "additionalProperties": true}
}

// Versions is a schema over the range of microversions. The zero value accepts
// anything.
type Versions struct {
	since    []microversion.Version // ascending
	compiled map[microversion.Version]func() *compiled
}

type compiled struct {
	schema   *jsonschema.Schema
	document any // the schema as JSON
}

// Since gives what build gives at each version where its schema changes. The first is
// the lowest version that has a schema. A schema is compiled when it is used first, for most
// commands of this program use none; it panics on one that does not compile, which is a defect
// of this program.
func Since(build func(microversion.Version) Schema, versions ...microversion.Version) Versions {
	slices.Sort(versions)
	v := Versions{since: versions, compiled: map[microversion.Version]func() *compiled{}}
	for _, at := range versions {
		v.compiled[at] = sync.OnceValue(func() *compiled {
			c, err := compile(build(at))
			if err != nil {
				panic(fmt.Sprintf("validation: schema at %s: %v", at, err))
			}
			return c
		})
	}
	return v
}

// Always is a schema that is the same at every version.
func Always(s Schema) Versions {
	return Since(func(microversion.Version) Schema { return s }, microversion.Min)
}

// Defined reports whether there is a schema at all.
func (v Versions) Defined() bool { return len(v.since) > 0 }

// Document gives the JSON schema (draft 4) of a version as JSON has it, nil where there is none. Beside it, minimum
// and maximum hold for numbers in text.
func (v Versions) Document(version microversion.Version) any {
	if c := v.at(version); c != nil {
		return c.document
	}
	return nil
}

// at gives the schema of a version, or nil.
func (v Versions) at(version microversion.Version) *compiled {
	found := -1
	for i, since := range v.since {
		if since <= version {
			found = i
		}
	}
	if found < 0 {
		return nil
	}
	return v.compiled[v.since[found]]()
}

const location = "schema:///request"

func compile(s Schema) (*compiled, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4)
	c.AssertFormat()
	c.UseRegexpEngine(compilePattern)
	for _, f := range formats {
		c.RegisterFormat(f)
	}
	bounds, err := textBounds()
	if err != nil {
		return nil, err
	}
	c.RegisterVocabulary(bounds)
	c.AssertVocabs()
	if err := c.AddResource(location, document); err != nil {
		return nil, err
	}
	schema, err := c.Compile(location)
	if err != nil {
		return nil, err
	}
	return &compiled{schema: schema, document: document}, nil
}
