package microversion_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/microversion"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		header map[string][]string
		want   microversion.Negotiated
		fail   string
	}{
		{name: "nothing said", want: microversion.Negotiated{Compute: 1}},
		{name: "standard", header: map[string][]string{"OpenStack-API-Version": {"compute 2.53"}}, want: microversion.Negotiated{Compute: 53}},
		{name: "latest", header: map[string][]string{"OpenStack-API-Version": {"compute latest"}}, want: microversion.Negotiated{Compute: 97}},
		{name: "legacy", header: map[string][]string{"X-OpenStack-Nova-API-Version": {"2.97"}}, want: microversion.Negotiated{Compute: 97}},
		{name: "standard wins", header: map[string][]string{"OpenStack-API-Version": {"compute 2.10"}, "X-OpenStack-Nova-API-Version": {"2.97"}},
			want: microversion.Negotiated{Compute: 10}},
		{name: "several services", header: map[string][]string{"OpenStack-API-Version": {"volume 3.70, compute 2.60, image 2.9"}}, want: microversion.Negotiated{Compute: 60}},
		{name: "several lines", header: map[string][]string{"OpenStack-API-Version": {"volume 3.70", "COMPUTE 2.60"}}, want: microversion.Negotiated{Compute: 60}},
		{name: "the last one counts", header: map[string][]string{"OpenStack-API-Version": {"compute 2.60, compute 2.61"}}, want: microversion.Negotiated{Compute: 61}},
		{name: "another service only", header: map[string][]string{"OpenStack-API-Version": {"volume 3.70"}}, want: microversion.Negotiated{Compute: 1}},
		{name: "extensions", header: map[string][]string{"OpenStack-API-Version": {"compute 2.97, strongroom 1.0"}}, want: microversion.Negotiated{Compute: 97, Extended: true}},
		{name: "newest extensions", header: map[string][]string{"OpenStack-API-Version": {"strongroom latest"}}, want: microversion.Negotiated{Compute: 1, Extended: true, Extensions: 1}},
		{name: "extensions 1.1", header: map[string][]string{"OpenStack-API-Version": {"strongroom 1.1"}}, want: microversion.Negotiated{Compute: 1, Extended: true, Extensions: 1}},

		{name: "no minor", header: map[string][]string{"OpenStack-API-Version": {"compute 2"}}, fail: "API Version String 2 is of invalid format. Must be of format MajorNum.MinorNum."},
		{name: "text", header: map[string][]string{"OpenStack-API-Version": {"compute abc"}}, fail: "API Version String abc is of invalid format. Must be of format MajorNum.MinorNum."},
		{name: "leading zero", header: map[string][]string{"X-OpenStack-Nova-API-Version": {"2.01"}}, fail: "API Version String 2.01 is of invalid format. Must be of format MajorNum.MinorNum."},
		{name: "above", header: map[string][]string{"OpenStack-API-Version": {"compute 2.98"}}, fail: "Version 2.98 is not supported by the API. Minimum is 2.1 and maximum is 2.97."},
		{name: "far above", header: map[string][]string{"OpenStack-API-Version": {"compute 2.99999999999999999999"}},
			fail: "Version 2.99999999999999999999 is not supported by the API. Minimum is 2.1 and maximum is 2.97."},
		{name: "below", header: map[string][]string{"OpenStack-API-Version": {"compute 2.0"}}, fail: "Version 2.0 is not supported by the API. Minimum is 2.1 and maximum is 2.97."},
		{name: "another major", header: map[string][]string{"OpenStack-API-Version": {"compute 3.5"}}, fail: "Version 3.5 is not supported by the API. Minimum is 2.1 and maximum is 2.97."},
		{name: "unknown extensions", header: map[string][]string{"OpenStack-API-Version": {"strongroom 1.2"}}, fail: "Version 1.2 is not supported by the API. Minimum is 1.0 and maximum is 1.1."},
		{name: "malformed extensions", header: map[string][]string{"OpenStack-API-Version": {"strongroom x"}}, fail: "API Version String x is of invalid format. Must be of format MajorNum.MinorNum."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for name, values := range c.header {
				for _, v := range values {
					h.Add(name, v)
				}
			}
			got, err := microversion.Negotiate(h)
			if c.fail != "" {
				require.EqualError(t, err, c.fail)
				require.Equal(t, microversion.Default, got, "a refused request is answered at the default version")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestVolume(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header string
		want   microversion.Version
		fail   string
	}{
		{"", 0, ""},
		{"volume 3.0", 0, ""},
		{"volume 3.71", 71, ""},
		{"volume latest", 71, ""},
		{"compute 2.90, volume 3.52", 52, ""},
		{"compute 2.90", 0, ""},
		{"volume 3", 0, "API Version String 3 is of invalid format. Must be of format MajorNum.MinorNum."},
		{"volume 3.72", 0, "Version 3.72 is not supported by the API. Minimum is 3.0 and maximum is 3.71."},
		{"volume 2.1", 0, "Version 2.1 is not supported by the API. Minimum is 3.0 and maximum is 3.71."},
		{"volume 3.99999999999999999999", 0, "Version 3.99999999999999999999 is not supported by the API. Minimum is 3.0 and maximum is 3.71."},
	} {
		got, err := microversion.Volume.Asked(http.Header{"Openstack-Api-Version": {c.header}})
		if c.fail != "" {
			require.EqualError(t, err, c.fail)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, c.want, got, c.header)
	}
	require.Equal(t, "3.71", microversion.Volume.Text(microversion.Volume.Max))
}

func TestWrite(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	microversion.Negotiated{Compute: 97, Extended: true}.Write(h)
	require.Equal(t, "compute 2.97, strongroom 1.0", h.Get("OpenStack-API-Version"))
	require.Equal(t, "2.97", h.Get("X-OpenStack-Nova-API-Version"))
	require.Equal(t, "OpenStack-API-Version, X-OpenStack-Nova-API-Version", h.Get("Vary"))
	microversion.Negotiated{Compute: 97, Extended: true, Extensions: 1}.Write(h)
	require.Equal(t, "compute 2.97, strongroom 1.1", h.Get("OpenStack-API-Version"))
}
