package volume

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseSpecs reads the value of an extra_specs filter: an object that maps texts
// to texts or to null. Clients in Python send it as Python writes a dictionary,
// others as JSON; both are read.
func parseSpecs(text string) (map[string]*string, bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		return nil, false
	}
	var specs map[string]*string
	if json.Unmarshal([]byte(text), &specs) == nil {
		return specs, true
	}
	l := &literal{rest: text}
	specs, ok := l.dictionary()
	return specs, ok && l.rest == ""
}

// literal is what is left to read of a Python literal.
type literal struct{ rest string }

func (l *literal) dictionary() (map[string]*string, bool) {
	specs := map[string]*string{}
	if !l.accept("{") {
		return nil, false
	}
	for !l.accept("}") {
		key, ok := l.text()
		if !ok || !l.accept(":") {
			return nil, false
		}
		if l.accept("None") {
			specs[key] = nil
		} else if value, ok := l.text(); ok {
			specs[key] = &value
		} else {
			return nil, false
		}
		if !l.accept(",") {
			return specs, l.accept("}")
		}
	}
	return specs, true
}

// accept takes a token off, and the space around it.
func (l *literal) accept(token string) bool {
	l.rest = strings.TrimLeft(l.rest, " \t\r\n")
	rest, ok := strings.CutPrefix(l.rest, token)
	if ok {
		l.rest = strings.TrimLeft(rest, " \t\r\n")
	}
	return ok
}

// text takes a quoted text off.
func (l *literal) text() (string, bool) {
	l.accept("")                                                            // the space before it
	if strings.HasPrefix(l.rest, "u'") || strings.HasPrefix(l.rest, `u"`) { // as Python 2 writes it
		l.rest = l.rest[1:]
	}
	if len(l.rest) < 2 || (l.rest[0] != '\'' && l.rest[0] != '"') {
		return "", false
	}
	quote := l.rest[0]
	l.rest = l.rest[1:]
	var b strings.Builder
	for l.rest != "" {
		c := l.rest[0]
		switch {
		case c == quote:
			l.rest = l.rest[1:]
			return b.String(), true
		case c == '\\':
			if !l.escape(&b) {
				return "", false
			}
		case c == '\n':
			return "", false
		default:
			b.WriteByte(c)
			l.rest = l.rest[1:]
		}
	}
	return "", false
}

// simple are the escapes of one letter.
var simple = map[byte]string{
	'\\': `\`, '\'': `'`, '"': `"`, 'n': "\n", 'r': "\r", 't': "\t", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': "",
}

// digits is how many hexadecimal digits follow an escape.
var digits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// escape takes an escape off. One that Python does not know stands for itself.
func (l *literal) escape(b *strings.Builder) bool {
	if len(l.rest) < 2 {
		return false
	}
	letter := l.rest[1]
	l.rest = l.rest[2:]
	if plain, ok := simple[letter]; ok {
		b.WriteString(plain)
		return true
	}
	n, ok := digits[letter]
	if !ok {
		b.WriteByte('\\')
		b.WriteByte(letter)
		return true
	}
	if len(l.rest) < n {
		return false
	}
	code, err := strconv.ParseUint(l.rest[:n], 16, 32)
	if err != nil || code > utf8.MaxRune {
		return false
	}
	b.WriteRune(rune(code)) // half of a pair becomes the replacement character
	l.rest = l.rest[n:]
	return true
}
