package securepv_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"strongroom/securepv"
)

// ownersOf gives what an initializer is told of owners, "" where nothing.
func ownersOf(t *testing.T, text string) string {
	t.Helper()
	env := decode(t, []byte(text)).InitContainers[0].Env
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "CRYPTSETUP_OWNER" })
	if i < 0 {
		return ""
	}
	return env[i].Value
}

// PV-11: a new file system is its workload's, as the securityContext of the pod and of the containers that write to it say.
func TestPV11ANewFileSystemIsTheWorkloads(t *testing.T) {
	t.Parallel()
	const state = "volumeMounts: [{name: state, mountPath: /srv}]"
	for name, c := range map[string]struct{ pod, app, side, want string }{
		"nobody says":                   {"", state, "", ""},
		"root":                          {"runAsUser: 0, runAsGroup: 0", state, "", ""},
		"the pod's user":                {"runAsUser: 1000", state, "", "1000:0"},
		"the pod's user and group":      {"runAsUser: 1000, runAsGroup: 2000", state, "", "1000:2000"},
		"fsGroup before runAsGroup":     {"runAsUser: 1000, runAsGroup: 2000, fsGroup: 3000", state, "", "1000:3000"},
		"fsGroup alone":                 {"fsGroup: 3000, runAsNonRoot: true", state, "", "0:3000"},
		"the container's user":          {"runAsUser: 1000, runAsGroup: 2000", state + ", securityContext: {runAsUser: 7}", "", "7:2000"},
		"the container is root":         {"runAsUser: 1000", state + ", securityContext: {runAsUser: 0}", "", ""},
		"one of them does not mount it": {"", state + ", securityContext: {runAsUser: 7}", "securityContext: {runAsUser: 8}", "7:0"},
		"one of them only reads it":     {"", state + ", securityContext: {runAsUser: 7}", "volumeMounts: [{name: state, mountPath: /x, readOnly: true}], securityContext: {runAsUser: 8}", "7:0"},
		"two groups of one user":        {"", state + ", securityContext: {runAsUser: 7, runAsGroup: 8}", state + ", securityContext: {runAsUser: 7, runAsGroup: 9}", "7:0"},
		"two users of one group":        {"", state + ", securityContext: {runAsUser: 7, runAsGroup: 9}", state + ", securityContext: {runAsUser: 8, runAsGroup: 9}", "0:9"},
		"one of them is root":           {"", state + ", securityContext: {runAsUser: 7}", state, "7:0"},
		"both are the same":             {"", state + ", securityContext: {runAsUser: 7}", state + ", securityContext: {runAsUser: 7, runAsGroup: 0}", "7:0"},
		"nobody mounts it":              {"runAsUser: 1000", "", "", "1000:0"},
		"several and a group":           {"fsGroup: 3000", state + ", securityContext: {runAsUser: 7}", state + ", securityContext: {runAsUser: 8}", "0:3000"},
		"in octal digits":               {"runAsUser: 0o1750", state, "", "1000:0"},
		"by an alias":                   {"runAsUser: &user 1000, runAsGroup: *user", state, "", "1000:1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.NewReplacer("  containers:\n", "  securityContext: {"+c.pod+"}\n  containers:\n  - {name: side, image: side, "+c.side+"}\n",
				"    image: app\n", "    image: app\n    "+strings.ReplaceAll(c.app, ", securityContext", "\n    securityContext")+"\n").Replace(podWith(annotated))
			once := generate(t, text)
			require.Equal(t, c.want, ownersOf(t, once))
			require.Equal(t, once, generate(t, once))
			asJSON, err := yaml.YAMLToJSON([]byte(text))
			require.NoError(t, err)
			require.Equal(t, c.want, ownersOf(t, generate(t, string(asJSON))))
			require.NotContains(t, generate(t, strings.Replace(text, annotated, "", 1)), "CRYPTSETUP_OWNER")
		})
	}
}

// PV-11: each volume is its own containers', in the order of the devices, as a golden file; where no owner can be found that suits all, the user is told, and
// what is no number is refused.
func TestPV11OwnersOfVolumes(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: v1
kind: Pod
metadata:
  name: app
  annotations: {strongroom.dev/secure-pv: "one:first,two:second,three:third"}
spec:
  containers:
  - name: a
    image: a
    securityContext: {runAsUser: 7, runAsGroup: 8}
    volumeMounts: [{name: first, mountPath: /x}, {name: third, mountPath: /y}]
  - name: b
    image: b
    volumeMounts: [{name: second, mountPath: /x}]
  volumes:
  - {name: one, persistentVolumeClaim: {claimName: one}}
  - {name: two, persistentVolumeClaim: {claimName: two}}
  - {name: three, persistentVolumeClaim: {claimName: three}}
`
	once := generate(t, text)
	golden(t, "testdata/options/owner.out.yaml", once)
	require.Equal(t, "7:8,0:0,7:8", ownersOf(t, once))

	differ := strings.Replace(text, "    image: b\n    volumeMounts: [", "    image: b\n    securityContext: {runAsUser: 9}\n    volumeMounts: [{name: first, mountPath: /z}, ", 1)
	got, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(differ)}}, options)
	require.NoError(t, err)
	require.Equal(t, []string{`app.yaml: document 1, Pod "app": containers a, b write to "first" as different users, or as one that only their image tells, and the new file system stays root's: say a securityContext.fsGroup of the pod`}, got[0].Warnings)
	require.Equal(t, "0:0,9:0,7:8", ownersOf(t, string(got[0].Text)))
	anonymous := strings.Replace(text, "{runAsUser: 7, runAsGroup: 8}", "{runAsNonRoot: true}", 1)
	got, err = securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(anonymous)}}, options)
	require.NoError(t, err)
	require.Len(t, got[0].Warnings, 2, "of both volumes of a: %v", got[0].Warnings)
	require.Contains(t, got[0].Warnings[0], `containers a write to "first" as different users, or as one that only their image tells`)
	sidecar := strings.Replace(text, "  containers:\n  - name: a\n", "  initContainers:\n  - {name: s, image: s, restartPolicy: Always, securityContext: {runAsUser: 9}, volumeMounts: [{name: second, mountPath: /z}]}\n  containers:\n  - name: a\n", 1)
	require.Equal(t, "7:8,9:0,7:8", ownersOf(t, generate(t, sidecar)), "b is root")
	for value, says := range map[string]string{"runAsUser: somebody": `securityContext.runAsUser: "somebody" is no number of a user or a group`, "runAsGroup: -1": "runAsGroup", "runAsUser: 4294967296": "runAsUser", "runAsUser: 7, fsGroup: [a]": "fsGroup"} {
		refused(t, strings.Replace(podWith(annotated), "  containers:\n", "  securityContext: {"+value+"}\n  containers:\n", 1), `Pod "app": securityContext.`, says)
	}
}
