package volume

import (
	"encoding/json"
	"slices"
	"strings"

	"strongroom/api/validation"
)

// Parameters of bodies.
var (
	nameSchema        = validation.Schema{"type": "string", "minLength": 1, "maxLength": 255, "format": "name_with_spaces"}
	descriptionSchema = validation.Schema{"type": []string{"string", "null"}, "maxLength": 255, "format": "description"}
	booleanSchema     = validation.Schema{"type": []string{"boolean", "string"}, "enum": booleans()}
	specValue         = validation.Schema{"type": []string{"string", "null"}, "maxLength": 255}
)

// specsSchema is an object of extra specs whose keys match a pattern. Those of a
// new type may hold spaces and slashes; those that a path names may not.
func specsSchema(pattern string) validation.Schema {
	return validation.Schema{
		"type": "object", "patternProperties": validation.Properties{pattern: specValue}, "additionalProperties": false,
	}
}

const (
	newTypeKeys = `^[a-zA-Z0-9-_:. /]{1,255}$`
	pathKeys    = `^[a-zA-Z0-9-_:.]{1,255}$`
)

var (
	yes = []string{"True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "y", "t"}
	no  = []string{"False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no", "n", "f"}
)

func booleans() []any {
	all := []any{true}
	for _, text := range yes {
		all = append(all, text)
	}
	all = append(all, false)
	for _, text := range no {
		all = append(all, text)
	}
	return all
}

// boolean reads a boolean of a query string, in any case.
func boolean(text string) (value, ok bool) {
	text = strings.ToLower(text)
	return slices.Contains(yes, text), slices.Contains(yes, text) || slices.Contains(no, text)
}

// flag is a boolean that a body may hold as one of several texts.
type flag bool

// UnmarshalJSON reads true, "yes", "1" and the others of booleanSchema.
func (f *flag) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*f = flag(slices.Contains(yes, s))
		return nil
	}
	return json.Unmarshal(text, (*bool)(f))
}

// specs are extra specs. A value may be null.
type specs map[string]*string

// exclusive reports whether the specs ask for two things that no volume can be at
// once: attached to several servers, and cached by one host.
func (s specs) exclusive() bool { return s.true("multiattach") && s.true("cacheable") }

// true reports whether a spec says "<is> True".
func (s specs) true(key string) bool {
	value := s[key]
	return value != nil && strings.EqualFold(strings.Join(strings.Fields(*value), " "), "<is> true")
}
