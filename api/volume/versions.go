package volume

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"strongroom/api/microversion"
)

// versionDocument is the API's version, as discovery shows it. All of it is text,
// also where it looks like a number.
type versionDocument struct {
	ID         string              `json:"id"`
	Status     string              `json:"status"`
	Version    string              `json:"version"`
	MinVersion string              `json:"min_version"`
	Updated    string              `json:"updated"`
	Links      []versionLink       `json:"links"`
	MediaTypes []map[string]string `json:"media-types"`
}

type versionLink struct {
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
	Href string `json:"href"`
}

// projectRoot is the route of a project's own endpoint below the API's.
const projectRoot = "/:project_id"

// versions describes the API. prefix is what its links begin with.
func versions(prefix string) map[string]any {
	return map[string]any{"versions": []versionDocument{{
		ID: "v3.0", Status: "CURRENT", Version: microversion.Volume.Text(microversion.Volume.Max),
		MinVersion: microversion.Volume.Text(microversion.Volume.Min), Updated: "2023-08-31T00:00:00Z",
		Links: []versionLink{
			{Rel: "describedby", Type: "text/html", Href: "https://docs.openstack.org/"},
			{Rel: "self", Href: prefix + Root + "/"},
		},
		MediaTypes: []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}},
	}}}
}

// discover answers GET of the endpoint.
func (a *API) discover(c echo.Context) error {
	return respond(c, http.StatusOK, versions(a.prefix(c.Request())))
}

// discoverAll answers GET of what the endpoint is below: clients choose one of its versions.
func (a *API) discoverAll(c echo.Context) error {
	return respond(c, http.StatusMultipleChoices, versions(a.prefix(c.Request())))
}

// discoverProject answers GET of the endpoint as the catalog names it, with the
// caller's project: clients that ask there learn the same.
func (a *API) discoverProject(c echo.Context) error {
	if c.Param("project_id") != stateOf(c).token.ProjectScopeUUID() {
		return echo.ErrNotFound
	}
	return a.discover(c)
}
