package compute

import (
	"slices"
	"strconv"
	"strings"
)

// specOperators are Nova's operators of extra specs, each with what it says of a value and the words behind it, of which there is one at least.
// There is no < and no > of numbers, and = is "at least".
var specOperators = map[string]func(value string, words []string) bool{
	"=":        ofNumbers(func(value, asked float64) bool { return value >= asked }),
	"==":       ofNumbers(func(value, asked float64) bool { return value == asked }),
	"!=":       ofNumbers(func(value, asked float64) bool { return value != asked }),
	">=":       ofNumbers(func(value, asked float64) bool { return value >= asked }),
	"<=":       ofNumbers(func(value, asked float64) bool { return value <= asked }),
	"s==":      ofTexts(func(value, asked string) bool { return value == asked }),
	"s!=":      ofTexts(func(value, asked string) bool { return value != asked }),
	"s>=":      ofTexts(func(value, asked string) bool { return value >= asked }),
	"s>":       ofTexts(func(value, asked string) bool { return value > asked }),
	"s<=":      ofTexts(func(value, asked string) bool { return value <= asked }),
	"s<":       ofTexts(func(value, asked string) bool { return value < asked }),
	"<in>":     ofTexts(strings.Contains),
	"<all-in>": hasAll,
	"<or>":     isOneOf,
}

// matchesSpec reports whether a value is as an extra spec asks. A spec whose first word is no operator is the value itself.
func matchesSpec(value, spec string) bool {
	words := strings.Fields(spec)
	if len(words) == 0 {
		return value == spec
	}
	operator, found := specOperators[words[0]]
	if !found {
		return value == spec
	}
	return len(words) > 1 && operator(value, words[1:])
}

func ofTexts(holds func(value, asked string) bool) func(string, []string) bool {
	return func(value string, words []string) bool { return holds(value, words[0]) }
}

// ofNumbers holds for no text that is not a number.
func ofNumbers(holds func(value, asked float64) bool) func(string, []string) bool {
	return func(value string, words []string) bool {
		has, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return false
		}
		asked, err := strconv.ParseFloat(words[0], 64)
		return err == nil && holds(has, asked)
	}
}

func hasAll(value string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(value, word) })
}

// isOneOf looks at every other word: the operator stands between them.
func isOneOf(value string, words []string) bool {
	for i := 0; i < len(words); i += 2 {
		if words[i] == value {
			return true
		}
	}
	return false
}
