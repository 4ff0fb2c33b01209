package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/securepv"
)

const onePod = `apiVersion: v1
kind: Pod
metadata:
  name: app
  annotations: {strongroom.dev/secure-pv: "data:state"}
spec:
  containers: [{name: app, image: app}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// PV-09, PV-10: the command as users run it, with its exit codes. What is refused writes nothing.
func TestPV09Generate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path(name)), 0o755))
		require.NoError(t, os.WriteFile(path(name), []byte(text), 0o640))
	}
	read := func(name string) string {
		text, err := os.ReadFile(path(name))
		require.NoError(t, err)
		return string(text)
	}
	run := func(in string, c generateCommand) (out, messages string, code int) {
		if c.Image == "" {
			c.Image = "registry.example/initializer"
		}
		var o, m bytes.Buffer
		if err := c.run(strings.NewReader(in), &o, &m); err != nil {
			return o.String(), err.Error(), exitCode(err)
		}
		return o.String(), m.String(), 0
	}
	write("app/pod.yaml", onePod)
	write("app/sub/service.yml", "apiVersion: v1\nkind: Service\nmetadata: {name: app}")
	write("app/notes.txt", "no: [yaml")

	out, _, code := run("", generateCommand{Files: []string{path("app"), path("app/pod.yaml")}})
	require.Zero(t, code)
	require.Equal(t, 1, strings.Count(out, "name: contrast-initializer"), "each file once")
	require.Contains(t, out, "image: registry.example/initializer")
	require.Contains(t, out, "\n---\napiVersion: v1\nkind: Service")
	require.Equal(t, onePod, read("app/pod.yaml"))

	again, _, code := run(out, generateCommand{Files: []string{"-"}})
	require.Zero(t, code)
	require.Equal(t, out, again)
	out, _, code = run(onePod, generateCommand{Files: []string{"-"}, SkipInitializer: true})
	require.Zero(t, code)
	require.Equal(t, onePod, out)

	out, _, code = run("", generateCommand{Files: []string{path("app")}, Diff: true})
	require.Equal(t, codeDiffers, code)
	require.Contains(t, out, "+  - name: contrast-initializer")
	require.NotContains(t, out, "Service")

	require.NoError(t, os.Symlink(path("app/pod.yaml"), path("link.yaml")))
	_, _, code = run("", generateCommand{Files: []string{path("link.yaml")}, InPlace: true, Image: "i", CoordinatorHost: "c.example"})
	require.Zero(t, code)
	require.Contains(t, read("app/pod.yaml"), "value: c.example")
	info, err := os.Lstat(path("link.yaml"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	info, err = os.Stat(path("app/pod.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	_, _, code = run("", generateCommand{Files: []string{path("app")}, Diff: true, Image: "i", CoordinatorHost: "c.example"})
	require.Zero(t, code)

	_, _, code = run("", generateCommand{Files: []string{path("app")}, Out: path("all.yaml")})
	require.Zero(t, code)
	require.Contains(t, read("all.yaml"), "CRYPTSETUP_DEVICE")

	write("app/bad.yaml", strings.Replace(onePod, "data:state", "data", 1))
	before := read("app/pod.yaml")
	for _, c := range []generateCommand{
		{Files: []string{path("app")}, InPlace: true}, {Files: []string{path("app")}, Out: path("other.yaml")},
		{Files: []string{path("nothing")}}, {Files: []string{path("app/sub"), "-"}, InPlace: true}, {Files: []string{t.TempDir()}},
	} {
		out, why, code := run("", c)
		require.Equal(t, codeRefused, code, "%+v", c)
		require.Empty(t, out)
		require.NotEmpty(t, why)
	}
	require.Equal(t, before, read("app/pod.yaml"))
	require.NoFileExists(t, path("other.yaml"))
	_, why, _ := run("", generateCommand{Files: []string{path("app/bad.yaml")}})
	require.Contains(t, why, `bad.yaml: document 1, Pod "app": annotation secure-pv`)

	const templates = "kind: StatefulSet\napiVersion: apps/v1\nmetadata: {name: app, annotations: {strongroom.dev/secure-pv: \"data:state\"}}\n" +
		"spec: {template: {spec: {containers: [{name: app}]}}, volumeClaimTemplates: [{metadata: {name: data}, spec: {volumeMode: Filesystem}}]}\n"
	out, why, code = run("---\n---\n"+templates, generateCommand{Files: []string{"-"}})
	require.Equal(t, codeRefused, code)
	require.Empty(t, out)
	require.Contains(t, why, `-: document 2, StatefulSet "app": volumeClaimTemplates: data: spec.volumeMode must be Block`)

	_, messages, code := run(strings.Replace(onePod, "volumes: [", "volumes: [{name: state, hostPath: {path: /x}}, ", 1), generateCommand{Files: []string{"-"}})
	require.Zero(t, code)
	require.Contains(t, messages, `warning: -: document 1, Pod "app": volume "state" is replaced`)
	err = generateCommand{Files: []string{path("app/pod.yaml")}}.run(nil, &bytes.Buffer{}, &bytes.Buffer{})
	require.Equal(t, codeRefused, exitCode(err))
	require.ErrorContains(t, err, "--image")
}

// PV-07: the image that was published with this release is used where the user names none, and the
// Secret that he names.
func TestPV07PublishedImage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(file, []byte(onePod), 0o600))
	generate := func(c generateCommand) (string, error) {
		var out bytes.Buffer
		c.Files = []string{file}
		err := c.run(nil, &out, &out)
		return out.String(), err
	}
	_, err := generate(generateCommand{})
	require.ErrorContains(t, err, "--image: say which initializer")
	securepv.PublishedImage = "registry.example/initializer@sha256:0123"
	t.Cleanup(func() { securepv.PublishedImage = "" })
	for _, c := range []generateCommand{{}, {CoordinatorHost: "coordinator"}} {
		_, err = generate(c)
		require.ErrorContains(t, err, "--secret NAME/KEY", "it has no attestation command")
		require.Equal(t, codeRefused, exitCode(err))
	}
	out, err := generate(generateCommand{Secret: "shop/seed"})
	require.NoError(t, err)
	require.Contains(t, out, "image: registry.example/initializer@sha256:0123")
	require.Contains(t, out, "secretName: shop")
	const id = "4a1c22f3-6c1f-4d27-9f5f-0d5a0c2a4f11"
	out, err = generate(generateCommand{BarbicanSecret: id, Clouds: "shop-clouds", OSCloud: "prod", Format: "never", KDF: "pbkdf2"})
	require.NoError(t, err)
	for _, has := range []string{"value: " + id, "secretName: shop-clouds", "value: prod", "value: never", "value: pbkdf2"} {
		require.Contains(t, out, has)
	}
	for why, c := range map[string]generateCommand{
		`--clouds: "": say which Kubernetes Secret`: {BarbicanSecret: id}, `--barbican-secret, --clouds: "shop": say the id`: {BarbicanSecret: "shop", Clouds: "shop-clouds"},
		"--startup-time: -1s": {Image: "mine", StartupTime: -time.Second}, "they are of --barbican-secret": {Image: "mine", OSCloud: "prod"}, "--clouds, --os-cloud": {Image: "mine", Clouds: "shop-clouds"},
	} {
		_, err = generate(c)
		require.ErrorContains(t, err, why)
		require.Equal(t, codeRefused, exitCode(err))
	}
	out, err = generate(generateCommand{Image: "mine", StartupTime: 2 * time.Hour})
	require.NoError(t, err)
	require.Contains(t, out, "failureThreshold: 1440\n")
	out, err = generate(generateCommand{Image: "mine"})
	require.NoError(t, err)
	require.Contains(t, out, "image: mine")
	_, err = generate(generateCommand{Secret: "shop"})
	require.ErrorContains(t, err, "--secret: \"shop\": say which Secret")
	require.Equal(t, codeRefused, exitCode(err))
}

// PV-07: the flags as users give them. One source of the secret is named, and values that the initializer does not know are refused.
func TestPV07GenerateFlags(t *testing.T) {
	t.Parallel()
	parse := func(args ...string) (generateCommand, error) {
		var c cli
		k, err := parser(&c)
		require.NoError(t, err)
		_, err = k.Parse(append([]string{"generate", "app.yaml"}, args...))
		return c.Generate, err
	}
	got, err := parse()
	require.NoError(t, err)
	require.Equal(t, generateCommand{Files: []string{"app.yaml"}, StartupTime: time.Hour}, got, "the image's own defaults stay")
	got, err = parse("--barbican-secret", "id", "--clouds", "name", "--os-cloud", "prod", "--format", "never", "--kdf", "pbkdf2", "--startup-time", "3h30m")
	require.NoError(t, err)
	require.Equal(t, generateCommand{Files: []string{"app.yaml"}, BarbicanSecret: "id", Clouds: "name", OSCloud: "prod", Format: "never", KDF: "pbkdf2", StartupTime: 3*time.Hour + 30*time.Minute}, got)
	for _, args := range [][]string{{"--secret", "a/b", "--barbican-secret", "id"}, {"--barbican-secret", "id", "--coordinator-host", "c"}, {"--format", "always"}, {"--kdf", "md5"}, {"--startup-time", "long"}} {
		_, err = parse(args...)
		require.Error(t, err, args)
	}
}

// K10: of a folder, what kubectl takes of one, links to files among it; what else is there is told.
func TestK10GenerateOfAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"all/a.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"json"},"spec":{"containers":[{"name":"a","image":"i"}]}}`, "all/b.yaml": onePod, "all/in/c.yml": onePod,
		"all/D.YAML": onePod, "all/notes.txt": "x", "all/.git/config.yaml": onePod, "elsewhere": onePod, "none/x.txt": "x",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o755))
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink(at("elsewhere"), at("all/link.yaml")))
	require.NoError(t, os.Symlink(at("none"), at("all/folder.yaml")))
	var out, messages bytes.Buffer
	require.NoError(t, generateCommand{Files: []string{at("all")}, Image: "i"}.run(strings.NewReader(""), &out, &messages))
	require.Equal(t, 4, strings.Count(out.String(), "contrast-initializer"), out.String())
	require.Equal(t, strings.Join([]string{
		"warning: " + at("all/.git") + ": left out: a hidden folder",
		"warning: " + at("all/D.YAML") + ": left out: its name does not end in .json, .yaml, .yml",
		"warning: " + at("all/folder.yaml") + ": left out: no file",
		"warning: " + at("all/notes.txt") + ": left out: its name does not end in .json, .yaml, .yml",
	}, "\n")+"\n", messages.String())
	err := generateCommand{Files: []string{at("none")}, Image: "i"}.run(strings.NewReader(""), &out, &messages)
	require.EqualError(t, err, at("none")+": no file there ends in .json, .yaml, .yml")
	require.Equal(t, codeRefused, exitCode(err))

	// A file of JSON is JSON in place, too.
	require.NoError(t, generateCommand{Files: []string{at("all/a.json")}, Image: "i", InPlace: true}.run(strings.NewReader(""), &out, &messages))
	text, err := os.ReadFile(at("all/a.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text), string(text))
}
