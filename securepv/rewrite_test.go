package securepv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/securepv"
)

// What is injected into a pod without the annotation, by the names under which it stands in the tests.
var injected = strings.NewReplacer(
	"<initializer>", `- name: contrast-initializer
  image: registry.example/initializer@sha256:0123
  env:
  - name: COORDINATOR_HOST
    value: coordinator-ready.default
  securityContext:
    capabilities:
      add:
      - NET_ADMIN
  resources:
    limits:
      memory: 50Mi
    requests:
      memory: 50Mi
  volumeMounts:
  - name: contrast-secrets
    mountPath: /contrast`,
	"<initializer with lists further in>", `- name: contrast-initializer
  image: registry.example/initializer@sha256:0123
  env:
    - name: COORDINATOR_HOST
      value: coordinator-ready.default
  securityContext:
    capabilities:
      add:
        - NET_ADMIN
  resources:
    limits:
      memory: 50Mi
    requests:
      memory: 50Mi
  volumeMounts:
    - name: contrast-secrets
      mountPath: /contrast`,
	"<initializer in flow>", "{name: contrast-initializer, image: 'registry.example/initializer@sha256:0123', env: [{name: COORDINATOR_HOST, value: coordinator-ready.default}], "+
		"securityContext: {capabilities: {add: [NET_ADMIN]}}, resources: {limits: {memory: 50Mi}, requests: {memory: 50Mi}}, volumeMounts: [{name: contrast-secrets, mountPath: /contrast}]}",
	"<volume>", "- name: contrast-secrets\n  emptyDir:\n    medium: Memory",
	"<mount>", "- name: contrast-secrets\n  mountPath: /contrast",
)

// fromDiff gives the two texts of a diff, whose lines begin with ' ' or nothing, '-' and '+'.
func fromDiff(diff string) (in, out string) {
	for line := range strings.Lines(diff) {
		mark, rest := line[0], line[1:]
		switch mark {
		case '\n':
			in, out = in+line, out+line
		case ' ':
			in, out = in+rest, out+rest
		case '-':
			in += rest
		case '+':
			pad := rest[:len(rest)-len(strings.TrimLeft(rest, " "))]
			out += pad + strings.ReplaceAll(strings.TrimSpace(injected.Replace(rest)), "\n", "\n"+pad) + "\n"
		}
	}
	return in, out
}

// becomes requires that generate makes out of in, and out of out.
func becomes(t *testing.T, in, out string) {
	t.Helper()
	require.Equal(t, out, generate(t, in), in)
	require.Equal(t, out, generate(t, out), "twice")
}

// inAllForms requires it with every end of a line, without the last one, and after a byte order mark.
func inAllForms(t *testing.T, diff string) {
	t.Helper()
	in, out := fromDiff(diff)
	for _, end := range []string{"\n", "\r\n"} {
		in, out := strings.ReplaceAll(in, "\n", end), strings.ReplaceAll(out, "\n", end)
		becomes(t, in, out)
		becomes(t, strings.TrimSuffix(in, end), strings.TrimSuffix(out, end))
		becomes(t, "\ufeff"+in, "\ufeff"+out)
	}
}

// asExpected requires what is in a folder: texts before and after, and diffs.
func asExpected(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*"))
	require.NoError(t, err)
	for _, file := range files {
		name, isIn := strings.CutSuffix(file, ".in.yaml")
		switch {
		case strings.HasSuffix(file, ".diff"):
			inAllForms(t, read(t, file))
		case isIn:
			in, out := read(t, file), name+".out.yaml"
			if *update {
				require.NoError(t, os.WriteFile(out, []byte(generate(t, in)), 0o644))
			}
			becomes(t, in, read(t, out))
			rest, _ := withoutNew(in, read(t, out))
			require.Equal(t, in, rest, file)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// K12: only what is injected differs: lists, comments and the ends of lines are as they were.
func TestK12OnlyWhatIsInjectedDiffers(t *testing.T) {
	t.Parallel()
	asExpected(t, "K12")
}

// K12: where the ends of lines differ, a line that is injected ends as the one before it.
func TestK12MixedEndsOfLines(t *testing.T) {
	t.Parallel()
	in := "apiVersion: v1\r\nkind: Pod\nmetadata: {name: a}\nspec:\r\n  containers:\n  - name: a\r\n    image: i\n  - name: b\r\n\n  volumes:\n  - name: data\r"
	lines := func(text, end string) string { return strings.ReplaceAll(text, "\n", end) }
	out := strings.Replace(in, "    image: i\n", "    image: i\n    volumeMounts:\n    - name: contrast-secrets\n      mountPath: /contrast\n", 1)
	out = strings.Replace(out, "  - name: b\r\n", lines("  - name: b\n    volumeMounts:\n    - name: contrast-secrets\n      mountPath: /contrast\n", "\r\n"), 1)
	_, last := fromDiff("+  <volume>\n+  initContainers:\n+  <initializer>\n")
	becomes(t, in, out+lines(last, "\r"))
}

// K13: merge keys, aliases, anchors and tags are as they were.
func TestK13MergeKeysStay(t *testing.T) {
	t.Parallel()
	asExpected(t, "K13")
}

// K14: scalars of every form keep their style and their text. An '@' is where the mount is injected into the container that has the scalar.
func TestK14ScalarsStay(t *testing.T) {
	t.Parallel()
	asExpected(t, "K14")
	for _, scalar := range []string{
		" |\n  set -e  \n  run\n@", " |\n  echo \U0001F680\n@", " |-\n  x\n@\n\n", " |\n  x\n@\n\n", " |+\n  x\n\n\n@", " |+\n  x\n  \n@# a comment\n\n", " |\n  x\n     \n@", " |\n\n  # no comment\n@",
		" >\n  a\n  b\n\n    c\n\n  d\n@\n", " >-\n  a  \n  b\n@", " >+\n  a\n\n@", " |2\n     x\n  y\n@", " >1-  # a comment\n    z\n@", " |+2\n   x\n\n@", " |\n@", " |-\n@\n", " |+\n\n@", " |  # a comment\n  x\n@",
		" |\n  volumeMounts:\n  - name: x\n@ # a comment\n", " &a |\n  x\n@", " !!str |-\n  x\n@", " !!str\n  |\n  x\n@", " |\n  a\u2028      b\n@", " |\n  a\u0085      b\n@", "\n- |\n  x\n- >-\n   y\n@", "\n- a: |1\n     b\n@",
		" plain # a comment\n@", " in\n\n  three # lines\n@  # a comment\n", " \"a \\\" \\\n   # no comment\"\n@", " 'it''s\n\n  # no comment' # a comment\n@", "\n  below\n@", " '\u2028'\n@", " \"\u0085\"\n@", "\n@", " # nothing\n@",
	} {
		value := strings.ReplaceAll(strings.ReplaceAll(scalar, "\n", "\n    "), "    @", "@")
		before, after, found := strings.Cut(strings.TrimSuffix(value, "    "), "@")
		require.True(t, found)
		if after != "" {
			after = "    " + after
		}
		before = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    x:" + before
		mounts := "    volumeMounts:\n    - name: contrast-secrets\n      mountPath: /contrast\n"
		_, rest := fromDiff("+  volumes:\n+  <volume>\n+  initContainers:\n+  <initializer>\n")
		becomes(t, before+after+"  dnsPolicy: Default\n", before+mounts+after+"  dnsPolicy: Default\n"+rest)
		becomes(t, before+after, before+mounts+rest+after)
	}
}

// K12: what is injected anew takes the place of what it was, and what goes takes no more with it; in one line, too.
func TestK12InjectedAnew(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		strings.ReplaceAll(podWith(annotated), "\n", "\r\n") + "  # the end\r\n",
		"{apiVersion: v1, kind: Pod, metadata: {name: app, annotations: {" + annotated + "}},\n  spec: {containers: [{name: app}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}",
	} {
		once := generate(t, in)
		other := options
		other.Image = "registry.example/other"
		out := strings.ReplaceAll(once, options.Image, other.Image)
		require.Equal(t, strings.ReplaceAll(out, "'"+other.Image+"'", other.Image), generateWith(t, other, once))

		noted := strings.NewReplacer("\r\n  - name: state", "\r\n  # not ours\r\n  - name: state", "Memory\r\n  initContainers:", "Memory # ours\r\n    # not ours\r\n\r\n  initContainers:").Replace(once)
		require.Equal(t, 2*strings.Count(in, "# the end"), strings.Count(noted, "# not ours"))
		noted = strings.NewReplacer("value: coord", "value:   coord", "[NET_ADMIN]", "[ NET_ADMIN ]").Replace(noted)
		require.Equal(t, noted, generate(t, noted), "what says the same already stays")
		without := strings.Replace(noted, annotated, "", 1)
		plain := generate(t, strings.Replace(in, annotated, "", 1))
		want := strings.Replace(plain, "Memory\r\n  initContainers:", "Memory\r\n  # not ours\r\n    # not ours\r\n\r\n  initContainers:", 1)
		require.Equal(t, want, generate(t, without))

		with := options
		with.Secret = &securepv.Secret{Name: "shop", Key: "seed"}
		require.Equal(t, once, generate(t, generateWith(t, with, once)))
		spaced := strings.Replace(generateWith(t, with, once), "secretName: shop", "secretName:   shop", 1)
		require.Equal(t, spaced, generateWith(t, with, spaced))
	}
}

// K12: of a list in one line, what goes takes its comma with it.
func TestK12ItemsGoFromAList(t *testing.T) {
	t.Parallel()
	const of = "kind: Pod\nspec: {containers: [{name: a}], initContainers: [{name: contrast-initializer, volumeMounts: [{name: a, mountPath: /state}, {name: b, mountPath: /state1}, {name: c, mountPath: /state2}]}], volumes: ["
	const a, b, c = "{name: a, emptyDir: {medium: Memory}}", "{name: b, emptyDir: {medium: Memory}}", "{name: c, emptyDir: {medium: Memory}}"
	const secrets, data = "{name: contrast-secrets, emptyDir: {medium: Memory}}", "{name: data}"
	want := generate(t, of+secrets+" , "+data+"]}")
	for _, volumes := range []string{secrets + " , " + data, a + ", " + b + "," + c + "  ,  " + secrets + " , " + data, secrets + " , " + a + "," + b + "," + data + " , " + c, a + "," + secrets + " , " + data + "," + b + ",\n" + c} {
		require.Equal(t, want, generate(t, of+volumes+"]}"))
	}
	require.Contains(t, want, "volumes: ["+secrets+" , "+data+"]}")
}

// K12: where nothing can be injected without a change of something else, the message says where, and what to do.
func TestK12Refused(t *testing.T) {
	t.Parallel()
	script := "kind: Other\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - args:\n    - |\n      run"
	_, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(script)}}, options)
	require.EqualError(t, err, "app.yaml: document 2: nothing can be injected here (line 6, 10) without a change of something else: give each key and item of the pod a line of its own, and end the last line")
	require.Contains(t, generate(t, script+"\n"), "    - |\n      run\n    volumeMounts:\n")
	named := strings.Replace(script, "- args", "- name: a\n    # its script\n    args", 1)
	require.True(t, strings.HasSuffix(generate(t, named), "    volumeMounts:\n    - name: contrast-secrets\n      mountPath: /contrast\n    # its script\n    args:\n    - |\n      run"), "what cannot come after it comes before it")
	require.Equal(t, generate(t, named), generate(t, generate(t, named)))
	two := strings.Replace(named, "    # its script\n", "    command:\n    - |\n      # a script\n", 1)
	require.Contains(t, generate(t, two), "      # a script\n    volumeMounts:\n")

	wide := []byte{0xff, 0xfe}
	for _, c := range podWith("") {
		wide = append(wide, byte(c), 0)
	}
	_, err = securepv.Generate([]securepv.File{{Name: "app.yaml", Text: wide}}, options)
	require.EqualError(t, err, "app.yaml: document 1: it is not in UTF-8, and nothing can be injected into it: convert it")
}
