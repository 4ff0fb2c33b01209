package volume_test

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/policy"
	"strongroom/api/volume"
)

// TestRows is the table of what is asked of volume types, on the identity service
// of the one-machine mode.
func TestRows(t *testing.T) {
	t.Parallel()
	rows(t, onDevcloud(t, ""))
}

// everyone are the callers of every row, users those who read no hidden key.
var (
	everyone = []string{admin, member, reader}
	users    = []string{member, reader}
)

// lab is a cloud with the types of the rows.
type lab struct {
	*bundle
	documented string // as in the document: one visible and one hidden key
	full       string // all visible keys, and hidden ones that look like them
	hidden     string // hidden keys alone
}

const visibleOfFull = `{"multiattach":"<is> True","RESKEY:availability_zones":"az1,az2","replication_enabled":"<is> True"}`

func newLab(t *testing.T, c cloud, change ...func(*api.Config)) lab {
	b := setup(t, c, change...)
	documented := b.do(admin, "POST", "/types", `{"volume_type":{"name":"vol-type-001","description":"volume type 0001",
		"extra_specs":{"multiattach":"<is> True","volume_backend_name":"SecretName"}}}`).thing("volume_type")["id"].(string)
	return lab{
		bundle: b, documented: documented,
		full: b.create("full", strings.TrimSuffix(visibleOfFull, "}")+`,"Multiattach":"<is> True","multiattach2":"<is> True",
			"RESKEY:availability_zone":"az1","reskey:availability_zones":"az1","replication:enabled":"<is> True","capabilities:multiattach":"<is> True"}`),
		hidden: b.create("hidden", `{"volume_backend_name":"SecretName","secret":null}`),
	}
}

// rows runs every row at the oldest and the newest version.
func rows(t *testing.T, c cloud) {
	l := newLab(t, c)
	for _, version := range []string{oldest, newest} {
		t.Run("at "+version, func(t *testing.T) {
			for _, row := range []struct {
				name string
				run  func(*testing.T, lab)
			}{
				{"VT-01 three keys are user visible", visibleKeys},
				{"VT-02 list and show for users", listAndShow},
				{"VT-03 index for users", index},
				{"VT-04 a visible key for everybody", visibleKey},
				{"VT-05 a hidden key is like a missing one", hiddenKey},
				{"VT-06 read_sensitive sees all", sensitive},
				{"VT-08 the same at every version", everyVersion},
				{"VT-09 the keys of a type", keysOfType},
				{"VT-10 writes are for administrators", writes},
				{"VT-11 a filter reveals nothing", filterRevealsNothing},
			} {
				t.Run(row.name, func(t *testing.T) {
					in := l
					in.bundle = l.version(t, version)
					row.run(t, in)
				})
			}
			t.Run("VT-07 the policies", func(t *testing.T) { policies(t, c, version) })
		})
	}
}

func visibleKeys(t *testing.T, l lab) {
	require.ElementsMatch(t, []string{"multiattach", "RESKEY:availability_zones", "replication_enabled"}, volume.VisibleExtraSpecs)
	for _, caller := range users {
		l.do(caller, "GET", "/types/"+l.full+"/extra_specs", "").is(200, `{"extra_specs":`+visibleOfFull+`}`)
	}
	require.Len(t, l.do(admin, "GET", "/types/"+l.full+"/extra_specs", "").thing("extra_specs"), 9)
}

func listAndShow(t *testing.T, l lab) {
	want := map[string]map[string]any{
		"vol-type-001": {"multiattach": "<is> True"},
		"full":         {"multiattach": "<is> True", "RESKEY:availability_zones": "az1,az2", "replication_enabled": "<is> True"},
		"hidden":       {},
	}
	for _, caller := range users {
		listed, names := l.do(caller, "GET", "/types", "").types()
		require.ElementsMatch(t, []string{"vol-type-001", "full", "hidden"}, names)
		for name, specs := range want {
			require.Equal(t, specs, listed[name]["extra_specs"], name)
			require.Equal(t, listed[name], l.do(caller, "GET", "/types/"+listed[name]["id"].(string), "").thing("volume_type"))
		}
	}
}

func index(_ *testing.T, l lab) {
	for _, caller := range users {
		l.do(caller, "GET", "/types/"+l.documented+"/extra_specs", "").is(200, `{"extra_specs":{"multiattach":"<is> True"}}`)
		l.do(caller, "GET", "/types/"+l.hidden+"/extra_specs", "").is(200, `{"extra_specs":{}}`)
	}
}

func visibleKey(_ *testing.T, l lab) {
	for _, caller := range everyone {
		l.do(caller, "GET", "/types/"+l.documented+"/extra_specs/multiattach", "").is(200, `{"multiattach":"<is> True"}`)
		l.do(caller, "GET", "/types/"+l.full+"/extra_specs/RESKEY:availability_zones", "").is(200, `{"RESKEY:availability_zones":"az1,az2"}`)
		l.do(caller, "GET", "/types/"+l.full+"/extra_specs/RESKEY%3Aavailability_zones", "").is(200, `{"RESKEY:availability_zones":"az1,az2"}`)
		l.do(caller, "GET", "/types/"+l.full+"/extra_specs/replication_enabled", "").is(200, `{"replication_enabled":"<is> True"}`)
	}
}

func hiddenKey(t *testing.T, l lab) {
	for _, caller := range users {
		for _, id := range []string{l.documented, l.hidden, l.full} {
			// Every key is asked for under the same name of the same length: volume_backend_name is there in two of the types.
			there := l.do(caller, "GET", "/types/"+id+"/extra_specs/volume_backend_name", "")
			there.fails(404, "itemNotFound", "Volume Type "+id+" has no extra specs with key volume_backend_name.")
			absent := l.do(caller, "GET", "/types/"+id+"/extra_specs/volume_frontend_nam", "")
			require.Equal(t, strings.ReplaceAll(there.body, "volume_backend_name", "volume_frontend_nam"), absent.body)
			require.Equal(t, unlike(there.header), unlike(absent.header))
			require.Equal(t, there.code, absent.code)
		}
		l.do(caller, "GET", "/types/"+l.hidden+"/extra_specs/secret", "").ok(404)
	}
}

// unlike gives the headers of an answer without those that differ always.
func unlike(h http.Header) http.Header {
	h = h.Clone()
	h.Del("X-Openstack-Request-Id")
	h.Del("X-Compute-Request-Id")
	return h
}

func sensitive(t *testing.T, l lab) {
	const all = `{"multiattach":"<is> True","volume_backend_name":"SecretName"}`
	want := map[string]any{"multiattach": "<is> True", "volume_backend_name": "SecretName"}
	listed, _ := l.do(admin, "GET", "/types", "").types()
	require.Equal(t, want, listed["vol-type-001"]["extra_specs"])
	require.Equal(t, want, l.do(admin, "GET", "/types/"+l.documented, "").thing("volume_type")["extra_specs"])
	l.do(admin, "GET", "/types/"+l.documented+"/extra_specs", "").is(200, `{"extra_specs":`+all+`}`)
	l.do(admin, "GET", "/types/"+l.documented+"/extra_specs/volume_backend_name", "").is(200, `{"volume_backend_name":"SecretName"}`)
	l.do(admin, "GET", "/types/"+l.hidden+"/extra_specs/secret", "").is(200, `{"secret":null}`)
	l.do(admin, "GET", "/types/"+l.hidden+"/extra_specs/none", "").
		fails(404, "itemNotFound", "Volume Type "+l.hidden+" has no extra specs with key none.")
}

func everyVersion(t *testing.T, l lab) {
	for _, caller := range everyone {
		for _, path := range []string{
			"/types", "/types/" + l.full, "/types/" + l.full + "/extra_specs", "/types/" + l.full + "/extra_specs/multiattach",
			"/types/" + l.full + "/extra_specs/Multiattach",
		} {
			here := l.do(caller, "GET", path, "")
			require.Equal(t, "volume "+l.at, here.header.Get("OpenStack-API-Version"))
			for _, version := range []string{"", "3.31", "3.52", "latest"} {
				there := l.version(t, version).do(caller, "GET", path, "")
				require.Equal(t, here.code, there.code)
				require.Equal(t, here.body, there.body, "%s at %s", path, version)
			}
		}
	}
}

func keysOfType(t *testing.T, l lab) {
	for caller, specs := range map[string]string{
		admin: `{"multiattach":"<is> True","volume_backend_name":"SecretName"}`, member: `{"multiattach":"<is> True"}`, reader: `{"multiattach":"<is> True"}`,
	} {
		want := `{"id":"` + l.documented + `","qos_specs_id":null,"name":"vol-type-001","description":"volume type 0001",
			"os-volume-type-access:is_public":true,"is_public":true,"extra_specs":` + specs + `}`
		l.do(caller, "GET", "/types/"+l.documented, "").is(200, `{"volume_type":`+want+`}`)
		l.do(caller, "GET", "/types?sort=created_at:asc&limit=1", "").is(200, `{"volume_types":[`+want+`],"volume_type_links":[{"rel":"next",
			"href":"http://cloud.example:8774/v3/`+l.cloud.project(t, caller)+`/types?limit=1&marker=`+l.documented+`&sort=created_at%3Aasc"}]}`)
	}
}

func writes(t *testing.T, l lab) {
	path := "/types/" + l.documented + "/extra_specs"
	before := l.do(admin, "GET", path, "").ok(200).body
	for _, caller := range users {
		l.do(caller, "POST", path, `{"extra_specs":{"multiattach":"<is> False"}}`).denied("types_extra_specs:create")
		for _, key := range []string{"multiattach", "volume_backend_name", "none"} {
			l.do(caller, "PUT", path+"/"+key, `{"`+key+`":"x"}`).denied("types_extra_specs:update")
			l.do(caller, "DELETE", path+"/"+key, "").denied("types_extra_specs:delete")
		}
		l.do(caller, "POST", "/types", `{"volume_type":{"name":"mine"}}`).denied("type_create")
		l.do(caller, "PUT", "/types/"+l.documented, `{"volume_type":{"name":"mine"}}`).denied("type_update")
		l.do(caller, "DELETE", "/types/"+l.documented, "").denied("type_delete")
	}
	require.Equal(t, before, l.do(admin, "GET", path, "").body, "nothing changed")

	l.do(admin, "POST", path, `{"extra_specs":{"one":"1","two":null}}`).is(200, `{"extra_specs":{"one":"1","two":null}}`)
	l.do(admin, "PUT", path+"/one", `{"one":"2"}`).is(200, `{"one":"2"}`)
	l.do(admin, "GET", path+"/one", "").is(200, `{"one":"2"}`)
	l.do(admin, "DELETE", path+"/one", "").is(202, "")
	l.do(admin, "DELETE", path+"/two", "").is(202, "")
	require.Equal(t, before, l.do(admin, "GET", path, "").body)
}

func filterRevealsNothing(t *testing.T, l lab) {
	filter := func(caller, text string) answer {
		return l.do(caller, "GET", "/types?extra_specs="+url.QueryEscape(text), "")
	}
	hidden := []string{
		`{"volume_backend_name":"SecretName"}`, `{"volume_backend_name":"other"}`, `{'secret':None}`, `{"Multiattach":"<is> True"}`,
		`{"multiattach":"<is> True","volume_backend_name":"SecretName"}`,
	}
	malformed := []string{"", "{", "[]", "[1]", "5", "null", "{}{}", "{1:2}", `{"multiattach":1}`, `{"multiattach":true}`, `{"multiattach":{"a":"b"}}`, "x", "\x00", "{'a'", "{'a':'\\x0"}
	for _, caller := range users {
		all := l.do(caller, "GET", "/types", "").ok(200).body
		if l.at == oldest { // the filter is not offered: it is as if it were not there
			for _, text := range append(hidden, append(malformed, `{"multiattach":"<is> True"}`)...) {
				require.Equal(t, all, filter(caller, text).ok(200).body, text)
			}
			continue
		}
		none := filter(caller, `{"no_type_has_this_key":"x"}`).is(200, `{"volume_types":[]}`)
		for _, text := range hidden {
			a := filter(caller, text)
			require.Equal(t, none.body, a.body, text)
			require.Equal(t, unlike(none.header), unlike(a.header), text)
		}
		for _, text := range malformed {
			require.Equal(t, 400, filter(caller, text).code, text)
		}
		require.Equal(t, all, filter(caller, "{}").body, "nothing is asked for")
		require.ElementsMatch(t, []string{"vol-type-001", "full"}, filter(caller, `{"multiattach":"<is> True"}`).names())
		require.ElementsMatch(t, []string{"vol-type-001", "full"}, filter(caller, `{'multiattach': '<is> True'}`).names())
		require.Equal(t, []string{"full"}, filter(caller, `{'RESKEY:availability_zones': 'az2'}`).names())
		for _, wildcards := range []string{"az%", "a_1", "%", "_", `\`} {
			require.Empty(t, filter(caller, `{"RESKEY:availability_zones":"`+strings.ReplaceAll(wildcards, `\`, `\\`)+`"}`).names(), wildcards)
		}
		for _, key := range []string{"volume_backend_name", "extra_specs", "none", "extra_specs.volume_backend_name"} {
			l.do(caller, "GET", "/types?sort="+key, "").fails(400, "badRequest", "Invalid input received: Invalid sort key")
		}
	}
	require.ElementsMatch(t, []string{"vol-type-001", "hidden"}, filter(admin, `{"volume_backend_name":"SecretName"}`).names())
	require.Equal(t, []string{"hidden"}, filter(admin, `{'secret': None}`).names())
	for _, text := range malformed {
		require.Equal(t, 400, filter(admin, text).code, text)
	}
}

// policies checks the defaults of the four policies, which let any authorised user see what is visible, and
// that the three old ones set back to administrators alone give what there was before.
func policies(t *testing.T, c cloud, version string) {
	file := func(text string) func(*api.Config) {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return func(config *api.Config) { config.PolicyFile = path }
	}
	shown := func(l lab, caller string) (listed, one map[string]any) {
		types, _ := l.do(caller, "GET", "/types", "").types()
		return types["vol-type-001"], l.do(caller, "GET", "/types/"+l.documented, "").thing("volume_type")
	}

	all := slices.Concat(users, c.others)
	l := newLab(t, c)
	l.bundle = l.version(t, version)
	for _, caller := range all {
		listed, one := shown(l, caller)
		require.Equal(t, map[string]any{"multiattach": "<is> True"}, one["extra_specs"], caller)
		require.Equal(t, listed, one)
		path := "/types/" + l.documented + "/extra_specs"
		l.do(caller, "GET", path, "").is(200, `{"extra_specs":{"multiattach":"<is> True"}}`)
		l.do(caller, "GET", path+"/multiattach", "").is(200, `{"multiattach":"<is> True"}`)
		l.do(caller, "GET", path+"/volume_backend_name", "").
			fails(404, "itemNotFound", "Volume Type "+l.documented+" has no extra specs with key volume_backend_name.")
		l.do(caller, "POST", path, `{"extra_specs":{"one":"1"}}`).denied("types_extra_specs:create")
		l.raw(caller, "GET", "/v3/"+c.project(t, stranger)+"/types", "").fails(400, "badRequest", "Malformed request url")
	}

	old := newLab(t, c, file(`
volume_extension:access_types_extra_specs: rule:admin_api
volume_extension:types_extra_specs:index: rule:admin_api
volume_extension:types_extra_specs:show: rule:admin_api
`))
	old.bundle = old.version(t, version)
	for _, caller := range all {
		listed, one := shown(old, caller)
		require.NotContains(t, listed, "extra_specs")
		require.NotContains(t, one, "extra_specs")
		path := "/types/" + old.documented + "/extra_specs"
		old.do(caller, "GET", path, "").denied("types_extra_specs:index")
		old.do(caller, "GET", path+"/multiattach", "").denied("types_extra_specs:show")
		old.do(caller, "GET", path+"/volume_backend_name", "").denied("types_extra_specs:show")
		filtered := old.do(caller, "GET", "/types?extra_specs="+url.QueryEscape(`{"multiattach":"<is> True"}`), "")
		if version == oldest {
			require.Len(t, filtered.names(), 3, "the filter is not offered")
		} else {
			filtered.fails(400, "badRequest", "Invalid filters extra_specs are found in query options.")
		}
	}
	sensitive(t, old)

	open := newLab(t, c, file("volume_extension:types_extra_specs:read_sensitive: rule:project_reader_or_admin\n"))
	open.bundle = open.version(t, version)
	for _, caller := range everyone {
		listed, one := shown(open, caller)
		require.Equal(t, map[string]any{"multiattach": "<is> True", "volume_backend_name": "SecretName"}, one["extra_specs"])
		require.Equal(t, listed, one)
		open.do(caller, "GET", "/types/"+open.documented+"/extra_specs/volume_backend_name", "").ok(200)
	}

	// Whoever may write but not read all keys writes none: a refusal would tell of
	// a hidden key that stands in the way.
	writer := newLab(t, c, file(`
volume_extension:types_extra_specs:create: "@"
volume_extension:types_extra_specs:update: "@"
volume_extension:types_extra_specs:delete: "@"
`))
	writer.bundle = writer.version(t, version)
	for _, key := range slices.Concat(volume.VisibleExtraSpecs, []string{"volume_backend_name", "cacheable"}) {
		path := "/types/" + writer.documented + "/extra_specs"
		writer.do(member, "POST", path, `{"extra_specs":{"`+key+`":"x"}}`).denied("types_extra_specs:read_sensitive")
		writer.do(member, "PUT", path+"/"+key, `{"`+key+`":"x"}`).denied("types_extra_specs:read_sensitive")
		writer.do(member, "DELETE", path+"/"+key, "").denied("types_extra_specs:read_sensitive")
	}
}

// VT-07, EE-49: the one table of docs/volume-types.md has every policy with its default, every visible key and every key of an
// encryption, and the legacy policy is there.
func TestEveryPolicyIsInTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/volume-types.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## Every key, option and policy\n")
	require.True(t, found)
	section, _, _ := strings.Cut(after, "\n## ")
	defaults := map[string]string{
		"any authorised user": policy.Anyone, "administrators": policy.Admin, "readers of the project, administrators": policy.ProjectReaderOrAdmin,
		"the role `admin`": "role:admin",
	}
	rules, names := policy.Rules{}, []string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		rule := ""
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			name := quoted[1]
			names = append(names, name)
			switch {
			case strings.HasPrefix(name, ":"): // like the one before it, but for its end
				rule = rule[:strings.LastIndex(rule, ":")] + name
			case name == "context_is_admin":
				rule = name
			case !strings.Contains(name, ":"):
				rule = "volume_extension:" + name
			default:
				rule = name
			}
			if strings.TrimSpace(cells[2]) == "policy" {
				rules[rule] = defaults[strings.TrimSpace(cells[3])]
			}
		}
	}
	want := maps.Clone(volume.Rules)
	want["context_is_admin"] = "role:admin" // of the compute API's rules
	require.Equal(t, want, rules)
	source, err := os.ReadFile("rules.go")
	require.NoError(t, err)
	asked := regexp.MustCompile(`(?m)^\trule\w+ += "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, asked, len(want))
	for _, rule := range asked {
		require.Contains(t, rules, rule[1], "a handler asks for it")
	}
	for _, name := range append(slices.Clone(volume.VisibleExtraSpecs), "api.volume_type", "api.policy_file", "provider", "control_location", "cipher", "key_size") {
		require.Contains(t, names, name)
	}
	for _, rule := range []string{"access_types_extra_specs", "types_extra_specs:index", "types_extra_specs:show"} {
		require.Contains(t, section, "\nvolume_extension:"+rule+": rule:admin_api\n")
	}
}
