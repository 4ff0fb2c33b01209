package api

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"strongroom/api/microversion"
)

// versionDocument is one version of the API, as discovery shows it. All of it
// is text, also where it looks like a number.
type versionDocument struct {
	ID         string      `json:"id"`
	Status     string      `json:"status"`
	Version    *string     `json:"version,omitempty"`
	MinVersion *string     `json:"min_version,omitempty"`
	Updated    string      `json:"updated,omitempty"`
	Links      []Link      `json:"links"`
	MediaTypes []mediaType `json:"media-types,omitempty"`
}

type mediaType struct {
	Base string `json:"base"`
	Type string `json:"type"`
}

// A published version of the API.
type published struct {
	id, root, status, version, minVersion, updated, media string
}

var (
	versionV20 = published{id: "v2.0", root: rootV2, status: "DEPRECATED", updated: "2011-01-21T11:33:21Z", media: "application/vnd.openstack.compute+json;version=2"}
	versionV21 = published{id: "v2.1", root: rootV21, status: "CURRENT", version: microversion.Max.String(), minVersion: microversion.Min.String(),
		updated: "2013-07-23T11:33:21Z", media: "application/vnd.openstack.compute+json;version=2.1"}
)

// document shows a version. href is what its self link names.
func (p published) document(href string) versionDocument {
	return versionDocument{
		ID: p.id, Status: p.status, Version: &p.version, MinVersion: &p.minVersion, Updated: p.updated,
		Links: []Link{{Rel: "self", Href: href}},
	}
}

func (p published) mediaTypes() []mediaType {
	return []mediaType{{Base: "application/json", Type: p.media}}
}

// discover answers GET / with all versions and GET of an endpoint with its own.
func (a *API) discover(c echo.Context) error {
	prefix := a.prefix(c.Request())
	var one published
	switch c.Request().URL.Path {
	case rootV21:
		one = versionV21
	case rootV2:
		one = versionV20
	default:
		return respond(c, http.StatusOK, map[string]any{"versions": []versionDocument{
			versionV20.document(prefix + rootV2 + "/"), versionV21.document(prefix + rootV21 + "/"),
		}})
	}
	document := one.document(prefix + one.root + "/")
	document.Links = append(document.Links, Link{Rel: "describedby", Type: "text/html", Href: "http://docs.openstack.org/"})
	document.MediaTypes = one.mediaTypes()
	return respond(c, http.StatusOK, map[string]any{"version": document})
}

// choices answers a path without a version with those that there are: 300.
func (a *API) choices(c echo.Context) error {
	prefix, path := a.prefix(c.Request()), strings.TrimPrefix(c.Request().URL.Path, "/")
	choice := func(p published) versionDocument {
		return versionDocument{
			ID: p.id, Status: p.status, Links: []Link{{Rel: "self", Href: prefix + p.root + "/" + path}}, MediaTypes: p.mediaTypes(),
		}
	}
	return respond(c, http.StatusMultipleChoices, map[string]any{"choices": []versionDocument{choice(versionV20), choice(versionV21)}})
}

// prefix is the scheme and host that links begin with.
func (a *API) prefix(r *http.Request) string { return a.config.Origin.Of(r) }
