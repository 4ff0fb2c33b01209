package securepv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"strongroom/securepv"
)

// workload draws a workload of any kind, with odd parts.
func workload(t *rapid.T) string {
	kind := rapid.SampledFrom([]string{"Pod", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob", "ConfigMap", "Pod.example.com"}).Draw(t, "kind")
	version := map[string]string{"Pod": "v1", "ReplicationController": "v1", "ConfigMap": "v1", "Job": "batch/v1", "CronJob": "batch/v1", "Pod.example.com": "example.com/v1"}[kind]
	if version == "" {
		version = "apps/v1"
	}
	var annotations []string
	for _, a := range []string{`contrast.edgeless.systems/secure-pv: "data:state"`, `strongroom.dev/secure-pv: "logs:open"`, `strongroom.dev/skip-initializer: "true"`, `other: "x"`} {
		if strings.Contains(a, "secure-pv") && (kind == "ConfigMap" || kind == "Pod.example.com") {
			continue // it is refused (K9)
		}
		if rapid.Bool().Draw(t, a) {
			annotations = append(annotations, a)
		}
	}
	if len(annotations) > 1 && strings.Contains(annotations[1], "logs:open") && strings.Contains(annotations[0], "data:state") {
		annotations = annotations[1:] // they must agree
	}
	meta := "metadata:\n  name: app # its name\n  annotations: {" + strings.Join(annotations, ", ") + "}\n"
	spec := "containers:\n- name: app\n  image: app\n"
	if rapid.Bool().Draw(t, "mounts") {
		spec += "  volumeMounts:\n  - {name: data2, mountPath: /x}\n"
	}
	if rapid.Bool().Draw(t, "inits") {
		spec += "initContainers: # before\n- name: first\n  image: first\n"
	}
	if rapid.Bool().Draw(t, "old initializer") {
		if !strings.Contains(spec, "initContainers") {
			spec += "initContainers:\n"
		}
		spec += "- name: contrast-initializer\n  image: old\n  volumeMounts: [{name: former, mountPath: /state}]\n"
	}
	spec += "volumes:\n- name: data\n  persistentVolumeClaim: {claimName: a}\n- name: logs\n  persistentVolumeClaim: {claimName: b}\n- name: data2\n  configMap: {name: c}\n"
	for _, v := range []string{"- name: former\n  emptyDir: {medium: Memory}\n", "- name: state\n  hostPath: {path: /x}\n", "- name: contrast-secrets\n  emptyDir: {}\n"} {
		if rapid.Bool().Draw(t, v) {
			spec += v
		}
	}
	indent := func(n int, text string) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+pad) + "\n"
	}
	head := fmt.Sprintf("# %s\napiVersion: %s\nkind: %s\n", kind, version, strings.TrimSuffix(kind, ".example.com"))
	switch kind {
	case "Pod", "Pod.example.com":
		return head + meta + "spec:\n" + indent(2, spec)
	case "ConfigMap":
		return head + meta + "data:\n" + indent(2, spec)
	case "CronJob":
		return head + meta + "spec:\n  schedule: '* * * * *'\n  jobTemplate:\n    spec:\n      template:\n        spec:\n" + indent(10, spec)
	}
	return head + meta + "spec:\n  template:\n" + indent(4, meta) + "    spec:\n" + indent(6, spec)
}

// Generating twice is the same as once, and nothing outside of what the RFC lists changes.
func TestPV10GenerateTwiceIsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := workload(t)
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			text += "---\n" + workload(t)
		}
		once, err := securepv.Generate([]securepv.File{{Name: "x", Text: []byte(text)}}, options)
		require.NoError(t, err, text)
		twice, err := securepv.Generate([]securepv.File{{Name: "x", Text: once[0].Text}}, options)
		require.NoError(t, err, string(once[0].Text))
		require.Equal(t, string(once[0].Text), string(twice[0].Text), text)
		require.Empty(t, twice[0].Warnings)
		before, after := strings.Split(text, "\n---\n"), strings.Split(string(once[0].Text), "\n---\n")
		require.Len(t, after, len(before))
		for i := range before {
			require.Empty(t, cmp.Diff(others(t, before[i]), others(t, after[i])))
			for _, comment := range []string{"# its name", "# before"} {
				require.Equal(t, strings.Count(before[i], comment), strings.Count(after[i], comment))
			}
		}
	})
}

// others is a document without what generate may change.
func others(t *rapid.T, text string) any {
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return strip(v)
}

func strip(v any) any {
	switch v := v.(type) {
	case []any:
		var out []any
		for _, item := range v {
			if m, ok := item.(map[string]any); ok {
				switch m["name"] {
				case "contrast-initializer", "contrast-secrets", "state", "open", "former":
					continue
				}
			}
			out = append(out, strip(item))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			if item = strip(item); item != nil {
				if items, ok := item.([]any); !ok || len(items) > 0 {
					out[key] = item
				}
			}
		}
		return out
	}
	return v
}
