package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"strongroom/api"
	"strongroom/api/answertest"
	"strongroom/api/microversion"
)

//go:generate go test strongroom/api -run ^TestRouteTable$ -update

var update = flag.Bool("update", false, "write docs/api.md and docs/openapi.yaml anew")

const (
	tableFile   = "../docs/api.md"
	openAPIFile = "../docs/openapi.yaml"
)

// The table of routes in the docs and the OpenAPI document are those of the routes that there are. go generate ./api
// writes them anew.
func TestRouteTable(t *testing.T) {
	t.Parallel()
	document, err := yaml.Marshal(openAPI())
	require.NoError(t, err)
	for file, want := range map[string][]byte{tableFile: routeTable(t), openAPIFile: document} {
		if *update {
			require.NoError(t, os.WriteFile(file, want, 0o644))
			continue
		}
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is stale: go generate ./api", file)
	}
}

// tableRow is a route or an action.
type tableRow struct {
	method, path, action string
	versions, rule       string
	state                string
}

// key is the same for a route of ours and Nova's.
func (r tableRow) key() string {
	return r.method + " " + parameter.ReplaceAllString(r.path, "{}") + " " + r.action
}

var parameter = regexp.MustCompile(`\{[^}]*\}|:[a-z_]+`)

// braced is a path as OpenAPI writes it.
func braced(path string) string {
	return regexp.MustCompile(`:([a-z_]+)`).ReplaceAllString(path, "{$1}")
}

func rowOf(r api.Route) tableRow {
	row := tableRow{method: r.Method, path: braced(r.Path), action: r.Action, rule: r.Rule, state: "works", versions: span(r.Min, r.Max)}
	if r.Own {
		row.versions = strings.TrimSpace(row.versions + " strongroom 1.0")
	}
	switch {
	case r.Refused == gone:
		row.state = "gone"
	case r.Refused != "":
		row.state = "refused: " + r.Refused
	}
	return row
}

func span(least, most microversion.Version) string {
	switch {
	case least <= microversion.Min && most == 0:
		return ""
	case most == 0:
		return "from " + least.String()
	case least <= microversion.Min:
		return "to " + most.String()
	}
	return least.String() + " to " + most.String()
}

func routeTable(t *testing.T) []byte {
	t.Helper()
	var rows, away []tableRow
	there := map[string]bool{}
	for _, resource := range api.AllResources() {
		for _, r := range resource.Routes {
			row := rowOf(r)
			there[row.key()] = true
			if r.Refused == gone {
				away = append(away, row)
			} else {
				rows = append(rows, row)
			}
		}
	}
	var missing []tableRow
	for _, r := range novaRoutes() {
		if !there[r.key()] {
			missing = append(missing, r)
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `# Routes

Every route and action of the compute API, below `+"`/v2.1` and `/v2.1/{project_id}`"+`, and of the volume types API. This page and
[openapi.yaml](openapi.yaml) are made of the routes themselves by `+"`go generate ./api`"+`; a test fails where they are not as the routes are.

* works: it does what Nova's does; what is particular is told in [compute-api.md](compute-api.md).
* refused: it is there, and whoever may ask for it is told why it is not done.
* gone: Nova has it no more. It is a 410 here as there.
* not there: Nova has it, strongroom does not. A route is a 404, an action a 400, "There is no such action".

Versions are microversions of the compute API, %s to %s where none are named. "strongroom 1.0" is spoken by clients that
[name it](compute-api.md#beyond-the-compute-api). A rule is the one of the policy that decides before all else; where none is named,
it is looked at with what is asked for at hand.

There are %d routes and actions; %d of them are refused, %d of Nova's are not there.

## Compute API

`, microversion.Min, microversion.Max, len(rows), count(rows, "refused"), len(missing))
	writeRows(&out, rows)
	fmt.Fprint(&out, "\n## Gone\n\n")
	writeRows(&out, away)
	fmt.Fprint(&out, "\n## Not there\n\n")
	writeRows(&out, missing)
	fmt.Fprint(&out, deviceTable(t))
	writeVolumes(t, &out)
	return out.Bytes()
}

func count(rows []tableRow, state string) (n int) {
	for _, r := range rows {
		if strings.HasPrefix(r.state, state) {
			n++
		}
	}
	return n
}

func writeRows(out *bytes.Buffer, rows []tableRow) {
	slices.SortStableFunc(rows, func(a, b tableRow) int { return strings.Compare(a.path+" "+a.action, b.path+" "+b.action) })
	fmt.Fprint(out, "| route | action | versions | rule | state |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(out, "| `%s %s` | %s | %s | %s | %s |\n", r.method, r.path, code(r.action), r.versions, code(r.rule), strings.ReplaceAll(r.state, "|", "\\|"))
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// codes are several, or none.
func codes(texts ...string) string { return code(strings.Join(texts, "`, `")) }

// P25: the comparison with Nova says of exactly those routes and actions that they are not there which are not.
func TestTheComparisonWithNovaTellsTheTruth(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/nova.md")
	require.NoError(t, err)
	named := func(r tableRow) string { // an action, or the first part of a path that is not of servers alone
		for _, part := range append([]string{r.action}, strings.Split(strings.TrimPrefix(r.path, "/servers/{id}"), "/")...) {
			if part != "" && part != "servers" && !strings.HasPrefix(part, "{") {
				return part
			}
		}
		return "servers"
	}
	there, missing := map[string]bool{}, map[string]bool{}
	for _, resource := range api.AllResources() {
		for _, r := range resource.Routes {
			there[rowOf(r).key()] = true
		}
	}
	all := map[string]bool{}
	for _, r := range novaRoutes() {
		all[named(r)] = true
		if !there[r.key()] {
			missing[named(r)] = true
		}
	}
	said := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.HasPrefix(cells[2], " not there") {
			continue
		}
		for _, word := range regexp.MustCompile(`[A-Za-z][A-Za-z_-]+`).FindAllString(cells[1], -1) {
			if all[word] {
				said[word] = true
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(missing)), slices.Sorted(maps.Keys(said)))
}

// What is said not to be there is not: a route is a 404 and an action a 400.
func TestRouteTableTellsTheTruth(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	there := map[string]bool{}
	for _, resource := range api.AllResources() {
		for _, r := range resource.Routes {
			there[rowOf(r).key()] = true
		}
	}
	for _, r := range novaRoutes() {
		if there[r.key()] {
			continue
		}
		path := strings.Replace(r.path, "/servers/{id}", "/servers/"+id, 1)
		path = parameter.ReplaceAllString(path, "1")
		for _, version := range []string{"2.1", "2.97"} {
			body := `{}`
			if r.action != "" {
				body = `{"` + r.action + `":null}`
			}
			got := c.do(t, admin, r.method, path, body, at(version))
			if r.action != "" && there["POST "+parameter.ReplaceAllString(r.path, "{}")+" "+anyAction[r.path]] {
				require.Equal(t, http.StatusBadRequest, got.code, "%s %s: %s", r.path, r.action, got.body)
				require.Contains(t, got.body, "There is no such action")
				continue
			}
			require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, got.code, "%s %s at %s: %s", r.method, path, version, got.body)
		}
	}
}

// anyAction is an action of a path that has some.
var anyAction = map[string]string{"/servers/{id}/action": "os-start", "/flavors/{id}/action": "addTenantAccess"}

// openAPI describes the compute API at its newest version: bodies as they are checked, and answers as tests check them for
// a member of a project.
func openAPI() map[string]any {
	paths := map[string]map[string]any{}
	for _, resource := range api.AllResources() {
		for _, r := range resource.Routes {
			if r.Max != 0 && r.Max < microversion.Max || r.Refused == gone { // what there was in older versions
				continue
			}
			path, method := braced(r.Path), strings.ToLower(r.Method)
			if paths[path] == nil {
				paths[path] = map[string]any{"parameters": parameters(path, "compute "+microversion.Max.String())}
			}
			operation, _ := paths[path][method].(map[string]any)
			if operation == nil {
				operation = map[string]any{"operationId": operationID(r.Method, r.Path), "responses": map[string]any{}}
				paths[path][method] = operation
			}
			describe(operation, r)
		}
	}
	describeVolumes(paths)
	return map[string]any{
		"openapi": "3.1.0", "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"info": map[string]any{
			"title": "strongroom's compute API", "version": microversion.Max.String(), "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "The compute API at microversion " + microversion.Max.String() + ", and below " + volumeRoot + " the volume types API at " + newestVolumes + ", both with what strongroom 1.0 adds, " +
				"made of the schemas with which requests are checked and of those with which tests check answers to a member of a project. In requests, minimum and maximum hold for numbers in text, too. " +
				"Older versions: docs/api.md.",
		},
		"servers":    []any{map[string]any{"url": "/v2.1"}},
		"security":   []any{map[string]any{"token": []any{}}},
		"components": map[string]any{"securitySchemes": map[string]any{"token": map[string]any{"type": "apiKey", "in": "header", "name": "X-Auth-Token"}}},
		"paths":      paths,
	}
}

func operationID(method, path string) string {
	id := strings.NewReplacer("/", "-", ":", "", "_", "-").Replace(strings.ToLower(method) + path)
	return strings.Trim(id, "-")
}

func parameters(path, version string) []any {
	all := []any{map[string]any{
		"name": microversion.Header, "in": "header", "schema": map[string]any{"type": "string"}, "example": version + ", strongroom 1.0",
	}}
	for _, name := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(path, -1) {
		all = append(all, map[string]any{"name": name[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	return all
}

// describe adds a route to its operation: one of several, where it is an action.
func describe(operation map[string]any, r api.Route) {
	body := r.Body.Document(microversion.Max)
	if r.Extended.Defined() {
		body = r.Extended.Document(microversion.Max)
	}
	if body != nil {
		body = modern(body)
		if r.Action != "" {
			body.(map[string]any)["title"] = r.Action
			if r.Refused != "" {
				body.(map[string]any)["description"] = "Refused: " + r.Refused
			}
		}
		describeBody(operation, body)
	}
	if query, ok := modern(r.Query.Document(microversion.Max)).(map[string]any); ok {
		properties, _ := query["properties"].(map[string]any)
		var all []any
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			all = append(all, map[string]any{"name": name, "in": "query", "explode": true, "schema": properties[name]})
		}
		if all != nil {
			operation["parameters"] = all
		}
	}
	if r.Rule != "" {
		operation["x-policy-rule"] = r.Rule
	}
	if r.Own {
		operation["x-strongroom"] = "1.0"
	}
	if r.Refused != "" && r.Action == "" {
		operation["description"] = "Refused: " + r.Refused
		operation["responses"].(map[string]any)["4XX"] = map[string]any{"description": "a fault that says why"}
		return
	}
	describeAnswer(operation["responses"].(map[string]any), r)
}

// describeBody adds a body that an operation may have.
func describeBody(operation map[string]any, body any) {
	request, _ := operation["requestBody"].(map[string]any)
	if request == nil {
		request = map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"oneOf": []any{}}}}}
		operation["requestBody"] = request
	}
	schema := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
	schema["oneOf"] = append(schema["oneOf"].([]any), body)
}

// aFault is any answer but those that are described.
var aFault = map[string]any{"description": "a fault: {name: {code, message}}"}

func describeAnswer(responses map[string]any, r api.Route) {
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	responses["default"] = aFault
	at := strconv.Itoa(status)
	response, _ := responses[at].(map[string]any)
	if response == nil {
		response = map[string]any{"description": http.StatusText(status)}
		responses[at] = response
	}
	shape, ok := answers(routeName(r))
	if !ok {
		return
	}
	asked := question{Negotiated: microversion.Negotiated{Compute: microversion.Max, Extended: true}, as: member, query: map[string][]string{}}
	schema := shape(asked)
	if schema == nil {
		return
	}
	content, _ := response["content"].(map[string]any)
	if content == nil {
		content = map[string]any{"application/json": map[string]any{"schema": map[string]any{"anyOf": []any{}}}}
		response["content"] = content
	}
	of := content["application/json"].(map[string]any)["schema"].(map[string]any)
	of["anyOf"] = append(of["anyOf"].([]any), plain(schema))
}

// plain is an answer's schema as JSON has it.
func plain(s answertest.Schema) any {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return modern(out)
}

// modern is a schema of draft 4 in the words of 2020-12, in which OpenAPI 3.1 has them.
func modern(node any) any {
	switch node := node.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range node {
			switch exclusive, isFlag := value.(bool); {
			case isFlag && key == "exclusiveMinimum":
				if exclusive {
					out[key] = node["minimum"]
				}
			case key == "minimum" && node["exclusiveMinimum"] == true, key == "optional" && isFlag:
			default:
				out[key] = modern(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i := range node {
			out[i] = modern(node[i])
		}
		return out
	}
	return node
}

// Its schemas are of the dialect that it names, and each operation has an id of its own.
func TestOpenAPIIsWellFormed(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(openAPI())
	require.NoError(t, err)
	var document any
	require.NoError(t, json.Unmarshal(text, &document))
	schemas, ids := 0, map[string]bool{}
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			if id, ok := node["operationId"].(string); ok {
				require.False(t, ids[id], id)
				ids[id] = true
			}
			for key, value := range node {
				if key != "schema" {
					walk(value)
					continue
				}
				c := jsonschema.NewCompiler()
				c.DefaultDraft(jsonschema.Draft2020)
				c.UseRegexpEngine(func(string) (jsonschema.Regexp, error) { return anyText{}, nil })
				require.NoError(t, c.AddResource("schema:///one", value))
				_, err := c.Compile("schema:///one")
				require.NoError(t, err, "%v", value)
				schemas++
			}
		case []any:
			for _, item := range node {
				walk(item)
			}
		}
	}
	walk(document)
	require.Greater(t, schemas, 100)
	require.Greater(t, len(ids), 70)
}

// anyText is a pattern of ECMA 262, which Go's expressions are not.
type anyText struct{}

func (anyText) MatchString(string) bool { return true }
func (anyText) String() string          { return "" }
