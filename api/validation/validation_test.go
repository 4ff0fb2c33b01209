package validation_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/microversion"
	"strongroom/api/validation"
)

var body = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"name":     validation.Name,
		"size":     {"type": []string{"integer", "string"}, "pattern": "^[0-9]+$", "minimum": 1, "maximum": 100},
		"factor":   {"type": []string{"number", "string"}, "pattern": `^[0-9]+(\.[0-9]+)?$`, "minimum": 0, "exclusiveMinimum": true},
		"public":   validation.BooleanOrText,
		"uuid":     validation.UUID,
		"id":       {"type": []string{"string", "null"}, "minLength": 1, "maxLength": 8, "pattern": "^(?! )[a-z ]+(?<! )$"},
		"metadata": validation.Metadata(),
		"list":     {"type": "array", "items": validation.Text, "maxItems": 2, "uniqueItems": true},
		"key":      {"type": "string", "format": "keypair_name_20"},
		"networks": {"anyOf": []validation.Schema{validation.Enum("none", "auto"), {"type": "array", "items": validation.Object(nil, validation.Properties{"uuid": validation.UUID})}}},
	}
	if v >= 10 {
		p["description"] = validation.Description
	}
	return validation.Object([]string{"thing"}, validation.Properties{"thing": validation.Object([]string{"name"}, p)})
}, 1, 10)

func TestBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version microversion.Version
		body    string
		want    string
	}{
		{"minimal", 1, `{"thing":{"name":"a"}}`, ""},
		{"everything", 10, `{"thing":{"name":"a b","size":"7","factor":"1.5","public":"yes","uuid":"d0c1b5a0-8e2f-4b9c-9d56-0a4f5b1c2d3e","metadata":{"k":"v"},
			"list":["a"],"id":"a b","key":"a-b_c d","networks":[{"uuid":"d0c1b5a0-8e2f-4b9c-9d56-0a4f5b1c2d3e"}],"description":"one\ntwo"}}`, ""},
		{"nothing", 1, `{}`, "'thing' is a required property"},
		{"no object", 1, `[]`, "[] is not of type 'object'"},
		{"no name", 1, `{"thing":{}}`, "Invalid input for field/attribute thing. Value: {}. 'name' is a required property"},
		{"unknown key", 1, `{"thing":{"name":"a"},"x":1}`, "Additional properties are not allowed ('x' was unexpected)"},
		{"unknown keys", 1, `{"thing":{"name":"a","y":1,"x":1}}`,
			"Invalid input for field/attribute thing. Value: {'name': 'a', 'x': 1, 'y': 1}. Additional properties are not allowed ('x', 'y' were unexpected)"},
		{"key of a later version", 9, `{"thing":{"name":"a","description":null}}`,
			"Invalid input for field/attribute thing. Value: {'description': None, 'name': 'a'}. Additional properties are not allowed ('description' was unexpected)"},
		{"wrong type", 1, `{"thing":{"name":1}}`, "Invalid input for field/attribute name. Value: 1. 1 is not of type 'string'"},
		{"wrong types", 1, `{"thing":{"name":"a","size":{"a":[true,null,"x"]}}}`,
			"Invalid input for field/attribute size. Value: {'a': [True, None, 'x']}. {'a': [True, None, 'x']} is not of type 'integer', 'string'"},
		{"too short", 1, `{"thing":{"name":""}}`, "Invalid input for field/attribute name. Value: . '' is too short"},
		{"leading space", 1, `{"thing":{"name":" a"}}`,
			"An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."},
		{"control character", 1, `{"thing":{"name":"a\u0007"}}`,
			"An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."},
		{"unsafe key name", 1, `{"thing":{"name":"a","key":"a@b"}}`,
			"An invalid 'name' value was provided. The name must be: Only expected characters: [_- 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ]"},
		{"below the minimum", 1, `{"thing":{"name":"a","size":0}}`, "Invalid input for field/attribute size. Value: 0. 0 is less than the minimum of 1"},
		{"text below the minimum", 1, `{"thing":{"name":"a","size":"0"}}`, "Invalid input for field/attribute size. Value: 0. 0 is less than the minimum of 1"},
		{"text above the maximum", 1, `{"thing":{"name":"a","size":"101"}}`, "Invalid input for field/attribute size. Value: 101. 101 is greater than the maximum of 100"},
		{"not a number", 1, `{"thing":{"name":"a","size":"x"}}`, "Invalid input for field/attribute size. Value: x. 'x' does not match '^[0-9]+$'"},
		{"exclusive minimum", 1, `{"thing":{"name":"a","factor":0}}`, "Invalid input for field/attribute factor. Value: 0. 0 is less than or equal to the minimum of 0"},
		{"text at the exclusive minimum", 1, `{"thing":{"name":"a","factor":"0.0"}}`,
			"Invalid input for field/attribute factor. Value: 0.0. 0 is less than or equal to the minimum of 0"},
		{"look-around", 1, `{"thing":{"name":"a","id":" a"}}`, "Invalid input for field/attribute id. Value:  a. ' a' does not match '^(?! )[a-z ]+(?<! )$'"},
		{"uuid", 1, `{"thing":{"name":"a","uuid":"x'y"}}`, `Invalid input for field/attribute uuid. Value: x'y. "x'y" is not a 'uuid'`},
		{"not unique", 1, `{"thing":{"name":"a","list":["a","a"]}}`, "Invalid input for field/attribute list. Value: ['a', 'a']. ['a', 'a'] has non-unique elements"},
		{"item", 1, `{"thing":{"name":"a","list":[1]}}`, "Invalid input for field/attribute 0. Value: 1. 1 is not of type 'string'"},
		{"too many", 1, `{"thing":{"name":"a","list":["a","b","c"]}}`, "Invalid input for field/attribute list. Value: ['a', 'b', 'c']. ['a', 'b', 'c'] is too long"},
		{"metadata key", 1, `{"thing":{"name":"a","metadata":{"a/b":"c"}}}`,
			"Invalid input for field/attribute metadata. Value: {'a/b': 'c'}. 'a/b' does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'"},
		{"choice", 1, `{"thing":{"name":"a","networks":"x"}}`,
			"Invalid input for field/attribute networks. Value: x. 'x' is not valid under any of the given schemas"},
		{"farthest of a choice", 1, `{"thing":{"name":"a","networks":[{"uuid":"x"}]}}`, "Invalid input for field/attribute uuid. Value: x. 'x' is not a 'uuid'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			document, err := validation.Parse([]byte(c.body))
			require.NoError(t, err)
			err = body.Body(document, c.version, false)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}

func TestBodyEnum(t *testing.T) {
	t.Parallel()
	document, err := validation.Parse([]byte(`{"thing":{"name":"a","public":"perhaps"}}`))
	require.NoError(t, err)
	require.EqualError(t, body.Body(document, 1, false), "Invalid input for field/attribute public. Value: perhaps. 'perhaps' is not one of "+
		"[True, 'True', 'TRUE', 'true', '1', 'ON', 'On', 'on', 'YES', 'Yes', 'yes', False, 'False', 'FALSE', 'false', '0', 'OFF', 'Off', 'off', 'NO', 'No', 'no']")
}

func TestLenientBody(t *testing.T) {
	t.Parallel()
	document, err := validation.Parse([]byte(`{"thing":{"name":"a","x":{"y":1}},"z":1}`))
	require.NoError(t, err)
	require.NoError(t, body.Body(document, 1, true))
	require.Equal(t, map[string]any{"thing": map[string]any{"name": "a"}}, document)

	document, err = validation.Parse([]byte(`{"thing":{"x":1}}`))
	require.NoError(t, err)
	require.EqualError(t, body.Body(document, 1, true), "Invalid input for field/attribute thing. Value: {}. 'name' is a required property")
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", `{"a":1}x`, "nonsense", "1e400", `{"a":[-1e999999999]}`, strings.Repeat("[", 65) + strings.Repeat("]", 65),
	} {
		_, err := validation.Parse([]byte(text))
		require.EqualError(t, err, "Malformed request body", text)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	query := validation.Since(func(v microversion.Version) validation.Schema {
		p := validation.Properties{"limit": validation.Repeated(validation.NonNegative), "marker": validation.Single(validation.Text)}
		if v >= 75 {
			return validation.Object(nil, p)
		}
		return validation.Open(p)
	}, 1, 75)
	for _, c := range []struct {
		name    string
		version microversion.Version
		query   string
		want    string
	}{
		{"none", 1, "", ""},
		{"limit", 75, "limit=10&limit=20&marker=x", ""},
		{"negative", 1, "limit=-1", "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'"},
		{"empty", 1, "limit=", "Invalid input for query parameters limit. Value: . '' is too short"},
		{"text", 1, "limit=a", "Invalid input for query parameters limit. Value: a. 'a' does not match '^[0-9]*$'"},
		{"twice", 1, "marker=a&marker=b", "Invalid input for query parameters marker. Value: ['a', 'b']. ['a', 'b'] is too long"},
		{"unknown, before", 74, "foo=1", ""},
		{"unknown, after", 75, "foo=1", "Additional properties are not allowed ('foo' was unexpected)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q, err := url.ParseQuery(c.query)
			require.NoError(t, err)
			if err := query.Query(q, c.version); c.want != "" {
				require.EqualError(t, err, c.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
