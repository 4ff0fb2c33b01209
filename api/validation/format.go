package validation

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"strongroom/compute"
)

// nameError is a broken rule about names. Its text is the whole message.
type nameError struct{ reason string }

func (e *nameError) Error() string {
	return "An invalid 'name' value was provided. The name must be: " + e.reason
}

var errFormat = errors.New("not of the format")

// formats are the compute API's formats.
var formats = []*jsonschema.Format{
	text("uuid", func(s string) error { _, err := uuid.Parse(s); return err }),
	text("base64", func(s string) error { _, err := compute.DecodeBase64(s); return err }),
	text("date-time", func(s string) error { _, err := ParseTime(s); return err }),
	text("ipv4", func(s string) error { return address(s, netip.Addr.Is4) }),
	text("ipv6", func(s string) error { return address(s, netip.Addr.Is6) }),
	text("regex", func(s string) error { _, err := regexp.Compile(s); return err }),
	text("name", func(s string) error {
		if !printable(s, "") || s != strings.TrimFunc(s, space) {
			return &nameError{"printable characters. Can not start or end with whitespace."}
		}
		return nil
	}),
	text("name_with_spaces", func(s string) error {
		if !printable(s, "") || strings.TrimFunc(s, space) == "" {
			return &nameError{"printable characters with at least one non space character"}
		}
		return nil
	}),
	text("az_name", func(s string) error {
		if !printable(s, "") || s != strings.TrimFunc(s, space) || strings.Contains(s, ":") {
			return &nameError{"printable characters except :. Can not start or end with whitespace."}
		}
		return nil
	}),
	text("description", func(s string) error {
		if !printable(s, "\n\t\r") {
			return errFormat
		}
		return nil
	}),
	text("keypair_name_20", safeCharacters("_- "+alphanumeric)),
	text("keypair_name_292", safeCharacters("@._- "+alphanumeric)),
}

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func safeCharacters(safe string) func(string) error {
	return func(s string) error {
		if strings.Trim(s, safe) != "" || strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(safe, r) }) {
			return &nameError{"Only expected characters: [" + safe + "]"}
		}
		return nil
	}
}

// text makes a format that holds for strings only.
func text(name string, check func(string) error) *jsonschema.Format {
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		if s, ok := v.(string); ok {
			return check(s)
		}
		return nil
	}}
}

func printable(s, except string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) && !space(r) && !strings.ContainsRune(except, r)
	})
}

func space(r rune) bool { return unicode.Is(unicode.Zs, r) }

func address(s string, is func(netip.Addr) bool) error {
	a, err := netip.ParseAddr(s)
	if err != nil || !is(a) || a.Zone() != "" {
		return errFormat
	}
	return nil
}

// times are the forms of ISO 8601 that the compute API takes. A time without a
// zone is UTC.
var times = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02",
}

// ParseTime reads a time of a query string or body.
func ParseTime(s string) (time.Time, error) {
	for _, layout := range times {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errFormat
}

// pattern is a regular expression of a schema. Go's have no look-around, so the
// one that the compute API's schemas use, no space at either end, is its own flag.
type pattern struct {
	source string
	re     *regexp.Regexp
	trim   bool
}

func compilePattern(source string) (jsonschema.Regexp, error) {
	inner := strings.Replace(strings.Replace(source, "(?! )", "", 1), "(?<! )", "", 1)
	re, err := regexp.Compile(inner)
	if err != nil {
		return nil, err
	}
	return &pattern{source: source, re: re, trim: inner != source}, nil
}

func (p *pattern) MatchString(s string) bool {
	return p.re.MatchString(s) && (!p.trim || s == strings.Trim(s, " "))
}

func (p *pattern) String() string { return p.source }
