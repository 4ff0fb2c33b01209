package validation

import (
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// failure is one broken keyword.
type failure struct{ *jsonschema.ValidationError }

// worst picks the failure that is told: the one nearest to the root, and below
// a choice of schemas the one that got farthest. Ties go by place and keyword,
// so that the same request always gets the same text.
func (c *compiled) worst(causes []*jsonschema.ValidationError) failure {
	all := flatten(causes)
	slices.SortStableFunc(all, compare)
	chosen := all[0]
	for choice(chosen) && len(chosen.Causes) > 0 {
		inner := flatten(chosen.Causes)
		slices.SortStableFunc(inner, func(a, b failure) int { return -compare(a, b) })
		if len(inner) > 1 && depth(inner[0]) == depth(inner[1]) {
			break // nothing tells them apart: the choice itself is told
		}
		chosen = inner[0]
	}
	return chosen
}

func flatten(causes []*jsonschema.ValidationError) []failure {
	var all []failure
	for _, cause := range causes {
		switch cause.ErrorKind.(type) {
		case *kind.Group, *kind.Reference, *kind.AllOf, *kind.Schema:
			all = append(all, flatten(cause.Causes)...)
		case *kind.Required:
			for _, missing := range cause.ErrorKind.(*kind.Required).Missing {
				one := *cause
				one.ErrorKind = &kind.Required{Missing: []string{missing}}
				all = append(all, failure{&one})
			}
		default:
			all = append(all, failure{cause})
		}
	}
	return all
}

func choice(f failure) bool {
	switch f.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return true
	default:
		return false
	}
}

func depth(f failure) int { return len(f.InstanceLocation) }

func compare(a, b failure) int {
	if d := depth(a) - depth(b); d != 0 {
		return d
	}
	if choice(a) != choice(b) {
		if choice(a) {
			return 1
		}
		return -1
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(strings.Join(a.InstanceLocation, "/"), strings.Join(b.InstanceLocation, "/"))
}

// rank orders keywords at the same depth: what is not there comes before what
// should not be there.
func rank(f failure) int {
	order := []string{"type", "required", "additionalProperties", "enum", "minLength", "maxLength", "pattern", "format"}
	path := f.ErrorKind.KeywordPath()
	if len(path) == 0 {
		return len(order)
	}
	if at := slices.Index(order, path[0]); at >= 0 {
		return at
	}
	return len(order)
}

// name gives the whole text of a broken rule about names, or "".
func (f failure) name() string {
	if format, ok := f.ErrorKind.(*kind.Format); ok {
		var named *nameError
		if errors.As(format.Err, &named) {
			return named.Error()
		}
	}
	return ""
}

// message says what is wrong, as python-jsonschema says it.
func (c *compiled) message(f failure, document any) string {
	value := quote(lookup(document, f.InstanceLocation))
	switch k := f.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s is not of type %s", value, c.types(f.SchemaURL, k.Want))
	case *kind.Enum:
		return fmt.Sprintf("%s is not one of %s", value, quote(k.Want))
	case *kind.Const:
		return fmt.Sprintf("%s was expected", quote(k.Want))
	case *kind.Required:
		return fmt.Sprintf("%s is a required property", quoteText(k.Missing[0]))
	case *kind.AdditionalProperties:
		return c.unknown(f, k)
	case *kind.Format:
		return fmt.Sprintf("%s is not a %s", value, quoteText(k.Want))
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match %s", value, quoteText(k.Want))
	case *kind.MinLength, *kind.MinItems:
		return value + " is too short"
	case *kind.MaxLength, *kind.MaxItems:
		return value + " is too long"
	case *kind.UniqueItems:
		return value + " has non-unique elements"
	case *kind.MinProperties:
		return value + " does not have enough properties"
	case *kind.MaxProperties:
		return value + " has too many properties"
	case *kind.Minimum:
		return fmt.Sprintf("%s is less than the minimum of %s", number(k.Got), number(k.Want))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("%s is less than or equal to the minimum of %s", number(k.Got), number(k.Want))
	case *kind.Maximum:
		return fmt.Sprintf("%s is greater than the maximum of %s", number(k.Got), number(k.Want))
	case *kind.Not:
		return value + " should not be valid under the schema"
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return value + " is valid under more than one of the given schemas"
		}
		return value + " is not valid under any of the given schemas"
	case *kind.AnyOf:
		return value + " is not valid under any of the given schemas"
	default:
		return value + " is not valid"
	}
}

// unknown tells of keys that an object must not have. Where its keys are ruled
// by patterns, those are told.
func (c *compiled) unknown(f failure, k *kind.AdditionalProperties) string {
	keys := slices.Sorted(slices.Values(k.Properties))
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = quoteText(key)
	}
	list := strings.Join(quoted, ", ")
	if patterns := c.patterns(f.SchemaURL); len(patterns) > 0 {
		verb := "does"
		if len(keys) > 1 {
			verb = "do"
		}
		return fmt.Sprintf("%s %s not match any of the regexes: %s", list, verb, strings.Join(patterns, ", "))
	}
	verb := "was"
	if len(keys) > 1 {
		verb = "were"
	}
	return fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", list, verb)
}

// types lists the types of the schema at a location, in its own order.
func (c *compiled) types(at string, want []string) string {
	list, ok := c.schemaAt(at)["type"].([]any)
	if !ok {
		return quoteText(want[0])
	}
	quoted := make([]string, len(list))
	for i, t := range list {
		quoted[i] = quote(t)
	}
	return strings.Join(quoted, ", ")
}

// patterns gives the key patterns of the schema at a location.
func (c *compiled) patterns(at string) []string {
	patterns, _ := c.schemaAt(at)["patternProperties"].(map[string]any)
	var quoted []string
	for pattern := range patterns {
		quoted = append(quoted, quoteText(pattern))
	}
	slices.Sort(quoted)
	return quoted
}

// schemaAt gives the schema at a location, as it was written.
func (c *compiled) schemaAt(at string) map[string]any {
	_, pointer, _ := strings.Cut(at, "#")
	var path []string
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if plain, err := url.PathUnescape(part); err == nil && part != "" {
			path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(plain))
		}
	}
	object, _ := lookup(c.document, path).(map[string]any)
	return object
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// lookup follows a path of keys and indexes into a JSON document.
func lookup(document any, path []string) any {
	for _, step := range path {
		switch node := document.(type) {
		case map[string]any:
			document = node[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			document = node[i]
		default:
			return nil
		}
	}
	return document
}
