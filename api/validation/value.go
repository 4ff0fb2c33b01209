package validation

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Integer is an integer that a body may hold as a number or as a text.
type Integer int

// UnmarshalJSON reads 10 and "10".
func (i *Integer) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	if err != nil {
		// 10.0 is an integer to a JSON schema.
		f, floatErr := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
		if floatErr != nil || f != float64(int64(f)) {
			return err
		}
		n = int64(f)
	}
	*i = Integer(n)
	return nil
}

// Number is a number that a body may hold as a text.
type Number float64

// UnmarshalJSON reads 1.5 and "1.5".
func (n *Number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil {
		return err
	}
	*n = Number(f)
	return nil
}

// Boolean is a boolean that a body may hold as one of several texts.
type Boolean bool

// UnmarshalJSON reads true, "yes", "1" and the other values of BooleanOrText.
func (b *Boolean) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*b = Boolean(True(s))
		return nil
	}
	return json.Unmarshal(text, (*bool)(b))
}

// TextOrNumber is a text that a body may hold as a number: kept as written.
type TextOrNumber string

// UnmarshalJSON reads "a", 1 and 1.5.
func (t *TextOrNumber) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*t = TextOrNumber(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	*t = TextOrNumber(n.String())
	return nil
}
