package validation

import (
	"encoding/json"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// textBounds makes minimum and maximum hold for numbers in text too: the
// compute API takes "10" where it takes 10.
func textBounds() (*jsonschema.Vocabulary, error) {
	c := jsonschema.NewCompiler()
	const url = "schema:///text-bounds"
	if err := c.AddResource(url, map[string]any{}); err != nil {
		return nil, err
	}
	schema, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	return &jsonschema.Vocabulary{URL: url, Schema: schema, Compile: compileBounds}, nil
}

type bounds struct {
	min, max  *big.Rat
	exclusive bool
}

func compileBounds(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
	b := bounds{min: rational(obj["minimum"]), max: rational(obj["maximum"])}
	b.exclusive, _ = obj["exclusiveMinimum"].(bool)
	if b.min == nil && b.max == nil {
		return nil, nil
	}
	return b, nil
}

// Validate reports a text that holds a number outside the bounds. A text that
// holds none is the pattern's business.
func (b bounds) Validate(ctx *jsonschema.ValidatorContext, v any) {
	text, ok := v.(string)
	if !ok {
		return
	}
	n := ofText(strings.TrimSpace(text))
	if n == nil {
		return
	}
	if b.min != nil {
		switch c := n.Cmp(b.min); {
		case c < 0 && !b.exclusive:
			ctx.AddError(&kind.Minimum{Got: n, Want: b.min})
		case c <= 0 && b.exclusive:
			ctx.AddError(&kind.ExclusiveMinimum{Got: n, Want: b.min})
		}
	}
	if b.max != nil && n.Cmp(b.max) > 0 {
		ctx.AddError(&kind.Maximum{Got: n, Want: b.max})
	}
}

// ofText is the number that a text holds, of however many digits. Leading zeros count
// for nothing; what has more digits than any bound is as good as the largest number that
// is compared.
func ofText(text string) *big.Rat {
	digits := strings.TrimLeft(text, "+-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(text)-len(digits) > 1 {
		return rational(json.Number(text))
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > boundDigits {
		digits = "1" + strings.Repeat("0", boundDigits)
	}
	n := rational(json.Number("0" + digits))
	if strings.HasPrefix(text, "-") {
		n.Neg(n)
	}
	return n
}

// boundDigits are more than any bound of a schema has.
const boundDigits = 40

func rational(v any) *big.Rat {
	n, ok := v.(json.Number)
	// A long exponent would make a number of that many digits.
	if !ok || len(n) > 64 || strings.ContainsAny(string(n), "/") {
		return nil
	}
	if _, exponent, found := strings.Cut(strings.ToLower(string(n)), "e"); found && len(exponent) > 3 {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil
	}
	return r
}
