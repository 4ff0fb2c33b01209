package origin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/origin"
)

// TestM6QuotedParameters: commas, semicolons and quotation marks in quotes are no ends
// (RFC 7239, 4), and what a client wrote never changes what its proxy says.
func TestM6QuotedParameters(t *testing.T) {
	t.Parallel()
	const nobody, inside = "192.0.2.7", "http://inside"
	for name, c := range map[string]struct {
		sent         []string
		want, client string
	}{
		"plain":                      {[]string{`for=198.51.100.1;proto=https;host=a.example`}, "https://a.example", "198.51.100.1"},
		"all in quotes":              {[]string{`for="198.51.100.1:80";proto="https";host="a.example:8774"`}, "https://a.example:8774", "198.51.100.1"},
		"escapes":                    {[]string{`for="\[2001:db8::9\]:\4711";proto="\h\ttps";host="a\.example"`}, "https://a.example", "2001:db8::9"},
		"a comma in quotes":          {[]string{`for=198.51.100.1;ext="x, for=203.0.113.9;host=evil.example";proto=https;host=a.example`}, "https://a.example", "198.51.100.1"},
		"a comma and an escape":      {[]string{`for=198.51.100.1;host=a.example;ext="\", for=203.0.113.9;host=evil.example, \"\\"`}, "http://a.example", "198.51.100.1"},
		"a semicolon in quotes":      {[]string{`ext="a;host=evil.example;for=203.0.113.9";for=198.51.100.1;host=a.example`}, "http://a.example", "198.51.100.1"},
		"spaces":                     {[]string{` for = 198.51.100.1 ; host="a.example" ; `}, "http://a.example", "198.51.100.1"},
		"the proxy before in quotes": {[]string{`for=198.51.100.1;ext=",", for="192.0.2.9";host=b.example`}, "http://b.example", "198.51.100.1"},

		"a client's open quote":      {[]string{`for="203.0.113.9, for=198.51.100.1;host=a.example`}, "http://a.example", "198.51.100.1"},
		"its escaped end":            {[]string{`for="203.0.113.9\, for="198.51.100.1";host="a.example"`}, "http://a.example", "198.51.100.1"},
		"what the proxy before says": {[]string{`for=203.0.113.9;host="evil.example;ext=", for="192.0.2.9"`}, inside, "203.0.113.9"},
		"in a line of its own":       {[]string{`for="203.0.113.9`, `for=198.51.100.1;host="a.example"`}, "http://a.example", "198.51.100.1"},

		"no end":            {[]string{`for="198.51.100.1`}, inside, nobody},
		"an escape at last": {[]string{`for="198.51.100.1\`}, inside, nobody},
		"words after it":    {[]string{`for="198.51.100.1"x;host=evil.example`}, inside, nobody},
		"twice":             {[]string{`for=198.51.100.1;host=a.example;host=evil.example`}, inside, nobody},
		"no name":           {[]string{`198.51.100.1`}, inside, nobody},
		"a quote inside":    {[]string{`for=19"8.51.100.1";host=a.example`}, inside, nobody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := origin.New("", []string{"192.0.2.0/24"}, origin.Forwarded)
			require.NoError(t, err)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host, r.RemoteAddr = "inside", "192.0.2.7:1"
			for _, value := range c.sent {
				r.Header.Add("Forwarded", value)
			}
			require.Equal(t, c.want, o.Of(r))
			require.Equal(t, c.client, o.Client()(r))
		})
	}
}

// Any header leaves what the balancer appends to it as it is.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"", `for="`, `for="\`, `a="\"`, `,`, `for=203.0.113.9;host="evil`, `"`, `\`} {
		f.Add(seed)
	}
	o, err := origin.New("", []string{"192.0.2.0/24"}, origin.Forwarded)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, client string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = "inside", "192.0.2.7:1"
		r.Header.Set("Forwarded", client+`, for=198.51.100.1;ext="a, \"b;";proto=https;host="a.example"`)
		require.Equal(t, "https://a.example", o.Of(r))
		require.Equal(t, "198.51.100.1", o.Client()(r))
	})
}
