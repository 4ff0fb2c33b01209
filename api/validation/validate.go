package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"strongroom/api/fault"
	"strongroom/api/microversion"
)

// The bounds of a JSON document: what passes them costs more to look at than any
// real request is worth.
const (
	maxDepth  = 64
	maxDigits = 400
)

// Parse reads a JSON document, numbers kept as they are written.
func Parse(body []byte) (any, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil || !sane(document, maxDepth) {
		return nil, fault.BadRequest("Malformed request body")
	}
	return document, nil
}

// Decode reads a document that Parse gave into a value. The error is a 400.
func Decode(document, into any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fault.BadRequest("Malformed request body")
	}
	return nil
}

// sane reports whether a document is no deeper than depth and all its numbers
// can be looked at.
func sane(document any, depth int) bool {
	if depth == 0 {
		return false
	}
	switch v := document.(type) {
	case map[string]any:
		for _, item := range v {
			if !sane(item, depth-1) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !sane(item, depth-1) {
				return false
			}
		}
	case json.Number:
		return saneNumber(v)
	}
	return true
}

// saneNumber reports whether a number is finite and can be compared. An exponent far below
// zero is no infinity, but the schema's validator writes its number out, or finds none.
func saneNumber(n json.Number) bool {
	if len(n) > maxDigits {
		return false
	}
	if _, text, found := strings.Cut(strings.ToLower(n.String()), "e"); found {
		exponent, err := strconv.Atoi(text)
		if err != nil || exponent < -maxDigits || exponent > maxDigits {
			return false
		}
	}
	_, err := n.Float64()
	return err == nil
}

// Body checks a parsed body. With lenient, as at the /v2 endpoint, unknown keys
// are removed from it instead of refused. The error is a 400.
func (v Versions) Body(document any, version microversion.Version, lenient bool) error {
	c := v.at(version)
	if c == nil {
		return nil
	}
	failed, err := c.check(document)
	if failed == nil {
		return err
	}
	if lenient {
		for removeUnknown(document, failed) {
			if failed, err = c.check(document); failed == nil {
				return err
			}
		}
	}
	worst := c.worst(failed.Causes)
	if named := worst.name(); named != "" {
		return fault.BadRequest("%s", named)
	}
	message := c.message(worst, document)
	path := worst.InstanceLocation
	if len(path) == 0 {
		return fault.BadRequest("%s", message)
	}
	return fault.BadRequest("Invalid input for field/attribute %s. Value: %s. %s",
		path[len(path)-1], plain(lookup(document, path)), message)
}

// Query checks a query string. Parameters that the schema does not know are
// removed where it leaves room for them. The error is a 400.
func (v Versions) Query(q url.Values, version microversion.Version) error {
	c := v.at(version)
	if c == nil {
		return nil
	}
	document := map[string]any{}
	for name, values := range q {
		items := make([]any, len(values))
		for i, value := range values {
			items[i] = value
		}
		document[name] = items
	}
	failed, err := c.check(document)
	if failed == nil {
		return err
	}
	worst := c.worst(failed.Causes)
	message := c.message(worst, document)
	path := worst.InstanceLocation
	if len(path) == 0 {
		return fault.BadRequest("%s", message)
	}
	return fault.BadRequest("Invalid input for query parameters %s. Value: %s. %s", path[0], plain(lookup(document, path)), message)
}

func (c *compiled) check(document any) (*jsonschema.ValidationError, error) {
	err := c.schema.Validate(document)
	var failed *jsonschema.ValidationError
	if errors.As(err, &failed) {
		return failed, nil
	}
	return nil, err
}

// removeUnknown takes the keys that failed as unknown out of the document, and
// reports whether there were any.
func removeUnknown(document any, failed *jsonschema.ValidationError) bool {
	removed := false
	if unknown, ok := failed.ErrorKind.(*kind.AdditionalProperties); ok {
		if object, ok := lookup(document, failed.InstanceLocation).(map[string]any); ok {
			for _, name := range unknown.Properties {
				delete(object, name)
				removed = true
			}
		}
	}
	for _, cause := range failed.Causes {
		removed = removeUnknown(document, cause) || removed
	}
	return removed
}
