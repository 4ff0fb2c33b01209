package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/answertest"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/volume"
)

// volumeRoot is the endpoint of the volume types API, which has the project in its paths.
const volumeRoot = volume.Service + volume.Root + "/{project_id}"

var newestVolumes = microversion.Volume.Text(microversion.Volume.Max)

// volumeViews is what rules decide on beside the routes that name them.
var volumeViews = map[string]string{
	"volume_extension:access_types_extra_specs":         "`extra_specs` in lists and shows of types, and whether a list can be asked for by them",
	"volume_extension:types_extra_specs:read_sensitive": "every extra spec, and not the [visible](volume-types.md#three-extra-specs-are-for-everybody) ones alone",
	"volume_extension:volume_type_access":               "`os-volume-type-access:is_public` in lists and shows of types",
}

// inWords are the defaults of rules.
var inWords = map[string]string{
	policy.Anyone: "any authorised user", policy.Admin: "administrators", policy.ProjectReaderOrAdmin: "readers of the project, administrators",
}

// writeVolumes writes the part of docs/api.md on the volume types API.
func writeVolumes(t *testing.T, out *bytes.Buffer) {
	t.Helper()
	routes, rules := api.AllVolumeRoutes()
	fmt.Fprintf(out, "\n## Volume types API\n\nBelow `/v3/{project_id}` and `%s`, volume API %s to %s: [volume-types.md](volume-types.md). Where several rules are named, each must let the caller pass.\n\n",
		volumeRoot, microversion.Volume.Text(microversion.Volume.Min), newestVolumes)
	var rows []tableRow
	decide := map[string][]string{} // the routes of each rule
	for _, r := range routes {
		row := tableRow{method: r.Method, path: braced(r.Path), action: r.Action, rule: strings.Join(r.Rules, "`, `"), state: "works"}
		if why := whyNot(r); why != "" {
			row.state = "refused: " + why
		}
		rows = append(rows, row)
		for _, rule := range r.Rules {
			require.Contains(t, rules, rule)
			decide[rule] = append(decide[rule], strings.TrimSpace(r.Method+" "+braced(r.Path)+" "+r.Action))
		}
	}
	writeRows(out, rows)
	fmt.Fprintf(out, "\nIts rules and their defaults, which `api.policy_file` changes. Administrators are those for whom `context_is_admin` holds, by default whoever has the role `admin`; "+
		"they see private types of every project, too.\n\n| rule | default | | decides on |\n|---|---|---|---|\n")
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		on := codes(decide[rule]...)
		if view := volumeViews[rule]; view != "" && on != "" {
			on += "; " + view
		} else if view != "" {
			on = view
		}
		require.NotEmpty(t, on, "%s: name it in a route, or say in volumeViews what it decides on", rule)
		require.NotEmpty(t, inWords[rules[rule]], "%s: say in inWords who %s is", rule, rules[rule])
		fmt.Fprintf(out, "| `%s` | `%s` | %s | %s |\n", rule, rules[rule], inWords[rules[rule]], on)
	}
}

// whyNot says why nobody's request is granted.
func whyNot(r volume.Route) string {
	if asked := volumeDemands[r.Method+" "+r.Path]; len(asked) > 0 && asked[0].granted == http.StatusForbidden {
		return "quotas of volumes cannot be changed here"
	}
	return ""
}

// describeVolumes adds the volume types API at its newest version to the paths of the OpenAPI document.
func describeVolumes(paths map[string]map[string]any) {
	routes, _ := api.AllVolumeRoutes()
	for _, r := range routes {
		path, method := volumeRoot+braced(r.Path), strings.ToLower(r.Method)
		if paths[path] == nil {
			paths[path] = map[string]any{
				"parameters": parameters(path, "volume "+newestVolumes),
				"servers":    []any{map[string]any{"url": "/"}}, // the document's own is the compute API's
			}
		}
		operation, _ := paths[path][method].(map[string]any)
		if operation == nil {
			operation = map[string]any{"operationId": "volume-" + operationID(r.Method, r.Path), "responses": map[string]any{}}
			paths[path][method] = operation
		}
		describeVolume(operation, r)
	}
}

// describeVolume adds a route to its operation: one of several, where it is an action.
func describeVolume(operation map[string]any, r volume.Route) {
	if body := r.Body.Document(microversion.Volume.Max); body != nil {
		body = modern(body)
		if r.Action != "" {
			body.(map[string]any)["title"] = r.Action
		}
		describeBody(operation, body)
	}
	var query []any
	for _, name := range slices.Sorted(slices.Values(r.Query)) {
		query = append(query, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}})
	}
	if query != nil {
		operation["parameters"] = query
	}
	rules, _ := operation["x-policy-rules"].([]string)
	operation["x-policy-rules"] = append(rules, r.Rules...)
	responses := operation["responses"].(map[string]any)
	if why := whyNot(r); why != "" {
		operation["description"] = "Refused: " + why
		responses["4XX"] = map[string]any{"description": "a fault that says why"}
		return
	}
	responses["default"] = aFault
	response := map[string]any{"description": http.StatusText(r.Status)}
	if schema := answertest.VolumeAnswers[r.Method+" "+r.Path]("member"); schema != nil {
		response["content"] = map[string]any{"application/json": map[string]any{"schema": plain(schema)}}
	}
	responses[strconv.Itoa(r.Status)] = response
}

// Whom a rule that docs/api.md names beside a route does not let pass, an administrator, too, is refused by it.
func TestTheRulesOfEachVolumeRouteDecide(t *testing.T) {
	t.Parallel()
	var config api.Config
	c := setupTenants(t, func(is *api.Config) { config = *is })
	routes, rules := api.AllVolumeRoutes()
	denied := map[string]*api.API{}
	for rule := range rules {
		without := config
		without.PolicyFile = filepath.Join(t.TempDir(), "policy.yaml")
		require.NoError(t, os.WriteFile(without.PolicyFile, []byte(`"`+rule+`": "!"`), 0o600))
		var err error
		denied[rule], err = api.New(without)
		require.NoError(t, err)
	}
	words := c.home.words(c)
	for _, r := range routes {
		require.NotEmpty(t, r.Rules, r.Path)
		for _, rule := range r.Rules {
			c.api = denied[rule]
			asked := 0
			for _, d := range volumeDemands[r.Method+" "+r.Path] {
				if !strings.Contains(d.body, r.Action) {
					continue
				}
				asked++
				path := c.home.path(c, r.Path)
				if d.to != "" {
					path = words.Replace(d.to)
				}
				if d.query != "" {
					path += "?" + words.Replace(d.query)
				}
				c.raw(t, admin, r.Method, "/v3"+path, words.Replace(d.body), header(microversion.Header, "volume "+newestVolumes+", strongroom 1.0")).
					fails(http.StatusForbidden, "forbidden", "Policy doesn't allow "+rule+" to be performed.")
			}
			require.Positive(t, asked, "%s %s %s", r.Method, r.Path, r.Action)
		}
	}
}

// The OpenAPI document has each route of the volume types API, with its rules and its body.
func TestOpenAPIHasTheVolumeTypes(t *testing.T) {
	t.Parallel()
	paths := openAPI()["paths"].(map[string]map[string]any)
	routes, _ := api.AllVolumeRoutes()
	require.Greater(t, len(routes), 25)
	for _, r := range routes {
		operation, ok := paths["/volume/v3/{project_id}"+braced(r.Path)][strings.ToLower(r.Method)].(map[string]any)
		require.True(t, ok, r.Path)
		require.Subset(t, operation["x-policy-rules"], r.Rules)
		require.Equal(t, r.Body.Defined(), operation["requestBody"] != nil, r.Path)
	}
}
