package origin

import (
	"iter"
	"slices"
	"strings"
)

// elements gives the elements of Forwarded (RFC 7239), the last first. Each proxy appends
// its own, so they are read from the end: what a client wrote before changes none of them,
// not even with a quotation mark that it left open.
func elements(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, rest := range slices.Backward(values) {
			for more := true; more; {
				var element string
				if rest, element, more = cutLast(rest); !yield(element) {
					return
				}
			}
		}
	}
}

// cutLast cuts the last element off a header's value.
func cutLast(value string) (rest, element string, more bool) {
	quoted := false
	for i := len(value) - 1; i >= 0; i-- {
		switch {
		case value[i] == '"' && !(quoted && isEscaped(value, i)):
			quoted = !quoted
		case value[i] == ',' && !quoted:
			return value[:i], value[i+1:], true
		}
	}
	return "", value, false
}

// isEscaped reports whether the character at i in a quoted string has a backslash of its own.
func isEscaped(value string, i int) bool {
	return (i-len(strings.TrimRight(value[:i], `\`)))%2 == 1
}

// parameters reads an element: names in lower case, values without quotation marks. One that
// cannot be read, or has a parameter twice, says nothing.
func parameters(element string) map[string]string {
	out := map[string]string{}
	for rest := strings.TrimSpace(element); rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := out[name]; !ok || twice {
			return nil
		}
		if out[name], rest, ok = cutValue(after); !ok {
			return nil
		}
	}
	return out
}

// cutValue cuts the value of a parameter off, with the semicolon after it.
func cutValue(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		value, rest, _ = strings.Cut(text, ";")
		return strings.TrimSpace(value), strings.TrimSpace(rest), !strings.Contains(value, `"`)
	}
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			rest = strings.TrimSpace(text[i+1:])
			after, more := strings.CutPrefix(rest, ";")
			return out.String(), strings.TrimSpace(after), more || rest == ""
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		_ = out.WriteByte(text[i])
	}
	return "", "", false
}
