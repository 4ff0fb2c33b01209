package validation

// Parameters that several resources take.
var (
	Text          = Schema{"type": "string"}
	UUID          = Schema{"type": "string", "format": "uuid"}
	Name          = Schema{"type": "string", "minLength": 1, "maxLength": 255, "format": "name"}
	ZoneName      = Schema{"type": "string", "minLength": 1, "maxLength": 255, "format": "az_name"}
	NameOrSpaces  = Schema{"type": "string", "minLength": 1, "maxLength": 255, "format": "name_with_spaces"}
	Description   = Schema{"type": []string{"string", "null"}, "minLength": 0, "maxLength": 65535, "format": "description"}
	Hostname      = Schema{"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-._]*$"}
	DomainName    = Schema{"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-._]*$"}
	ProjectID     = Schema{"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]*$"}
	Null          = Schema{"type": "null"}
	NonNegative   = Schema{"type": []string{"integer", "string"}, "pattern": "^[0-9]*$", "minimum": 0, "minLength": 1}
	Positive      = Schema{"type": []string{"integer", "string"}, "pattern": "^[0-9]*$", "minimum": 1, "minLength": 1}
	DateTime      = Schema{"type": "string", "format": "date-time"}
	BooleanOrText = Schema{"type": []string{"boolean", "string"}, "enum": booleans}
)

var booleans = []any{
	true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
	false, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no",
}

// MaxInt is the largest number that the database's integers hold.
const MaxInt = 0x7FFFFFFF

// WholeNumber is a number of at least so much, or the text of one.
func WholeNumber(least int) Schema {
	return Schema{"type": []string{"integer", "string"}, "pattern": "^[0-9]+$", "minimum": least, "maximum": MaxInt, "minLength": 1}
}

// Enum is a text out of a list.
func Enum(values ...string) Schema { return Schema{"type": "string", "enum": values} }

// Repeated is a query parameter that may be given more than once.
func Repeated(s Schema) Schema { return Schema{"type": "array", "items": s} }

// Single is a query parameter that may be given once.
func Single(s Schema) Schema { return Schema{"type": "array", "items": s, "maxItems": 1} }

// Metadata is an object of short texts under short keys.
func Metadata(types ...string) Schema {
	if len(types) == 0 {
		types = []string{"string"}
	}
	return Schema{
		"type":                 "object",
		"patternProperties":    Properties{`^[a-zA-Z0-9-_:. ]{1,255}$`: {"type": types, "maxLength": 255}},
		"additionalProperties": false,
	}
}

// True reports whether a text means yes: the texts of BooleanOrText.
func True(text string) bool {
	switch text {
	case "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes":
		return true
	default:
		return false
	}
}
