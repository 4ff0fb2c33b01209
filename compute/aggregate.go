package compute

import (
	"cmp"
	"slices"
	"strings"
)

// AggregateMetadata is what the metadata of a host's aggregates say together: each key with all of its values. Commas
// separate several values of one aggregate, as in Nova's filters.
type AggregateMetadata map[string][]string

// What keys of the metadata mean to the choice of a host.
const (
	AggregateZone   = "availability_zone" // the zone that the hosts are in
	aggregateTenant = "filter_tenant_id"  // projects that have the hosts alone; more letters may follow
	aggregateTrait  = "trait:"            // "required": the hosts are for servers that require the trait
)

// aggregateSpec begins the extra specs of flavors that ask for a value of the metadata.
const aggregateSpec = "aggregate_instance_extra_specs:"

// ReadAggregateMetadata reads entries of the form key=value. No key has an equals sign.
func ReadAggregateMetadata(entries []string) AggregateMetadata {
	if len(entries) == 0 {
		return nil
	}
	all := AggregateMetadata{}
	for _, entry := range entries {
		key, values, _ := strings.Cut(entry, "=")
		for value := range strings.SplitSeq(values, ",") {
			all[key] = append(all[key], strings.TrimSpace(value))
		}
	}
	return all
}

// unfit says why hosts of such aggregates do not take a server, "" if they do: what Nova's filters
// AggregateMultiTenancyIsolation and AggregateInstanceExtraSpecsFilter say, and its isolated aggregates.
func (m AggregateMetadata) unfit(want Request) string {
	return cmp.Or(m.otherProjects(want.Project), m.otherTraits(want.Traits.Required), m.unmatched(want.AggregateSpecs))
}

func (m AggregateMetadata) otherProjects(project string) (why string) {
	for _, key := range sorted(m) {
		if !strings.HasPrefix(key, aggregateTenant) {
			continue
		}
		if slices.Contains(m[key], project) {
			return ""
		}
		why = "is in an aggregate of other projects"
	}
	return why
}

func (m AggregateMetadata) otherTraits(required []string) string {
	for _, key := range sorted(m) {
		trait, found := strings.CutPrefix(key, aggregateTrait)
		if found && slices.Contains(m[key], "required") && !slices.Contains(required, trait) {
			return "is in an aggregate for servers that require trait " + trait
		}
	}
	return ""
}

func (m AggregateMetadata) unmatched(specs map[string]string) string {
	for _, key := range sorted(specs) {
		if !slices.ContainsFunc(m[key], func(value string) bool { return matchesSpec(value, specs[key]) }) {
			return "is in no aggregate with " + key + " " + specs[key]
		}
	}
	return ""
}

// aggregateSpecs are the extra specs that ask for values of the metadata, by its keys.
func (f Flavor) aggregateSpecs() map[string]string {
	var specs map[string]string
	for _, name := range sorted(f.ExtraSpecs) {
		key, found := strings.CutPrefix(name, aggregateSpec)
		if !found {
			continue
		}
		if specs == nil {
			specs = map[string]string{}
		}
		specs[key] = f.ExtraSpecs[name]
	}
	return specs
}
