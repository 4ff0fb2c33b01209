package securepv_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"strongroom/securepv"
)

var update = flag.Bool("update", false, "write the golden files anew")

var options = securepv.Options{Image: "registry.example/initializer@sha256:0123"}

func generate(t *testing.T, text string) string {
	t.Helper()
	return generateWith(t, options, text)
}

func generateWith(t *testing.T, o securepv.Options, text string) string {
	t.Helper()
	got, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(text)}}, o)
	require.NoError(t, err, text)
	require.Empty(t, got[0].Warnings)
	return string(got[0].Text)
}

// decode reads what generate wrote as the API server does, which refuses unknown and doubled fields, and
// gives the pod's spec.
func decode(t *testing.T, text []byte) corev1.PodSpec {
	t.Helper()
	var of struct {
		Kind string `json:"kind"`
	}
	require.NoError(t, yaml.Unmarshal(text, &of))
	strict := func(into any) { t.Helper(); require.NoError(t, yaml.UnmarshalStrict(text, into), "%s", text) }
	switch of.Kind {
	case "Pod":
		var o corev1.Pod
		strict(&o)
		return o.Spec
	case "Deployment":
		var o appsv1.Deployment
		strict(&o)
		return o.Spec.Template.Spec
	case "ReplicaSet":
		var o appsv1.ReplicaSet
		strict(&o)
		return o.Spec.Template.Spec
	case "ReplicationController":
		var o corev1.ReplicationController
		strict(&o)
		return o.Spec.Template.Spec
	case "StatefulSet":
		var o appsv1.StatefulSet
		strict(&o)
		return o.Spec.Template.Spec
	case "DaemonSet":
		var o appsv1.DaemonSet
		strict(&o)
		return o.Spec.Template.Spec
	case "Job":
		var o batchv1.Job
		strict(&o)
		return o.Spec.Template.Spec
	case "CronJob":
		var o batchv1.CronJob
		strict(&o)
		return o.Spec.JobTemplate.Spec.Template.Spec
	}
	t.Fatalf("no workload: %s", of.Kind)
	return corev1.PodSpec{}
}

// golden requires the text of a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// PV-03, PV-04, PV-05, PV-06, PV-13: every kind gets the initializer of the RFC, as golden files.
func TestPV13EveryKindGetsTheInitializer(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.Len(t, inputs, 8)
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(input)
			require.NoError(t, err)
			got := generate(t, string(text))
			golden(t, strings.Replace(input, ".in.", ".out.", 1), got)

			pod := decode(t, []byte(got))
			c := pod.InitContainers[0]
			require.Equal(t, "contrast-initializer", c.Name)
			require.Equal(t, options.Image, c.Image)
			require.Contains(t, c.Env, corev1.EnvVar{Name: "CRYPTSETUP_DEVICE", Value: "/dev/csi0"})
			require.True(t, *c.SecurityContext.Privileged)
			require.Equal(t, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/csi0"}}, c.VolumeDevices)
			both := corev1.MountPropagationBidirectional
			require.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "state", MountPath: "/state", MountPropagation: &both})
			require.Equal(t, corev1.ContainerRestartPolicyAlways, *c.RestartPolicy)
			require.Equal(t, []string{"/bin/test", "-f", "/done"}, c.StartupProbe.Exec.Command)
			require.EqualValues(t, time.Hour/time.Second, c.StartupProbe.FailureThreshold*c.StartupProbe.PeriodSeconds)
			require.Equal(t, "100Mi", c.Resources.Limits.Memory().String())
			require.Equal(t, "100Mi", c.Resources.Requests.Memory().String())
			require.Contains(t, pod.Volumes, corev1.Volume{Name: "state", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			}})
			for _, other := range append(pod.InitContainers[1:], pod.Containers...) {
				require.Contains(t, other.VolumeMounts, corev1.VolumeMount{Name: "contrast-secrets", MountPath: "/contrast"}, other.Name)
			}
		})
	}
}

const pod = `apiVersion: v1
kind: Pod
metadata:
  name: app
  annotations: {%s}
spec:
  containers:
  - name: app
    image: app
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
`

func podWith(annotations string) string { return strings.Replace(pod, "%s", annotations, 1) }

const annotated = `contrast.edgeless.systems/secure-pv: "data:state"`

// PV-06: the probe waits at least as long as it is told, and looks every five seconds. It outlasts the format of a volume on slow storage, for one that is killed meanwhile begins again.
func TestPV06TheProbeBearsSlowStorage(t *testing.T) {
	t.Parallel()
	for wait, periods := range map[time.Duration]int32{0: 720, time.Nanosecond: 1, 5 * time.Second: 1, 5001 * time.Millisecond: 2, 100 * time.Second: 20, 12 * time.Hour: 8640} {
		with := options
		with.StartupTime = wait
		once := generateWith(t, with, podWith(annotated))
		probe := decode(t, []byte(once)).InitContainers[0].StartupProbe
		require.Equal(t, []int32{periods, 5}, []int32{probe.FailureThreshold, probe.PeriodSeconds}, wait)
		require.Zero(t, probe.InitialDelaySeconds)
		require.Equal(t, once, generateWith(t, with, once))
		require.Equal(t, once, generateWith(t, with, strings.Replace(once, "failureThreshold: ", "failureThreshold: 2", 1)))
		require.Equal(t, generate(t, podWith("")), generateWith(t, with, podWith("")), "one that opens nothing has none")
	}
}

// PV-07: without the annotation the initializer has nothing of the volume, and ends.
func TestPV07WithoutTheAnnotation(t *testing.T) {
	t.Parallel()
	got := decode(t, []byte(generate(t, podWith(""))))
	c := got.InitContainers[0]
	require.Equal(t, []corev1.EnvVar{{Name: "COORDINATOR_HOST", Value: "coordinator-ready.default"}}, c.Env)
	require.Nil(t, c.RestartPolicy)
	require.Nil(t, c.StartupProbe)
	require.Empty(t, c.VolumeDevices)
	require.Nil(t, c.SecurityContext.Privileged)
	require.Equal(t, []corev1.Capability{"NET_ADMIN"}, c.SecurityContext.Capabilities.Add)
	require.Equal(t, "50Mi", c.Resources.Limits.Memory().String())
	require.Equal(t, []corev1.VolumeMount{{Name: "contrast-secrets", MountPath: "/contrast"}}, c.VolumeMounts)
	require.Len(t, got.Volumes, 2)
}

// PV-10: generating again after the annotation was removed leaves what there would be without it.
func TestPV10TheAnnotationIsRemoved(t *testing.T) {
	t.Parallel()
	once := generate(t, podWith(annotated))
	require.Contains(t, once, "CRYPTSETUP_DEVICE")
	without := strings.Replace(once, annotated, "", 1)
	require.Equal(t, generate(t, podWith("")), generate(t, without))

	other := strings.Replace(once, "data:state", "data:elsewhere", 1)
	require.Equal(t, generate(t, podWith(strings.Replace(annotated, "data:state", "data:elsewhere", 1))), generate(t, other), "another mount takes its place")

	app := strings.Index(without, "image: app\n")
	used := without[:app] + strings.Replace(without[app:], "volumeMounts:\n", "volumeMounts:\n    - {name: state, mountPath: /x}\n", 1)
	require.NotEqual(t, without, used)
	refused(t, used, `container "app" still mounts "state"`)
}

// PV-08: of the workload's containers each has the mounts that its user wrote, and the secrets; the decrypted volume is given to none.
func TestPV08NobodyIsGivenTheMount(t *testing.T) {
	t.Parallel()
	text := strings.Replace(podWith(annotated), "  containers:\n", `  initContainers:
  - name: first
    image: first
  containers:
  - name: mounts
    image: app
    volumeMounts: [{name: state, mountPath: /srv, mountPropagation: HostToContainer, readOnly: true}]
`, 1)
	got := decode(t, []byte(generate(t, text)))
	secrets := corev1.VolumeMount{Name: "contrast-secrets", MountPath: "/contrast"}
	slave := corev1.MountPropagationHostToContainer
	for name, want := range map[string][]corev1.VolumeMount{
		"first": {secrets}, "app": {secrets},
		"mounts": {{Name: "state", MountPath: "/srv", MountPropagation: &slave, ReadOnly: true}, secrets},
	} {
		all := append(got.InitContainers[1:], got.Containers...)
		at := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
		require.Equal(t, want, all[at].VolumeMounts, name)
		require.Empty(t, all[at].VolumeDevices, name)
		require.Nil(t, all[at].SecurityContext, name)
	}
}

// PV-10: the example of docs/secure-pv.md, with what it says that the pod has, and back as it says.
func TestPV10TheExampleAndBack(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/secure-pv.md")
	require.NoError(t, err)
	docs := string(text)
	block := func(begin string) (block string) {
		_, docs, _ = strings.Cut(docs, begin)
		block, docs, _ = strings.Cut(docs, "```")
		require.NotEmpty(t, block, begin)
		return block
	}
	o := options
	o.Image, o.Secret = "registry.example/strongroom/initializer@sha256:…", &securepv.Secret{Name: "shop", Key: "seed"}
	example := block("```yaml\n")
	there := generateWith(t, o, example)
	require.Contains(t, there, block("```yaml\n"))

	edit := "sed" + strings.Split(block("$ sed"), "\n")[0]
	back := func(yaml string) string {
		file := filepath.Join(t.TempDir(), "shop.yaml")
		require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
		do := exec.Command("sh", "-c", edit)
		do.Dir = filepath.Dir(file)
		out, err := do.CombinedOutput()
		require.NoError(t, err, string(out))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return generateWith(t, o, string(text))
	}
	require.Equal(t, decode(t, []byte(back(example))), decode(t, []byte(back(there))))
	pod := decode(t, []byte(back(there)))
	require.Nil(t, pod.InitContainers[0].RestartPolicy)
	require.Equal(t, []corev1.VolumeMount{{Name: "contrast-secrets", MountPath: "/contrast"}}, pod.Containers[0].VolumeMounts)
	require.Equal(t, there, generateWith(t, o, there))
}

// PV-09: a workload that is to be left alone is, to the byte, whatever its annotation says; and so is everything with the flag.
func TestPV09Skipped(t *testing.T) {
	t.Parallel()
	for _, skip := range []string{`contrast.edgeless.systems/skip-initializer: "true"`, `strongroom.dev/skip-initializer: "true"`, `contrast.edgeless.systems/pod-role: coordinator`} {
		for _, secure := range []string{annotated, `strongroom.dev/secure-pv: "nothing"`, `strongroom.dev/secure-pv: "none:state"`} {
			text := podWith(secure + ", " + skip)
			require.Equal(t, text, generate(t, text))
		}
	}
	for _, odd := range []string{
		"metadata: {name: a, annotations: {contrast.edgeless.systems/skip-initializer: \"true\"}}\nspec: &pod {containers: []}\nother: *pod\n",
		"metadata: &m {name: a, annotations: &a {strongroom.dev/skip-initializer: \"true\"}}\nspec:\n  <<: *m\n  containers: none\n",
		"metadata: {name: a, annotations: {strongroom.dev/skip-initializer: \"true\"}}\nspec: []\n",
	} {
		text := "apiVersion: v1\nkind: Pod\n" + odd
		require.Equal(t, text, generate(t, text), "whatever else it has")
	}
	require.NotEqual(t, podWith(`strongroom.dev/skip-initializer: "false"`), generate(t, podWith(`strongroom.dev/skip-initializer: "false"`)))
	o := options
	o.SkipInitializer = true
	for _, secure := range []string{annotated, `strongroom.dev/secure-pv: "nothing"`} {
		require.Equal(t, podWith(secure), generateWith(t, o, podWith(secure)))
	}
}

// PV-04: to mount, the initializer is root, also where the pod's containers are to be somebody else. Without a volume it is whom
// the pod says, so that what it writes is theirs.
func TestPV04RootInAPodOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says  string
		other bool
	}{{"runAsUser: 1000", true}, {"runAsNonRoot: true", true}, {"runAsUser: 0", false}, {"fsGroup: 7", false}} {
		in := func(annotations string) string {
			return strings.Replace(podWith(annotations), "  containers:\n", "  securityContext: {"+c.says+"}\n  containers:\n", 1)
		}
		got := generate(t, in(annotated))
		require.Equal(t, got, generate(t, got))
		require.Equal(t, c.other, strings.Contains(got, "      privileged: true\n      runAsUser: 0\n      runAsNonRoot: false\n"), got)
		require.Contains(t, got, "privileged: true")
		require.NotContains(t, generate(t, in(`a: "b"`)), "runAsNonRoot: false")
	}
}

// PV-12: what somebody wrote by hand stays as it is where the workload is skipped; and PV-14: it may name
// another device.
func TestPV12ByHand(t *testing.T) {
	t.Parallel()
	hand := podWith(`contrast.edgeless.systems/skip-initializer: "true"`) + `  initContainers:
  - name: contrast-initializer
    env: [{name: CRYPTSETUP_DEVICE, value: /dev/sdx}]
`
	require.Equal(t, hand, generate(t, hand))
}

// Documents that are not workloads, comments, the order of keys and the style of lists stay.
func TestTheRestStays(t *testing.T) {
	t.Parallel()
	other := "# a service\napiVersion: v1\nkind: Service\nmetadata: {name:   odd}\nspec:\n    ports:\n        - port:  80\n"
	text := "# first\n---\n" + other + "--- # the pod\n" + strings.Replace(podWith(annotated), "  containers:\n", "  # what runs\n  containers: # one\n", 1) + "---\n" + other
	got := generate(t, text)
	require.Equal(t, 2, strings.Count(got, other), "other documents stay to the byte")
	require.Contains(t, got, "--- # the pod\n")
	require.Contains(t, got, "  # what runs\n  containers: # one\n  - name: app\n")
	require.Equal(t, got, generate(t, got))
	foreign := strings.Replace(podWith(""), "apiVersion: v1", "apiVersion: example.com/v1", 1)
	require.Equal(t, foreign, generate(t, foreign), "a kind of the same name in another group")
	wide := strings.ReplaceAll(podWith(annotated), "\n  - name", "\n    - name")
	wide = strings.ReplaceAll(strings.ReplaceAll(wide, "\n    image", "\n      image"), "\n    persistent", "\n      persistent")
	require.Contains(t, generate(t, wide), "  initContainers:\n    - name: contrast-initializer\n")
	empty := "---\n# nothing\n---\n"
	require.Equal(t, empty, generate(t, empty))
	require.Empty(t, generate(t, ""))
}

// Objects of a List are workloads, too.
func TestAList(t *testing.T) {
	t.Parallel()
	text := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(podWith(annotated)), "\n", "\n  ") + "\n"
	got := generate(t, text)
	require.Contains(t, got, "CRYPTSETUP_DEVICE")
	require.Equal(t, got, generate(t, got))
}

// indented is a text two columns further in, as an item of a list.
func indented(text string) string {
	return "- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// K9: workloads in lists of every form get their initializers, those too that leave their kind to the list.
func TestK9ListsInWhateverForm(t *testing.T) {
	t.Parallel()
	pod := podWith(annotated)
	untyped := strings.NewReplacer("apiVersion: v1\n", "", "kind: Pod\n", "").Replace(pod)
	require.NotEqual(t, pod, untyped)
	for name, text := range map[string]string{
		"typed":        "apiVersion: v1\nkind: PodList\nitems:\n" + indented(pod),
		"by the list":  "apiVersion: v1\nkind: PodList\nitems:\n" + indented(untyped),
		"list in list": "apiVersion: v1\nkind: List\nitems:\n" + indented("apiVersion: v1\nkind: List\nitems:\n"+indented(pod)),
		"typed within": "apiVersion: v1\nkind: List\nitems:\n" + indented("apiVersion: v1\nkind: PodList\nitems:\n"+indented(untyped)),
		"beside":       "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: x}}\n---\n" + pod,
	} {
		got := generate(t, text)
		require.Equal(t, 1, strings.Count(got, "CRYPTSETUP_DEVICE"), "%s:\n%s", name, got)
		require.Equal(t, got, generate(t, got), name)
	}
}

// K9: an annotation that would have no effect is never passed over.
func TestK9NoAnnotationIsPassedOver(t *testing.T) {
	t.Parallel()
	const annotations = `annotations: {contrast.edgeless.systems/secure-pv: "data:state"}`
	for name, c := range map[string]struct{ text, why string }{
		"another group": {"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: a}\nspec: {template: {metadata: {" + annotations + "}}}\n",
			`Rollout "a": annotation secure-pv at spec.template.metadata.annotations: a Rollout of argoproj.io is no workload`},
		"old version": {"apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a, " + annotations + "}\nspec: {}\n",
			`Deployment "a": annotation secure-pv at metadata.annotations: a Deployment of extensions is no workload`},
		"no kind":      {"metadata: {name: a, " + annotations + "}\n", "this object says no kind"},
		"a list":       {"apiVersion: v1\nkind: PodList\nmetadata: {" + annotations + "}\nitems: []\n", "PodList"},
		"in a list":    {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: example.com/v1, kind: Box, metadata: {name: b, " + annotations + "}}\n", `Box "b"`},
		"no list":      {"apiVersion: example.com/v1\nkind: AccessList\nmetadata: {name: a, " + annotations + "}\n", `AccessList "a"`},
		"many in JSON": {`[{"kind": "Pod", "metadata": {"annotations": {"strongroom.dev/secure-pv": "data:state"}}}]`, "at 0.metadata.annotations: this object says no kind"},
		"by an alias":  {"x: &x {" + annotations + "}\napiVersion: example.com/v1\nkind: Box\nmetadata: *x\n", "Box"},
		"for its pods": {"apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\nmetadata: {name: p}\nspec: {podMetadata: {" + annotations + "}}\n",
			`Prometheus "p": annotation secure-pv at spec.podMetadata.annotations`},
		"its pods' own": {"apiVersion: example.com/v1\nkind: Box\nmetadata: {name: b}\nspec: {podA" + annotations[1:] + "}\n",
			`Box "b": annotation secure-pv at spec.podAnnotations`},
		"of a driver": {"apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: s}\nspec: {driver: {" + annotations + "}}\n",
			`SparkApplication "s": annotation secure-pv at spec.driver.annotations`},
		"of a replica set": {"apiVersion: psmdb.percona.com/v1\nkind: PerconaServerMongoDB\nmetadata: {name: m}\nspec: {replsets: [{name: rs0, " + annotations + "}]}\n",
			`PerconaServerMongoDB "m": annotation secure-pv at spec.replsets.0.annotations`},
		"job template": {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {jobTemplate: {metadata: {" + annotations + "}, spec: {template: {spec: {}}}}}\n",
			`CronJob "c": annotation secure-pv at spec.jobTemplate.metadata.annotations`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.why)
		})
	}
	skipped := `annotations: {contrast.edgeless.systems/secure-pv: "data:state", strongroom.dev/skip-initializer: "true"}`
	text := "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: a, " + skipped + "}\n"
	require.Equal(t, text, generate(t, text), "it says so in so many words")
	for _, text := range []string{ // a policy that looks for the annotation, a kind that is called so, and one that has items of its own
		"apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nspec: {rules: [{match: {resources: {" + annotations + "}}}]}\n",
		"apiVersion: example.com/v1\nkind: AccessList\nitems: [a, b]\n",
		"apiVersion: example.com/v1\nkind: AccessList\nitems: {a: b}\n",
		"apiVersion: example.com/v1\nkind: AccessList\nitems:\n",
		"apiVersion: example.com/v1\nkind: Box\nmetadata: {annotations: {strongroom.dev/skip-initializer: \"true\"}}\nspec: {template: {metadata: {" + annotations + "}}}\n",
	} {
		require.Equal(t, text, generate(t, text))
	}
}

// K9: nor is one that a YAML merge (<<) brings, or a key that is an alias, wherever it stands.
func TestK9NoAnnotationIsPassedOverByAMerge(t *testing.T) {
	t.Parallel()
	const (
		volumes  = `contrast.edgeless.systems/secure-pv: "data:state"`
		rollout  = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\n"
		deployed = "apiVersion: apps/v1\nkind: Deployment\n"
		cron     = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\n"
		pods     = "containers: [{name: a, image: i}]"
		from     = "x-m: &m {annotations: &a {" + volumes + "}}\n"
		key      = "x-k: &k contrast.edgeless.systems/secure-pv\n"
	)
	for name, c := range map[string]struct{ text, why string }{
		"another's metadata":     {from + rollout + "metadata: {<<: *m, name: r}\n", `document 1, Rollout "r": annotation secure-pv at metadata.<<.annotations: a Rollout of argoproj.io is no workload`},
		"another's annotations":  {from + rollout + "metadata: {name: r, annotations: {<<: *a, b: c}}\n", "at metadata.annotations.<<: a Rollout"},
		"another's pod metadata": {from + rollout + "metadata: {name: r}\nspec: {template: {metadata: {<<: *m}}}\n", "at spec.template.metadata.<<.annotations: a Rollout"},
		"a list of merges":       {from + rollout + "metadata: {<<: [{name: r}, *m]}\n", "at metadata.<<.1.annotations: a Rollout"},
		"a merge of a merge":     {from + "x-n: &n {<<: *m}\n" + rollout + "metadata: {<<: *n, name: r}\n", "at metadata.<<.<<.annotations: a Rollout"},
		"all of the object":      {"<<: {apiVersion: v1, kind: Pod, metadata: {name: r, annotations: {" + volumes + "}}}\n", "at <<.metadata.annotations: this object says no kind"},
		"a skip that is undone":  {"x: &x {" + volumes + ", strongroom.dev/skip-initializer: \"true\"}\n" + rollout + "metadata: {name: r, annotations: {<<: *x, strongroom.dev/skip-initializer: \"false\"}}\n", "a Rollout"},
		"its metadata":           {from + deployed + "metadata: {<<: *m, name: d}\nspec: {template: {spec: {" + pods + "}}}\n", `Deployment "d": annotation secure-pv at metadata.<<.annotations: it is a YAML alias or merges one: write it out`},
		"its annotations":        {from + deployed + "metadata: {name: d, annotations: {<<: *a}}\nspec: {template: {spec: {" + pods + "}}}\n", "at metadata.annotations.<<: it is a YAML alias or merges one"},
		"what it has itself":     {from + deployed + "<<: {metadata: *m}\nmetadata: {name: d}\nspec: {template: {spec: {" + pods + "}}}\n", "at <<.metadata.annotations: it is a YAML alias or merges one"},
		"its template":           {from + deployed + "metadata: {name: d}\nspec: {<<: {template: {metadata: {<<: *m}, spec: {" + pods + "}}}}\n", "at spec.<<.template.metadata.<<.annotations: it is a YAML alias or merges one"},
		"its job's metadata":     {from + cron + "spec: {jobTemplate: {metadata: {<<: *m}, spec: {template: {spec: {" + pods + "}}}}}\n", "at spec.jobTemplate.metadata.<<.annotations"},
		"in a list":              {from + "apiVersion: v1\nkind: List\n<<: {items: [{apiVersion: v1, kind: Pod, metadata: {<<: *m}}]}\n", "at <<.items.0.metadata.<<.annotations: a List"},
		"a key that is an alias": {key + strings.Replace(podWith(volumes), volumes, `*k : "data:state"`, 1), `Pod "app": annotation secure-pv at metadata.annotations: it is a YAML alias`},
		"another's such key":     {key + rollout + "metadata: {name: r, annotations: {*k : x}}\n", "at metadata.annotations: a Rollout"},
		"such a key of a list":   {"x-k: &k items\napiVersion: v1\nkind: List\n*k :\n" + indented(podWith(volumes)), "at items.0.metadata.annotations: a List"},
		"a key on the way":       {"x-k: &k annotations\n" + strings.Replace(podWith(volumes), "annotations:", "*k :", 1), "at metadata.annotations: it is a YAML alias"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.why)
		})
	}
	for _, text := range []string{
		from + rollout + "metadata: {name: r, labels: {<<: *a}}\n",
		from + rollout + "metadata: {name: r, annotations: {<<: *a, strongroom.dev/skip-initializer: \"true\"}}\n",
		from + "x-n: &n {<<: [*m, *m]}\nx-o: &o {<<: [*n, *n]}\n" + rollout + "metadata: {name: r}\n",
	} {
		require.Equal(t, text, generate(t, text))
	}
}

// PV-01: several volumes of one workload have devices and mounts of their own.
func TestPV01SeveralVolumes(t *testing.T) {
	t.Parallel()
	text := strings.Replace(podWith(`strongroom.dev/secure-pv: "data:state, logs:logs-open"`), "  volumes:\n", "  volumes:\n  - name: logs\n    ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Block}}}\n", 1)
	c := decode(t, []byte(generate(t, text))).InitContainers[0]
	require.Equal(t, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/csi0"}, {Name: "logs", DevicePath: "/dev/csi1"}}, c.VolumeDevices)
	require.Equal(t, "/state", c.VolumeMounts[1].MountPath)
	require.Equal(t, "/state1", c.VolumeMounts[2].MountPath)
	require.Contains(t, c.Env, corev1.EnvVar{Name: "CRYPTSETUP_DEVICE", Value: "/dev/csi0,/dev/csi1"})
}

// PV-03: a volume that has the mount's name is replaced, and the user is told.
func TestPV03AnExistingVolumeIsReplaced(t *testing.T) {
	t.Parallel()
	text := podWith(annotated) + "  - name: state\n    hostPath: {path: /x}\n"
	got, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(text)}}, options)
	require.NoError(t, err)
	require.Equal(t, []string{`app.yaml: document 1, Pod "app": volume "state" is replaced by an emptyDir in memory, where the file system of "data" appears`}, got[0].Warnings)
	require.NotContains(t, string(got[0].Text), "hostPath")
	own, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(podWith("") + "  - name: contrast-secrets\n    hostPath: {path: /x}\n")}}, options)
	require.NoError(t, err)
	require.Equal(t, []string{`app.yaml: document 1, Pod "app": volume "contrast-secrets" is replaced by an emptyDir in memory, where the initializer writes the secrets`}, own[0].Warnings)
	again, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: got[0].Text}}, options)
	require.NoError(t, err)
	require.Empty(t, again[0].Warnings)
}

func refused(t *testing.T, text string, why ...string) {
	t.Helper()
	got, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(text)}}, options)
	require.Nil(t, got)
	for _, w := range why {
		require.ErrorContains(t, err, w)
	}
}

// PV-01, PV-02: what cannot be done is refused, and the message names file, document, object and field.
func TestPV02Refused(t *testing.T) {
	t.Parallel()
	for value, why := range map[string]string{
		"data": "format 'device-name:mount-name'", "": "format", "data:": "format", ":state": "format", "a:b:c": "format", "data:state,": "format",
		"data:data": "named twice", "data:a,data:b": "named twice", "Data:state": "no name of a volume", "data:st/ate": "no name of a volume",
		"nothing:state": `device "nothing" not found`, "data:contrast-secrets": "the initializer's own volume", "contrast-secrets:state": "the initializer's own volume",
		"data:initializer-secret": "the initializer's own volume", "data:a,logs:initializer-secret": "the initializer's own volume",
	} {
		refused(t, "---\n---\n"+podWith(`strongroom.dev/secure-pv: "`+value+`"`), `app.yaml: document 2, Pod "app": annotation secure-pv`, why)
	}
	refused(t, podWith(`strongroom.dev/secure-pv: 7`), "put it in quotes")
	refused(t, podWith(`strongroom.dev/secure-pv: "data:a", `+annotated), "must agree")
	refused(t, strings.Replace(podWith(annotated), "persistentVolumeClaim: {claimName: data}", "emptyDir: {}", 1), `volume "data" must be a PersistentVolumeClaim`)
	refused(t, strings.Replace(podWith(annotated), "persistentVolumeClaim: {claimName: data}", "ephemeral: {volumeClaimTemplate: {spec: {}}}", 1), "volumeMode must be Block")
	refused(t, strings.Replace(podWith(annotated), "spec:\n", "spec: &x\n", 1)+"---\n"+strings.Replace(podWith(annotated), "  containers:\n", "  containers: nothing\n  initContainers:\n", 1), "it must be a list")
	refused(t, "a: &a {name: x}\n"+strings.Replace(podWith(annotated), "spec:\n", "spec:\n  <<: *a\n", 1), "YAML alias")
	refused(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: empty}\n", `Pod "empty": spec: the Pod has no pod`)
	refused(t, "a: [\n---\nb: }\n", "document 1", "document 2")
	refused(t, podWith(annotated)+"...\n"+podWith(annotated), "another document begins")
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {volumeMode: Filesystem}\n---\n"
	refused(t, claim+podWith(annotated), "PersistentVolumeClaim default/data: spec.volumeMode must be Block")
	require.Contains(t, generate(t, strings.Replace(claim, "Filesystem", "Block", 1)+podWith(annotated)), "CRYPTSETUP_DEVICE")
	require.Contains(t, generate(t, strings.Replace(claim, "name: data", "name: data, namespace: other", 1)+podWith(annotated)), "CRYPTSETUP_DEVICE", "of another namespace")
}

// A claim may stand in another file.
func TestClaimsOfOtherFiles(t *testing.T) {
	t.Parallel()
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {}\n"
	_, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(podWith(annotated))}, {Name: "claim.yaml", Text: []byte(claim)}}, options)
	require.ErrorContains(t, err, "volumeMode must be Block")
}

// A statefulset's template is looked for among its claims alone of its kind.
func TestPV02ClaimTemplates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/statefulset.in.yaml")
	require.NoError(t, err)
	refused(t, string(bytes.Replace(text, []byte("volumeMode: Block"), []byte("volumeMode: Filesystem"), 1)), "volumeClaimTemplates: data: spec.volumeMode must be Block")
	refused(t, string(bytes.Replace(text, []byte(`"data:state"`), []byte(`"other:data"`), 1)), `device "other" not found`)
	refused(t, string(bytes.Replace(text, []byte("kind: StatefulSet"), []byte("kind: Deployment"), 1)), `device "data" not found`)
}

// K31: what is JSON stays JSON, in its order and with its lines; generated twice it is the same.
func TestK31JSONStaysJSON(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"contrast.edgeless.systems/secure-pv":"data:state","note":"<b>\ud83d\ude00 \u0001"}},` +
		`"spec":{"terminationGracePeriodSeconds":1e1,"hostNetwork":false,"containers":[{"name":"a","image":"i","command":[],"env":null}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"c"}}]}}`
	for name, in := range map[string]string{"one line": text, "one line and its end": text + "\n", "lines": inLines(t, text, "  "), "tabs": inLines(t, text, "\t") + "\n"} {
		got, err := securepv.Generate([]securepv.File{{Name: "pod.json", Text: []byte(in)}}, options)
		require.NoError(t, err)
		out := string(got[0].Text)
		require.True(t, json.Valid(got[0].Text), out)
		require.Contains(t, out, `"contrast-initializer"`)
		require.Equal(t, strings.HasSuffix(in, "\n"), strings.HasSuffix(out, "\n"), name)
		require.Equal(t, strings.Contains(in, "\n  \"kind\": \"Pod\","), strings.Contains(out, "\n  \"kind\": \"Pod\","), name)
		require.Equal(t, strings.Contains(in, "\n\t\"kind\""), strings.Contains(out, "\n\t\"kind\""), name)
		require.Regexp(t, `(?s)"terminationGracePeriodSeconds": ?1e1,.*"hostNetwork": ?false,.*"containers".*"env": ?null`, out)
		require.Contains(t, out, "<b>\U0001F600 \\u0001")
		again, err := securepv.Generate([]securepv.File{{Name: "pod.json", Text: got[0].Text}}, options)
		require.NoError(t, err)
		require.Equal(t, out, string(again[0].Text))
		yes, err := yaml.JSONToYAML([]byte(strings.ReplaceAll(in, `\ud83d\ude00`, "\U0001F600")))
		require.NoError(t, err)
		same, err := securepv.Generate([]securepv.File{{Name: "pod.yaml", Text: yes}}, options)
		require.NoError(t, err)
		asJSON, err := yaml.YAMLToJSON(same[0].Text)
		require.NoError(t, err)
		require.JSONEq(t, string(asJSON), out, "it is what becomes of the same in YAML")
	}
}

func TestK31AKeyThatIsThereTwice(t *testing.T) {
	t.Parallel()
	_, err := securepv.Generate([]securepv.File{{Name: "a.json", Text: []byte(`{"kind":"Pod","metadata":{"name":"a"},"spec":{},"spec":{}}`)}}, options)
	require.EqualError(t, err, `a.json: document 1: the key "spec" is there twice`)
}

// K9: nor is the other one of a key that YAML has twice passed over, which some readers take: it would run in clear.
func TestK9AKeyThatIsThereTwice(t *testing.T) {
	t.Parallel()
	const (
		pod       = "{containers: [{name: a, image: i}], volumes: [{name: data, persistentVolumeClaim: {claimName: c}}]}"
		annotated = "metadata: {name: a, annotations: {contrast.edgeless.systems/secure-pv: 'data:state'}}\n"
	)
	for key, text := range map[string]string{
		"kind":           "kind: Pod\n" + annotated + "spec: " + pod + "\nkind: Deployment\n",
		"spec":           "kind: Pod\n" + annotated + "spec: " + pod + "\nspec: " + pod + "\n",
		"template":       "kind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    " + annotated + "    spec: " + pod + "\n  template:\n    spec: " + pod + "\n",
		"initContainers": "kind: Pod\n" + annotated + "spec:\n  initContainers: []\n  \"initContainers\": []\n  containers: [{name: a, image: i}]\n",
		"annotations":    "kind: Pod\nmetadata: {name: a, annotations: {}, annotations: {contrast.edgeless.systems/secure-pv: 'data:state'}}\nspec: " + pod + "\n",
		"data":           "kind: ConfigMap\nx: &d data\n*d : {}\ndata: {}\n",
	} {
		_, err := securepv.Generate([]securepv.File{{Name: "a.yaml", Text: []byte("apiVersion: v1\n" + text)}}, options)
		require.EqualError(t, err, fmt.Sprintf("a.yaml: document 1: the key %q is there twice", key))
	}
	for _, key := range []string{"!!merge spec", "!!binary c3BlYw=="} {
		_, err := securepv.Generate([]securepv.File{{Name: "a.yaml", Text: []byte("apiVersion: v1\nkind: Pod\n" + annotated + "spec: " + pod + "\n" + key + ": " + pod + "\n")}}, options)
		require.ErrorContains(t, err, "has a tag: readers do not agree on what it says")
	}
	_, err := securepv.Generate([]securepv.File{{Name: "a.yaml", Text: []byte("apiVersion: v1\nkind: Pod\n" + annotated + "spec: " + pod + "\n<<: {spec: " + pod + "}\n")}}, options)
	require.ErrorContains(t, err, "it is a YAML alias or merges one")
}

func inLines(t *testing.T, text, by string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, []byte(text), "", by))
	return out.String()
}

// K11: what a container has at the place of the secrets is refused by name, and a mount of its own is never taken away.
func TestK11MountsOfItsOwnStay(t *testing.T) {
	t.Parallel()
	with := func(mounts string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  containers:\n  - name: app\n    image: i\n    volumeMounts: [" + mounts + "]\n" +
			"  volumes:\n  - {name: cfg, emptyDir: {}}\n"
	}
	for _, at := range []string{"/contrast", "/contrast/", "//contrast/.", "contrast"} {
		_, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(with("{name: cfg, mountPath: " + at + "}"))}}, options)
		require.EqualError(t, err, `app.yaml: document 1, Pod "app": container "app" has "cfg" mounted at /contrast, where the initializer's secrets go: mount it elsewhere`)
	}
	_, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(strings.Replace(with(""), "volumeMounts: []", "volumeDevices: [{name: raw, devicePath: /contrast}]", 1))}}, options)
	require.ErrorContains(t, err, `container "app" has the device "raw" at /contrast`)
	text := with("{name: contrast-secrets, mountPath: /etc/secrets, readOnly: true}, {name: cfg, mountPath: /contrast/more}")
	got, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(text)}}, options)
	require.NoError(t, err)
	for _, mount := range []string{"mountPath: /etc/secrets", "mountPath: /contrast/more", "mountPath: /contrast}"} {
		require.Contains(t, strings.ReplaceAll(string(got[0].Text), "/contrast\n", "/contrast}\n"), mount)
	}
}
