package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestReadAggregateMetadata(t *testing.T) {
	t.Parallel()
	require.Nil(t, compute.ReadAggregateMetadata(nil))
	require.Equal(t, compute.AggregateMetadata{"color": {"blue", "red", "green"}, "sum": {"a=b"}, "empty": {""}},
		compute.ReadAggregateMetadata([]string{"color=blue, red", "color=green", "empty=", "sum=a=b"}))
}

// Which aggregates' hosts take which servers: Nova's AggregateMultiTenancyIsolation, its isolated aggregates and
// AggregateInstanceExtraSpecsFilter.
func TestUnfitByAggregates(t *testing.T) {
	t.Parallel()
	const (
		others   = "is in an aggregate of other projects"
		isolated = "is in an aggregate for servers that require trait CUSTOM_A"
		unasked  = "is in no aggregate with ssd true"
	)
	for _, c := range []struct {
		why      string
		metadata []string
		want     compute.Request
	}{
		{"", nil, compute.Request{Project: "p"}},
		{"", []string{"color=blue"}, compute.Request{Project: "p"}},

		{"", []string{"filter_tenant_id=p"}, compute.Request{Project: "p"}},
		{"", []string{"filter_tenant_id=q, p"}, compute.Request{Project: "p"}},
		{"", []string{"filter_tenant_id=q", "filter_tenant_id2=p"}, compute.Request{Project: "p"}},
		{"", []string{"filter_tenant_id=q", "filter_tenant_id=p"}, compute.Request{Project: "p"}}, // two aggregates
		{others, []string{"filter_tenant_id=q"}, compute.Request{Project: "p"}},
		{others, []string{"filter_tenant_id_more=q"}, compute.Request{Project: "p"}},
		{others, []string{"filter_tenant_id="}, compute.Request{Project: "p"}},
		{others, []string{"filter_tenant_id=pp"}, compute.Request{Project: "p"}},

		{"", []string{"trait:CUSTOM_A=required"}, compute.Request{Traits: compute.Traits{Required: []string{"COMPUTE_EPHEMERAL_ENCRYPTION", "CUSTOM_A"}}}},
		{"", []string{"trait:CUSTOM_A=forbidden"}, compute.Request{}},
		{isolated, []string{"trait:CUSTOM_A=required"}, compute.Request{}},
		{isolated, []string{"trait:CUSTOM_A=required", "trait:CUSTOM_B=required"}, compute.Request{Traits: compute.Traits{Required: []string{"CUSTOM_B"}}}},

		{"", []string{"ssd=true"}, compute.Request{AggregateSpecs: map[string]string{"ssd": "true"}}},
		{"", []string{"ssd=false", "ssd=true"}, compute.Request{AggregateSpecs: map[string]string{"ssd": "true"}}},
		{"", []string{"ssd=false,true"}, compute.Request{AggregateSpecs: map[string]string{"ssd": "<or> yes <or> true"}}},
		{unasked, nil, compute.Request{AggregateSpecs: map[string]string{"ssd": "true"}}},
		{unasked, []string{"ssd=yes"}, compute.Request{AggregateSpecs: map[string]string{"ssd": "true"}}},
		{unasked, []string{"ssd=yes", "color=true"}, compute.Request{AggregateSpecs: map[string]string{"color": "true", "ssd": "true"}}},
	} {
		h := host(func(h *compute.Host) { h.Aggregates = compute.ReadAggregateMetadata(c.metadata) })
		require.Equal(t, c.why, h.Unfit(c.want, now), "%v %v", c.metadata, c.want)
		require.Equal(t, c.why, h.Outside(c.want))
	}
	require.Equal(t, "in zone east, not west", host(nil).Outside(compute.Request{Zone: "west"}))
}

// Nova's operators of extra specs (nova/scheduler/filters/extra_specs_ops.py), with what is odd about them.
func TestOperatorsOfExtraSpecs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, spec string
		match       bool
	}{
		{"1", "1", true},
		{"1", "2", false},
		{"a b", "a b", true},
		{"2", "= 2", true},
		{"3", "= 2", true}, // at least
		{"1", "= 2", false},
		{"2.0", "== 2", true},
		{"3", "== 2", false},
		{"3", "!= 2", true},
		{"2", "!= 2", false},
		{"10", ">= 9", true},
		{"8", ">= 9", false},
		{"9", "<= 10", true},
		{"11", "<= 10", false},
		{"many", ">= 1", false},
		{"1", ">= few", false},
		{"2", "> 1", false}, // there is no such operator
		{"> 1", "> 1", true},
		{"abc", "s== abc", true},
		{"abc", "s!= abc", false},
		{"abd", "s!= abc", true},
		{"10", "s< 9", true}, // as texts
		{"9", "s< 9", false},
		{"9", "s<= 9", true},
		{"9", "s> 10", true},
		{"9", "s> 9", false},
		{"9", "s>= 9", true},
		{"10", "s>= 9", false},
		{"0123", "<in> 12", true},
		{"0123", "<in> 13", false},
		{"aes mmx aux", "<all-in> aes mmx", true},
		{"aes mmx aux", "<all-in> aes sse", false},
		{"b", "<or> a <or> b", true},
		{"c", "<or> a <or> b", false},
		{"<or>", "<or> a <or> b", false},
		{"", "<or>", false},
		{"2", "=", false},
		{"", " ", false},
		{" ", " ", true},
	} {
		h := host(func(h *compute.Host) { h.Aggregates = compute.AggregateMetadata{"key": {c.value}} })
		got := h.Outside(compute.Request{AggregateSpecs: map[string]string{"key": c.spec}}) == ""
		require.Equal(t, c.match, got, "%q %q", c.value, c.spec)
	}
}

func TestRequestOfAsksAggregates(t *testing.T) {
	t.Parallel()
	want := compute.RequestOf(compute.Server{ProjectID: "p", Flavor: compute.Flavor{ExtraSpecs: map[string]string{
		"aggregate_instance_extra_specs:ssd": "true", "aggregate_instance_extra_specs:a:b": "<in> c", "color": "blue", "trait:CUSTOM_A": "required",
	}}})
	require.Equal(t, map[string]string{"ssd": "true", "a:b": "<in> c"}, want.AggregateSpecs, "a spec without the prefix asks nothing of aggregates")
	require.Equal(t, "p", want.Project)
}
