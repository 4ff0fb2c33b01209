package origin_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/origin"
)

// TestM6LinksBehindProxies: only trusted proxies say where clients reach the API.
func TestM6LinksBehindProxies(t *testing.T) {
	t.Parallel()
	const proxy, client = "192.0.2.7:40000", "198.51.100.1:40000"
	https := map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "compute.example.com"}
	for name, c := range map[string]struct {
		public  string
		proxies []string
		header  origin.Header
		from    string
		tls     bool
		headers map[string]string
		want    string
	}{
		"nothing said":          {from: client, want: "http://inside:8774"},
		"TLS":                   {from: client, tls: true, want: "https://inside:8774"},
		"a client's own word":   {from: client, headers: https, want: "http://inside:8774"},
		"not one of them":       {proxies: []string{"192.0.2.0/24"}, from: client, headers: https, want: "http://inside:8774"},
		"a trusted proxy":       {proxies: []string{"192.0.2.0/24"}, from: proxy, headers: https, want: "https://compute.example.com"},
		"a trusted address":     {proxies: []string{"192.0.2.7"}, from: proxy, headers: https, want: "https://compute.example.com"},
		"the scheme alone":      {proxies: []string{"192.0.2.7"}, from: proxy, headers: map[string]string{"X-Forwarded-Proto": "https"}, want: "https://inside:8774"},
		"IPv4 seen as IPv6":     {proxies: []string{"192.0.2.7"}, from: "[::ffff:192.0.2.7]:1", headers: https, want: "https://compute.example.com"},
		"the configured URL":    {public: "https://cloud.example.com/compute/", proxies: []string{"192.0.2.7"}, from: proxy, headers: https, want: "https://cloud.example.com/compute"},
		"the last one's word":   {proxies: []string{"192.0.2.7"}, from: proxy, headers: map[string]string{"X-Forwarded-Proto": "http, https", "X-Forwarded-Host": "evil.example, good.example"}, want: "https://good.example"},
		"RFC 7239":              {proxies: []string{"192.0.2.7"}, header: origin.Forwarded, from: proxy, headers: map[string]string{"Forwarded": `for=10.0.0.1, for=x;proto=HTTPS;host="a.example:443"`, "X-Forwarded-Proto": "http"}, want: "https://a.example:443"},
		"no scheme of the web":  {proxies: []string{"192.0.2.7"}, from: proxy, headers: map[string]string{"X-Forwarded-Proto": "javascript"}, want: "http://inside:8774"},
		"no name of a host":     {proxies: []string{"192.0.2.7"}, from: proxy, headers: map[string]string{"X-Forwarded-Host": "a/b?c"}, want: "http://inside:8774"},
		"a proxy that is quiet": {proxies: []string{"192.0.2.7"}, from: proxy, tls: true, want: "https://inside:8774"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := origin.New(c.public, c.proxies, c.header)
			require.NoError(t, err)
			r := httptest.NewRequest(http.MethodGet, "/v2.1/", nil)
			r.Host, r.RemoteAddr = "inside:8774", c.from
			if c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for header, value := range c.headers {
				r.Header.Set(header, value)
			}
			require.Equal(t, c.want, o.Of(r))
		})
	}
}

func TestK23TheFolderAndThePortOfAProxy(t *testing.T) {
	t.Parallel()
	o, err := origin.New("", []string{"192.0.2.7"}, "")
	require.NoError(t, err)
	of := func(from string, headers map[string]string) string {
		r := httptest.NewRequest(http.MethodGet, "http://inside:8774/v2.1", nil)
		r.RemoteAddr = from + ":1234"
		for key, value := range headers {
			r.Header.Set("X-Forwarded-"+key, value)
		}
		return o.Of(r)
	}
	for _, c := range []struct {
		headers map[string]string
		want    string
	}{
		{map[string]string{"Prefix": "/compute"}, "http://inside:8774/compute"},
		{map[string]string{"Proto": "https", "Host": "cloud.example", "Prefix": "/a/compute/"}, "https://cloud.example/a/compute"},
		{map[string]string{"Prefix": "/mine, /compute"}, "http://inside:8774/compute"},
		{map[string]string{"Proto": "https", "Host": "cloud.example", "Port": "8443"}, "https://cloud.example:8443"},
		{map[string]string{"Proto": "https", "Host": "cloud.example", "Port": "443"}, "https://cloud.example"},
		{map[string]string{"Proto": "https", "Host": "cloud.example", "Port": "80"}, "https://cloud.example"}, // of a second proxy behind the one with TLS
		{map[string]string{"Host": "cloud.example:1", "Port": "2"}, "http://cloud.example:1"},
		{map[string]string{"Host": "[2001:db8::1]", "Port": "8774"}, "http://[2001:db8::1]:8774"},
		{map[string]string{"Host": "cloud.example", "Port": "x"}, "http://cloud.example"},
		{map[string]string{"Prefix": "//evil.example"}, "http://inside:8774"},
		{map[string]string{"Prefix": "/../x"}, "http://inside:8774"},
		{map[string]string{"Prefix": "compute"}, "http://inside:8774"},
	} {
		require.Equal(t, c.want, of("192.0.2.7", c.headers), "%v", c.headers)
		require.Equal(t, "http://inside:8774", of("192.0.2.8", c.headers), "of anybody else: %v", c.headers)
	}
}

func TestM6ClientsBehindProxies(t *testing.T) {
	t.Parallel()
	o, err := origin.New("", []string{"192.0.2.0/24"}, "")
	require.NoError(t, err)
	for from, want := range map[string]string{"192.0.2.7:1": "198.51.100.9", "203.0.113.5:1": "203.0.113.5"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "10.9.9.9, 198.51.100.9")
		require.Equal(t, want, o.Client()(r))
	}
}

func TestM6BadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"compute.example.com", "ftp://x", "https://", "https://x/?a=b", "https://u:p@x"} {
		_, err := origin.New(public, nil, "")
		require.ErrorContains(t, err, "https://compute.example.com", public)
	}
	for _, proxy := range []string{"proxy", "10.0.0.0/40", ""} {
		_, err := origin.New("", []string{proxy}, "")
		require.ErrorContains(t, err, "192.0.2.0/24", proxy)
	}
	_, err := origin.New("", nil, "x-real-ip")
	require.ErrorContains(t, err, "x-forwarded or forwarded")
}

// TestM6OneKindOfHeadersIsBelieved: what a proxy does not set itself it passes on as its
// client sent it.
func TestM6OneKindOfHeadersIsBelieved(t *testing.T) {
	t.Parallel()
	const x, rfc = "https://x.example", "https://rfc.example"
	for name, c := range map[string]struct {
		header       origin.Header
		sent         []string // of the two
		from         string
		want, client string
	}{
		"X-Forwarded-, both":    {origin.XForwarded, []string{"x", "rfc"}, "192.0.2.7:1", x, "198.51.100.1"},
		"the default, both":     {"", []string{"x", "rfc"}, "192.0.2.7:1", x, "198.51.100.1"},
		"Forwarded, both":       {origin.Forwarded, []string{"x", "rfc"}, "192.0.2.7:1", rfc, "2001:db8::9"},
		"X-Forwarded-, other":   {origin.XForwarded, []string{"rfc"}, "192.0.2.7:1", "http://inside", "192.0.2.7"},
		"Forwarded, other":      {origin.Forwarded, []string{"x"}, "192.0.2.7:1", "http://inside", "192.0.2.7"},
		"Forwarded, no proxy":   {origin.Forwarded, []string{"x", "rfc"}, "203.0.113.5:1", "http://inside", "203.0.113.5"},
		"X-Forwarded-, nowhere": {origin.XForwarded, []string{"x", "rfc"}, "203.0.113.5:1", "http://inside", "203.0.113.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := origin.New("", []string{"192.0.2.0/24"}, c.header)
			require.NoError(t, err)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host, r.RemoteAddr = "inside", c.from
			for _, sent := range c.sent {
				if sent == "x" {
					r.Header.Set("X-Forwarded-Proto", "https")
					r.Header.Set("X-Forwarded-Host", "x.example")
					r.Header.Set("X-Forwarded-For", "10.9.9.9, 198.51.100.1, 192.0.2.8")
				} else {
					r.Header.Add("Forwarded", `for="10.9.9.9, for=unfinished`)
					r.Header.Add("Forwarded", `for="[2001:db8::9]:4711";proto=http;host=evil.example`)
					r.Header.Add("Forwarded", `For=192.0.2.8:99;proto=HTTPS;host="rfc.example"`)
				}
			}
			require.Equal(t, c.want, o.Of(r))
			require.Equal(t, c.client, o.Client()(r))
		})
	}
}

func TestM6AHiddenClientIsItsProxy(t *testing.T) {
	t.Parallel()
	o, err := origin.New("", []string{"192.0.2.0/24"}, origin.Forwarded)
	require.NoError(t, err)
	for _, hidden := range []string{"for=_hidden", "for=unknown", "proto=https", "for=", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "192.0.2.7:1"
		r.Header.Set("Forwarded", "for=198.51.100.1, "+hidden)
		require.Equal(t, "192.0.2.7", o.Client()(r), hidden)
	}
}
