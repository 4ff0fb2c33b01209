package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// token is the next word of a rule: a bracket, an operator, or a check.
var token = regexp.MustCompile(`^(?:[()@!]|(?:and|or|not)\b|` + side + `:(?:%\([^\s()]+\)s|` + side + `))`)

const side = `(?:"[^"\n]*"|'[^'\n]*'|[^\s:()'"%@!]+)`

// wellFormed checks the grammar of a rule. The library's own parser is not asked
// about a rule that is wrong: it would report it while its lexer still runs.
func wellFormed(rule string) error {
	rest := strings.TrimLeft(rule, " \t")
	if rest == "" {
		return nil // always true
	}
	open, operand := 0, true // operand: one must come next
	for rest != "" {
		word := token.FindString(rest)
		switch {
		case word == "not" && operand:
		case (word == "and" || word == "or") && !operand:
			operand = true
		case word == "(" && operand:
			open++
		case word == ")" && !operand && open > 0:
			open--
		case (word == "@" || word == "!" || isCheck(word)) && operand:
			operand = false
		default:
			return fmt.Errorf("it cannot be read from %q on", rest)
		}
		rest = strings.TrimLeft(rest[len(word):], " \t")
	}
	if operand || open > 0 {
		return fmt.Errorf("it ends too early: %q", rule)
	}
	return nil
}

// literal is the left side of a check that compares a value with the request.
var literal = regexp.MustCompile(`^(?:["'].*|True|False|[-+]?\d+)$`)

// isCheck reports whether a token is a check: name:value, name:%(variable)s or
// literal:%(variable)s.
func isCheck(word string) bool {
	left, right, found := strings.Cut(word, ":")
	if !found || keyword(left) || keyword(right) {
		return false
	}
	return !literal.MatchString(left) || strings.HasPrefix(right, "%(")
}

func keyword(word string) bool { return word == "and" || word == "or" || word == "not" }
