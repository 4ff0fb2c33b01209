// Package answertest checks answers of the APIs against JSON schemas that name every key: one
// that is missing and one that is superfluous fail alike.
package answertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a JSON schema as Go writes it down; nil is that of an answer without a body.
type Schema map[string]any

// Keys are the keys of an object.
type Keys map[string]Schema

// Simple values.
var (
	Any     = Schema{}
	Text    = Schema{"type": "string"}
	Integer = Schema{"type": "integer"}
	Number  = Schema{"type": "number"}
	Boolean = Schema{"type": "boolean"}
	Null    = Schema{"type": "null"}
	UUID    = Pattern(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	Request = Pattern(`^req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	Seconds = Pattern(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	Micros  = Pattern(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$`) // without a zone
	Href    = Pattern(`^https?://[^/]+/`)
	Texts   = Map(Text) // such as metadata
	optKey  = "optional"
)

// Pattern is a text that matches.
func Pattern(p string) Schema { return Schema{"type": "string", "pattern": p} }

// Enum is one of some values.
func Enum(values ...any) Schema { return Schema{"enum": values} }

// OrNull is a value or null.
func OrNull(s Schema) Schema { return Schema{"anyOf": []Schema{s, Null}} }

// Either is one of several.
func Either(s ...Schema) Schema { return Schema{"anyOf": s} }

// List is an array of such items.
func List(item Schema) Schema { return Schema{"type": "array", "items": item} }

// Empty is an array without items.
var Empty = Schema{"type": "array", "maxItems": 0}

// Map is an object whose keys are free.
func Map(value Schema) Schema { return Schema{"type": "object", "additionalProperties": value} }

// Optional marks a key that an object has at times.
func Optional(s Schema) Schema {
	s = maps.Clone(s)
	s[optKey] = true
	return s
}

// Object is an object with exactly these keys.
func Object(k Keys) Schema {
	properties, required := map[string]any{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(k)) {
		s := maps.Clone(k[name])
		if s[optKey] == nil {
			required = append(required, name)
		}
		delete(s, optKey)
		properties[name] = s
	}
	return Schema{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// One is an object with one key.
func One(name string, s Schema) Schema { return Object(Keys{name: s}) }

// Links are links of these relations, in this order.
func Links(rels ...string) Schema {
	items := []Schema{}
	for _, rel := range rels {
		items = append(items, Object(Keys{"rel": Enum(rel), "href": Href}))
	}
	return Schema{"type": "array", "prefixItems": items, "minItems": len(rels), "maxItems": len(rels)}
}

// Check compares a body with a schema.
func (s Schema) Check(body []byte) error {
	if s == nil {
		if len(body) > 0 {
			return fmt.Errorf("there should be no body: %s", body)
		}
		return nil
	}
	compiled, err := s.compile()
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("no JSON: %w: %q", err, body)
	}
	if err := compiled.Validate(document); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	return nil
}

var known sync.Map // compiled schemas by their text

func (s Schema) compile() (*jsonschema.Schema, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if found, ok := known.Load(string(text)); ok {
		return found.(*jsonschema.Schema), nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("answer.json", document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("answer.json")
	if err == nil {
		known.Store(string(text), compiled)
	}
	return compiled, err
}

// faults are the names of faults; every other status is a computeFault.
var faults = map[int]string{
	400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod", 409: "conflictingRequest",
	413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented", 503: "serviceUnavailable",
}

// Fault checks a fault: its name, form and type. Those of who is not let in (401, and 503 where
// the identity service does not answer) have the form of keystonemiddleware.
func Fault(code int, header http.Header, body []byte) error {
	name, details := "computeFault", Keys{"code": Enum(code), "message": Text}
	if known, ok := faults[code]; ok {
		name = known
	}
	if code == http.StatusRequestEntityTooLarge || code == http.StatusTooManyRequests {
		details["retryAfter"] = Pattern(`^\d+$`)
		if _, err := strconv.Atoi(header.Get("Retry-After")); err != nil {
			return fmt.Errorf("header Retry-After %q", header.Get("Retry-After"))
		}
	}
	form := One(name, Object(details))
	refusal := One("error", Object(Keys{"code": Enum(code), "title": Enum(http.StatusText(code)), "message": Text}))
	switch code {
	case http.StatusUnauthorized:
		form = refusal
		if header.Get("WWW-Authenticate") == "" {
			return fmt.Errorf("no header WWW-Authenticate")
		}
	case http.StatusServiceUnavailable:
		form = Either(form, refusal)
	}
	return form.Check(body)
}

var requestID = regexp.MustCompile(Request["pattern"].(string))

// Headers checks what every answer has; version is what it says that was spoken, "" where
// versions are not spoken.
func Headers(header http.Header, version map[string]string) error {
	id := header.Get("x-openstack-request-id")
	if !requestID.MatchString(id) || header.Get("x-compute-request-id") != id {
		return fmt.Errorf("request ids %q and %q", id, header.Get("x-compute-request-id"))
	}
	for _, name := range []string{"OpenStack-API-Version", "X-OpenStack-Nova-API-Version", "Vary"} {
		if header.Get(name) != version[name] {
			return fmt.Errorf("header %s is %q, and should be %q", name, header.Get(name), version[name])
		}
	}
	return nil
}
