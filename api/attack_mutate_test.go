package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// verbatim is JSON, or what is taken for it, that is written as it stands.
type verbatim string

// oddJSON is put in the place of any value of a body.
var oddJSON = []verbatim{
	`null`, `true`, `false`, `0`, `-1`, `1`, `"1"`, `"0001"`, `" 1 "`, `"１"`, `1.0`, `1e2`, `"1e2"`, `1e309`, `1e-999999999`, `-0`, `"-0"`, `"+1"`, `"0x10"`,
	`2147483647`, `2147483648`, `-2147483649`, `9223372036854775807`, `9223372036854775808`, `"9223372036854775808"`, `18446744073709551616`,
	`""`, `" "`, `"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\udfff\ud800"`, `"\u202e"`, "\"\xff\xfe\"", "\"\xc0\xaf\"", "\"\x01\"", `"'; DROP TABLE servers; --"`, `"%s%n%x"`,
	`"../../etc/passwd"`, `"http://127.0.0.1/"`, `"${jndi:ldap://x}"`, `"{{7*7}}"`, `"<script>"`, `"2020-13-45T99:99:99Z"`, `"9999999999-01-01T00:00:00Z"`,
	`"00000000-0000-0000-0000-000000000000"`, `"::1"`, `"0.0.0.0"`, `"256.1.1.1"`, `"1.2.3.4/33"`, `"none"`, `"auto"`, `"True"`, `"off"`, `NaN`, `Infinity`, `undefined`,
	`{}`, `[]`, `[null]`, `[[]]`, `{"":""}`, `{"a":{"a":{"a":1}}}`, `"`, `{`, `[`, `,`, ``, `/**/1`, `'a'`, `1 2`,
	verbatim(`"` + strings.Repeat("a", 256) + `"`), verbatim(`"` + strings.Repeat("ä", 65536) + `"`), verbatim(`"` + strings.Repeat(`\u0041`, 15000) + `"`),
	verbatim(strings.Repeat("9", 300)), verbatim(`"` + strings.Repeat("9", 100_000) + `"`), verbatim("1" + strings.Repeat("0", 100_000)), verbatim(`"` + strings.Repeat("0", 70) + `1"`),
	verbatim("[" + strings.Repeat("0,", 50_000) + "0]"), verbatim("[" + strings.Repeat("0,", 100_000) + "0]"), verbatim("[" + strings.Repeat(`"a",`, 20_000) + `"a"]`),
	`1e-999999`, `0e999999999`, verbatim("[" + strings.Repeat("1e-999999,", 5_000) + "0]"), verbatim("[" + strings.Repeat(`{"volume_size":1e-999999},`, 2_000) + "{}]"),
	verbatim("[" + strings.Repeat("{},", 30_000) + "{}]"), verbatim(strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000)), verbatim(strings.Repeat("[", 100_000)),
	verbatim(strings.Repeat(`{"a":`, 15_000) + "1" + strings.Repeat("}", 15_000)), verbatim("{" + manyKeys(9_000) + "}"), verbatim("{" + strings.Repeat(`"a":1,`, 15_000) + `"a":1}`),
}

// hiddenJSON is what a schema refuses and a key that is given again may hide.
var hiddenJSON = []verbatim{
	`{"min_count":-5}`, `{"min_count":3,"max_count":3}`, `[{"source_type":"blank","destination_type":"local","boot_index":-1,"volume_size":-18014398509481983}]`,
	`{"rotation":-7}`, `{"host":"nowhere","force":true}`, `{"name":null}`,
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d":""`, i)
	}
	return strings.Join(keys, ",")
}

// render writes a value as JSON, with what stands in it verbatim.
func render(v any) string {
	var b strings.Builder
	renderTo(&b, v)
	return b.String()
}

func renderTo(b *strings.Builder, v any) {
	switch v := v.(type) {
	case verbatim:
		b.WriteString(string(v))
	case map[string]any:
		b.WriteByte('{')
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for i, key := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			text, _ := json.Marshal(strings.TrimSuffix(strings.TrimPrefix(key, earlier), duplicate))
			b.Write(text)
			b.WriteByte(':')
			renderTo(b, v[key])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, one := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			renderTo(b, one)
		}
		b.WriteByte(']')
	default:
		text, _ := json.Marshal(v)
		b.Write(text)
	}
}

// duplicate is at the end of a key that is written once more, behind the other one, and earlier at the beginning of one that is written before all others.
const (
	duplicate = "\x00again"
	earlier   = "\x00"
)

// a place is where a value stands in a tree.
type place struct {
	get func() any
	set func(any)
	in  map[string]any // nil in a list
	key string
}

func places(v any, out []place) []place {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys) // the same seed, the same attack
		for _, key := range keys {
			out = append(out, place{func() any { return v[key] }, func(to any) { v[key] = to }, v, key})
			out = places(v[key], out)
		}
	case []any:
		for i := range v {
			out = append(out, place{get: func() any { return v[i] }, set: func(to any) { v[i] = to }})
			out = places(v[i], out)
		}
	}
	return out
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// mutateJSON changes a body's tree, at one to three places.
func mutateJSON(r *rand.Rand, body string, names []string) string {
	var tree any
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return body
	}
	for range 1 + r.IntN(3) {
		all := places(tree, nil)
		if len(all) == 0 {
			return render(pick(r, oddJSON))
		}
		at := pick(r, all)
		switch r.IntN(8) {
		case 0: // another type
			at.set(verbatim(fmt.Sprintf("%q", fmt.Sprint(at.get()))))
		case 1:
			at.set([]any{at.get()})
		case 2:
			at.set(map[string]any{pick(r, names): at.get()})
		case 3:
			if at.in != nil {
				delete(at.in, at.key)
			}
		case 4:
			if at.in != nil {
				again := pick(r, []string{at.key + duplicate, earlier + at.key, strings.ToUpper(at.key), strings.ReplaceAll(at.key, "s", "ſ")})
				at.in[again] = pick(r, append(slices.Clone(oddJSON), hiddenJSON...))
			}
		case 5:
			if at.in != nil {
				at.in[pick(r, names)] = pick(r, oddJSON)
			}
		default:
			at.set(pick(r, oddJSON))
		}
	}
	return render(tree)
}

// mutateBytes changes a text without regard to what it means.
func mutateBytes(r *rand.Rand, text string) string {
	b := []byte(text)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(b) + 1)
		switch r.IntN(5) {
		case 0:
			if at < len(b) {
				b[at] = byte(r.IntN(256))
			}
		case 1:
			b = b[:at]
		case 2:
			b = slices.Insert(b, at, byte(r.IntN(256)))
		case 3:
			b = slices.Insert(b, at, []byte(pick(r, []string{"\x00", "\xff", `\u0000`, "\r\n", "{", "]", `"`, "\xef\xbb\xbf"}))...)
		default:
			b = append(b[:at], append(slices.Clone(b), b[at:]...)...)
		}
		if len(b) > 1<<20 {
			b = b[:1<<20]
		}
	}
	return string(b)
}

// oddText is put into query strings, parts of paths and headers.
var oddText = []string{
	"", "0", "-1", "1", "1000", "1001", "99999999999999999999", "0001", "1e3", "１", "true", "None", "null", "\x00", "a\x00b", "\xff", "\xc0\xaf", "\ud7ff", "%", "%00", "%zz", "%25",
	"[", "(", "*", `\`, "(?", "(?P<x>a)", "(a+)+$", "(a|a)*b", "a{1000}", "a{1,99999}", "((a{100}){100}){100}", `\1`, "[[:foo:]]", ".*", "^$", strings.Repeat("(", 1000), strings.Repeat("a?", 200),
	"'", "''; --", `"`, ";", ",", ",,,", "a,b,c", "asc", "desc", "display_name", "uuid", "created_at", "..", ".", "../..", "/", "//", "~", "$(id)", "\r\nX: y", "\n",
	"2020-01-01T00:00:00Z", "2020-01-01", "0000-00-00T00:00:00Z", "294277-01-01T00:00:00Z", "+infinity", "infinity", "now", "epoch", "ACTIVE", "deleted", "ERROR", "error",
	"00000000-0000-0000-0000-000000000000", "11111111111111111111111111111111", "latest", "none", "detail", "action", strings.Repeat("a", 300), strings.Repeat("%41", 3000), strings.Repeat("ä", 5000),
}

// queryNames are what lists can be asked for, and what they do not know.
var queryNames = []string{
	"limit", "marker", "sort_key", "sort_dir", "changes-since", "changes-before", "all_tenants", "project_id", "tenant_id", "user_id", "uuid", "name", "display_name",
	"status", "vm_state", "task_state", "power_state", "image", "image_ref", "flavor", "host", "node", "hostname", "reservation_id", "launch_index", "launched_at", "terminated_at",
	"created_at", "availability_zone", "key_name", "config_drive", "progress", "ip", "ip6", "access_ip_v4", "access_ip_v6", "tags", "tags-any", "not-tags", "not-tags-any",
	"deleted", "soft_deleted", "locked", "locked_by", "metadata", "system_metadata", "description", "block_device_mapping", "auto_disk_config", "root_device_name", "kernel_id",
	"is_public", "minRam", "minDisk", "binary", "with_servers", "hypervisor_hostname_pattern", "offset", "page", "unknown", "", "limit[]", "sort_key\x00",
}

func mutateQuery(r *rand.Rand, query string) string {
	if r.IntN(10) == 0 {
		return mutateBytes(r, query) // not even encoded
	}
	values, _ := url.ParseQuery(query)
	for range 1 + r.IntN(4) {
		name := pick(r, queryNames)
		for range pick(r, []int{1, 1, 1, 2, 50}) {
			values.Add(name, pick(r, oddText))
		}
	}
	return values.Encode()
}

// mutatePath changes a path as it is written.
func mutatePath(r *rand.Rand, path string) string {
	parts := strings.Split(path, "/")
	for range 1 + r.IntN(2) {
		at := 1 + r.IntN(len(parts)-1)
		switch r.IntN(6) {
		case 0:
			parts[at] = url.PathEscape(pick(r, oddText))
		case 1:
			parts = slices.Insert(parts, at, pick(r, []string{"", ".", "..", "%2e%2e", "%2F", "%2f%2F", "%00", "%ff", "%C0%AF", ";a=b", "*", ":id", "%3Aid"}))
		case 2:
			parts[at] += pick(r, []string{"%2F", "%00", "%20", ".", "/", "//", ".json", ";", "%0d%0a", "%252F"})
		case 3:
			if len(parts) > 2 {
				parts = slices.Delete(parts, at, at+1)
			}
		case 4:
			parts = append(parts, "")
		default:
			var b strings.Builder
			for _, c := range []byte(parts[at]) {
				fmt.Fprintf(&b, "%%%02x", c)
			}
			parts[at] = b.String()
		}
	}
	if path = strings.Join(parts, "/"); !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
