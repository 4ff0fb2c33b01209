package compute

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// knownSpec is an extra spec of Nova's. What it says is checked as Nova does, and refused where it asks for
// something that servers do not get (P19).
type knownSpec struct {
	check func(value string) error
	had   func(value string) bool // whether servers are as the value says
}

// boolSpec is a boolean; had are the values that servers are like.
func boolSpec(had ...bool) knownSpec {
	return knownSpec{
		check: func(value string) error {
			if _, err := ParseBool(value); err != nil {
				return Errorf(Invalid, "Validation failed; '%s' is not a valid boolean-like value.", value)
			}
			return nil
		},
		had: func(value string) bool {
			yes, err := ParseBool(value)
			return err == nil && slices.Contains(had, yes)
		},
	}
}

func intSpec(least int, had func(int) bool) knownSpec {
	number := func(value string) (int, error) { return strconv.Atoi(strings.TrimSpace(value)) }
	return knownSpec{
		check: func(value string) error {
			n, err := number(value)
			if err != nil {
				return Errorf(Invalid, "Validation failed; '%s' is not a valid integer value.", value)
			}
			if n < least {
				return Errorf(Invalid, "Validation failed; '%s' is less than the min value of '%d'.", value, least)
			}
			return nil
		},
		had: func(value string) bool {
			n, err := number(value)
			return err == nil && had(n)
		},
	}
}

func enumSpec(words enum, had ...string) knownSpec {
	return knownSpec{
		check: func(value string) error {
			_, err := oneOf(value, nil, value, words)
			return err
		},
		had: func(value string) bool { return slices.Contains(had, value) },
	}
}

func formSpec(form string, had bool) knownSpec {
	whole := regexp.MustCompile(`\A(?:` + form + `)\z`)
	return knownSpec{
		check: func(value string) error {
			if !whole.MatchString(value) {
				return Errorf(Invalid, "Validation failed; '%s' is not of the format '%s'.", value, form)
			}
			return nil
		},
		had: func(string) bool { return had },
	}
}

func textSpec(had bool) knownSpec {
	return knownSpec{check: func(string) error { return nil }, had: func(string) bool { return had }}
}

func always(int) bool   { return true }
func never(int) bool    { return false }
func isZero(n int) bool { return n == 0 }
func isOne(n int) bool  { return n == 1 }

const cpuMask = `\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*`

// knownSpecs are those without a parameter in their names. Servers have the host's shared
// CPUs, one serial port, a random number generator, the devices of Hardware, and no devices of the host.
var knownSpecs = map[string]knownSpec{
	"hw:cpu_policy":               enumSpec(enum{"dedicated", "shared", "mixed"}, "shared"),
	"hw:cpu_thread_policy":        enumSpec(enum{"prefer", "isolate", "require"}, "prefer"),
	"hw:emulator_threads_policy":  enumSpec(enum{"isolate", "share"}, "share"),
	"hw:cpu_dedicated_mask":       formSpec(cpuMask, false),
	"hw:cpu_realtime":             boolSpec(false),
	"hw:cpu_realtime_mask":        formSpec(cpuMask, true), // of no meaning without the one before
	"hw:cpu_sockets":              intSpec(1, always),
	"hw:cpu_cores":                intSpec(1, always),
	"hw:cpu_threads":              intSpec(1, always),
	"hw:max_cpu_sockets":          intSpec(1, always), // bounds of what an image may ask for
	"hw:max_cpu_cores":            intSpec(1, always),
	"hw:max_cpu_threads":          intSpec(1, always),
	"hw:cpu_max_sockets":          intSpec(1, always), // as Nova's hosts read it
	"hw:cpu_max_cores":            intSpec(1, always),
	"hw:cpu_max_threads":          intSpec(1, always),
	"hw:numa_nodes":               intSpec(1, never),
	"hw:pci_numa_affinity_policy": enumSpec(enum{"required", "preferred", "legacy", "socket"}, "required", "preferred", "legacy", "socket"),
	"hw:hide_hypervisor_id":       boolSpec(false),
	"hw:boot_menu":                boolSpec(false),
	"hw:locked_memory":            boolSpec(false),
	"hw:mem_encryption":           boolSpec(false),
	"hw:pmem":                     formSpec(`([a-zA-Z0-9_]+(,)?)+`, false),
	"hw:pmu":                      boolSpec(),
	"hw:serial_port_count":        intSpec(0, isOne),
	"hw:vif_multiqueue_enabled":   boolSpec(true, false),
	"hw:virtio_packed_ring":       boolSpec(false),
	"hw:viommu_model":             enumSpec(enum{"intel", "smmuv3", "virtio", "auto"}),
	"hw:maxphysaddr_mode":         enumSpec(enum{"emulate", "passthrough"}),
	"hw:maxphysaddr_bits":         intSpec(0, never),
	"hw:input_bus":                enumSpec(inputBuses, inputBuses...),
	"hw:watchdog_action":          enumSpec(watchdogActions, watchdogActions...),
	"hw_rng:allowed":              boolSpec(true),
	"hw_rng:rate_bytes":           intSpec(0, isZero),
	"hw_rng:rate_period":          intSpec(0, always), // of no meaning without the one before
	"hw_video:ram_max_mb":         intSpec(0, always),
	"hide_hypervisor_id":          boolSpec(false),
	"group_policy":                enumSpec(enum{"isolate", "none"}, "isolate", "none"), // of resources, which are refused
	"accel:device_profile":        textSpec(false),
	"pci_passthrough:alias":       formSpec(`[^:]+:\d+(?:\s*,\s*[^:]+:\d+)*`, false),
	"vmware:hw_version":           textSpec(true), // of another hypervisor
	"vmware:storage_policy":       textSpec(true),
}

// knownForms are those with a parameter in their names, or many of one form.
var knownForms = []struct {
	name *regexp.Regexp
	knownSpec
}{
	{regexp.MustCompile(`\Ahw:numa_cpus\.\d+\z`), formSpec(cpuMask, false)},
	{regexp.MustCompile(`\Ahw:numa_mem\.\d+\z`), intSpec(1, never)},
	{regexp.MustCompile(`\Aquota:(cpu_(shares|period|quota)|disk_(read|write|total)_(bytes|iops)_sec|vif_(inbound|outbound)_(average|peak|burst))\z`),
		intSpec(0, isZero)}, // 0 limits nothing
	{regexp.MustCompile(`\Aquota:(cpu|memory|disk_io|vif)_(limit|reservation|shares_share)\z`), intSpec(math.MinInt, always)}, // of another hypervisor
	{regexp.MustCompile(`\Aquota:(cpu|memory|disk_io|vif)_shares_level\z`), textSpec(true)},
	{regexp.MustCompile(`\Aresources([a-zA-Z0-9_-]{1,64})?:[A-Z0-9_]+\z`), intSpec(math.MinInt, never)},
	{regexp.MustCompile(`\A` + aggregateSpec + `.+\z`), textSpec(true)},
	{regexp.MustCompile(`\Acapabilities:\w+(:\w+)*\z`), textSpec(false)},
}

// knownNamespace is of extra specs that all are known.
var knownNamespace = regexp.MustCompile(
	`\A(hw|hw_rng|hw_video|os|quota|accel|pci_passthrough|vmware|capabilities|aggregate_instance_extra_specs|(resources|trait)[a-zA-Z0-9_-]{0,64})\z`)

// known gives a spec of Nova's.
func known(key string) (spec knownSpec, ok bool) {
	if spec, ok = knownSpecs[key]; ok {
		return spec, true
	}
	for _, form := range knownForms {
		if form.name.MatchString(key) {
			return form.knownSpec, true
		}
	}
	return spec, false
}

// read checks a value. It is stored as it is.
func (s knownSpec) read(key, value string) (string, error) {
	if err := s.check(value); err != nil {
		return "", err
	}
	if !s.had(value) {
		return "", notHad(key, value)
	}
	return value, nil
}

func notHad(key, value string) error {
	return Errorf(Invalid, "Validation failed; extra spec '%s' with the value '%s' asks for what servers cannot have here.", key, value)
}
