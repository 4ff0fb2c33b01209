package securepv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"strongroom/securepv"
)

// oddValues are values of a key, with their further lines, which are indented by two more than the key; a "=" stands for the key's own indentation.
var oddValues = []string{
	" plain", " two # words\n# a comment", " 'it''s' # a\n", " folded\n  further # on\n", " \"in quotes\n  # no comment\"", " 'x\n\n  # y'", " \"a \\\" b\"   ", "\n  below",
	"", " # nothing", " ~", " null", " &a1 x", " !!str 7", " !!str\n  7", " &a2\n  x", " &a3", " !!null", " \U0001F680 é", " '\u2028'", " \"\u0085\"",
	" |\n  echo \U0001F680\n  run", " |\n  set -e  \n  run  ", " |-\n  x\n\n  # y\n", " |+\n  x\n\n\n", " |+\n  x\n\n\n=# a comment\n\n", " |\n  x\n\n\n", " >\n  a\n  b\n\n    c\n  d", " >-\n  a\n\n  b\n", " >+\n  a\n\n",
	" |2\n     x\n  y", " >1-\n    z\n", " |+2\n   x\n\n", " |", " |-", " |+\n\n", " | # a comment\n  x", " |\n  x\n     ", " >\n  x\n     \n  \n", " |\n\n   x\n  \n  \n", " &a4 |\n  x", " !!str |-\n  x\n", " |\n  x\n  - name: contrast-initializer\n", " |\n  --- x", " |\n  x\u2028                y\n", " |\n  x\u0085                y",
	" [a, 'b', \"c\"]", " [\n  a, # a ] comment\n  b\n=]", " [a, b,\n]", " []", " [ ]", " {a: b, c: [d, {e: f}], g: }", " {\n  # a }\n  a: \"}\", 'b': ']'\n=}", " {a, b}", " [a: b, c]", " [c, a: b]", " {}", " {\"a\":1}", " [a: ]", " &a5 {a: &a6 b, c: *a6}", " !!map {a: !!str b}", " {a: it's}", " {a: b#c,d: e}", " {? a : b}",
	"\n  a: b\n  c: d # e\n", "\n- a\n- b", "\n  - a\n  -   b\n", "\n- - a\n  - - b\n    - c\n", "\n-\n  a: b\n- # c\n  d:\n", "\n  ? a\n  : b\n", "\n  a:\n  - b\n  -\n", "\n- |\n  x\n- >-\n   y\n   z\n", "\n- |+\n x\n\n", "\n- a: |1\n     b\n", "\n  - &a7 {x: y}\n  - <<: *a7\n    z: 1\n", "\n  <<: {a: b}\n  c: d",
	" *top", " [*top, b]", "\n- *top\n",
}

// oddPod draws a pod whose lists have lines of their own, written in many ways, and the lines that are to be injected, without their space.
func oddPod(t *rapid.T) (text string, lines []string) {
	var out strings.Builder
	add := func(parts ...string) { out.WriteString(strings.Join(parts, "")) }
	will := func(name string) {
		for line := range strings.Lines(injected.Replace(name)) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	some := func(texts ...string) string { return rapid.SampledFrom(append(texts, "")).Draw(t, texts[0]) }
	odd := func(key, indent string) string {
		value := strings.ReplaceAll(rapid.SampledFrom(oddValues).Draw(t, key), "\n", "\n"+indent)
		return indent + key + ":" + strings.ReplaceAll(value, "\n"+indent+"=", "\n"+indent) + "\n"
	}
	step := rapid.SampledFrom([]string{"", "  ", "    "}).Draw(t, "step")
	dash := rapid.SampledFrom([]string{"- ", "-   "}).Draw(t, "dash")
	in := "  " + step
	item := in + strings.Repeat(" ", len(dash))
	containers := func(key string) {
		add("  ", key, ":", some(" # what runs", " &list", " !!seq"), "\n", some(in+"# the first\n", "\n", "# at the left\n\n"))
		for range rapid.IntRange(1, 2).Draw(t, key) {
			add(in, dash, "name: a", some(" # its name"), "\n", some(item+"# within\n"), odd("x", item))
			if rapid.Bool().Draw(t, "mounts") {
				add(item, "volumeMounts:\n", item, step, dash, "name: data", some(" # a\n"), "\n", odd("mountPath", item+step+strings.Repeat(" ", len(dash))))
			} else {
				will("volumeMounts:")
			}
			will("<mount>")
			add(some(odd("y", item), item+"# below\n", "\n", "                  # far\n\n"))
		}
		add(some("  # end\n", "\n", "# left\n"))
	}
	add("top: &top t\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:", some(" # the pod", " &pod", " !!map"), "\n")
	if rapid.Bool().Draw(t, "volumes") {
		add("  volumes:\n", in, dash, "name: data\n", odd("persistentVolumeClaim", item))
	} else {
		add("  dnsPolicy: Default\n")
		will("volumes:")
	}
	will("<volume>")
	if rapid.Bool().Draw(t, "inits") {
		containers("initContainers")
	} else {
		will("initContainers:")
	}
	will("<initializer>")
	containers("containers")
	add(some(odd("z", "  ")))
	return out.String(), lines
}

// K12, K13, K14: without the lines that are injected, the text is to the byte what it was, however it is written.
func TestK12WithoutTheInjectedLinesItIsTheInput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, lines := oddPod(t)
		if rapid.Bool().Draw(t, "no end") {
			in = strings.TrimSuffix(in, "\n")
		}
		if rapid.Bool().Draw(t, "byte order mark") {
			in = "\ufeff" + in
		}
		from := rapid.IntRange(0, len(in)).Draw(t, "CRLF")
		in = in[:from] + strings.ReplaceAll(in[from:], "\n", "\r\n")
		got, err := securepv.Generate([]securepv.File{{Name: "x", Text: []byte(in)}}, options)
		if err != nil && strings.Contains(err.Error(), "yaml: ") {
			t.Skip(err)
		}
		if err != nil && !strings.HasSuffix(in, "\n") && strings.Contains(err.Error(), "end the last line") {
			in += "\n"
			got, err = securepv.Generate([]securepv.File{{Name: "x", Text: []byte(in)}}, options)
		}
		require.NoError(t, err, in)
		out := string(got[0].Text)
		rest, extra := withoutNew(in, out)
		require.Equal(t, in, rest, out)
		require.ElementsMatch(t, lines, extra, out)
		twice, err := securepv.Generate([]securepv.File{{Name: "x", Text: got[0].Text}}, options)
		require.NoError(t, err, out)
		require.Equal(t, out, string(twice[0].Text), in)
	})
}

// withoutNew gives a text without the lines that another one has not, and these without their space.
func withoutNew(in, out string) (rest string, extra []string) {
	end := ""
	if !strings.HasSuffix(in, "\n") {
		end = "\n"
		if i := strings.LastIndex(in, "\n"); i > 0 && in[i-1] == '\r' {
			end = "\r\n"
		}
	}
	was := strings.SplitAfter(in+end, "\n")
	for line := range strings.Lines(out + end) {
		if len(was) > 0 && line == was[0] {
			rest, was = rest+line, was[1:]
			continue
		}
		extra = append(extra, strings.TrimSpace(line))
	}
	return strings.TrimSuffix(rest, end), extra
}
