package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/activities/secret"
)

const canary = "canary-5up3r-53cr3t"

// forms are the ways in which the value could show in an output.
var forms = []string{
	canary,
	fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary),
	strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"), // as a list of numbers
	"Y2FuYXJ5", // its beginning in base64
	"0x63, 0x61, 0x6e",
	"63 61 6e 61",
}

func requireSilent(t *testing.T, output string) {
	t.Helper()
	for _, form := range forms {
		require.NotContains(t, output, form)
	}
}

// holders are the places in which a careless line of code might print one.
func holders(p *secret.Passphrase) map[string]any {
	return map[string]any{
		"pointer":          p,
		"value":            *p,
		"exported field":   struct{ P *secret.Passphrase }{p},
		"unexported field": struct{ p *secret.Passphrase }{p},
		"value field":      struct{ p secret.Passphrase }{*p},
		"slice":            []*secret.Passphrase{p},
		"map":              map[string]*secret.Passphrase{"k": p},
		"any":              []any{p, &p},
		"error":            fmt.Errorf("could not open with %v %s %+v", p, p, p),
	}
}

func TestEveryVerbAndFlagIsSilent(t *testing.T) {
	t.Parallel()
	p := secret.New([]byte(canary))
	for name, holder := range holders(p) {
		for verb := rune('!'); verb <= '~'; verb++ {
			for _, flags := range []string{"", "+", "#", "-20", " ", "020", ".3", "#+"} {
				requireSilent(t, fmt.Sprintf("%"+flags+string(verb), holder))
			}
		}
		requireSilent(t, fmt.Sprint(holder)+fmt.Sprintln(holder))
		t.Log(name, fmt.Sprint(holder))
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c"} {
		require.Equal(t, secret.Redacted, fmt.Sprintf(format, p))
	}
	require.Equal(t, secret.Redacted, p.String())
	require.Equal(t, secret.Redacted, p.GoString())
}

// recorder takes what an assertion would print.
type recorder struct{ text string }

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

// testify's diff dumps by reflection, through pointers, and calls no methods.
func TestDumpersThatCallNoMethodsAreSilent(t *testing.T) {
	t.Parallel()
	other := holders(secret.New([]byte("another")))
	for name, holder := range holders(secret.New([]byte(canary))) {
		if name == "error" {
			continue // two errors of the same text are equal
		}
		var said recorder
		require.False(t, assert.Equal(&said, other[name], holder))
		require.NotEmpty(t, said.text)
		requireSilent(t, said.text)
	}
}

func TestLogsAreSilent(t *testing.T) {
	t.Parallel()
	p := secret.New([]byte(canary))
	var out bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		log := slog.New(handler).With("with", p)
		for name, holder := range holders(p) {
			log.Error("careless", "name", name, "holder", holder)
		}
		log.Info("direct", "p", p)
	}
	requireSilent(t, out.String())
	require.Contains(t, out.String(), `"p":"[redacted]"`)
	require.Contains(t, out.String(), `p=[redacted]`)
}

type holder struct{ P *secret.Passphrase }

func TestEncodersFail(t *testing.T) {
	t.Parallel()
	p := secret.New([]byte(canary))
	encoders := map[string]func(any) ([]byte, error){
		"json": json.Marshal,
		"xml":  xml.Marshal,
		"yaml": yaml.Marshal,
		"gob": func(v any) ([]byte, error) {
			var out bytes.Buffer
			err := gob.NewEncoder(&out).Encode(v)
			return out.Bytes(), err
		},
	}
	for name, encode := range encoders {
		for _, v := range []any{p, *p, holder{p}} {
			out, err := encode(v)
			require.ErrorIs(t, err, secret.ErrNotSerialisable, name)
			requireSilent(t, string(out)+err.Error())
		}
	}
	_, err := p.MarshalText()
	require.ErrorIs(t, err, secret.ErrNotSerialisable)
	_, err = p.MarshalBinary()
	require.ErrorIs(t, err, secret.ErrNotSerialisable)
}
