package keystone

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/compute"
)

// Endpoint says where one service is, other than the cloud's Region and Interface say. The zero one
// is where those say.
type Endpoint struct {
	URL        string   // in place of the catalog's; $(project_id)s or %(project_id)s in it is the project
	Region     string   // "": the cloud's
	Interfaces []string // of which the first that the catalog has is used; none: the cloud's
}

var interfaces = []string{
	string(gophercloud.AvailabilityPublic), string(gophercloud.AvailabilityInternal), string(gophercloud.AvailabilityAdmin),
}

// Check refuses an endpoint that makes no sense, with Invalid.
func (e Endpoint) Check() error {
	if e.URL != "" {
		if at, err := url.Parse(e.of("")); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
			return compute.Errorf(compute.Invalid, "the endpoint is no http or https address of a service")
		}
	}
	for _, i := range e.Interfaces {
		if !slices.Contains(interfaces, i) {
			return compute.Errorf(compute.Invalid, "%q is no interface of endpoints: there are public, internal and admin", i)
		}
	}
	return nil
}

// of is the address for a project.
func (e Endpoint) of(project string) string {
	return strings.NewReplacer("$(project_id)s", project, "%(project_id)s", project).Replace(e.URL)
}

// wanted is a service, and where it is for a project.
type wanted struct {
	service string
	at      Endpoint
}

// locator finds the service in a project's catalog, or where it was said to be.
func (w wanted) locator(known catalog, project string) gophercloud.EndpointLocator {
	return func(where gophercloud.EndpointOpts) (string, error) {
		if w.at.URL != "" {
			return unversioned(where.Type, gophercloud.NormalizeURL(w.at.of(project))), nil
		}
		if w.at.Region != "" {
			where.Region = w.at.Region
		}
		for _, i := range w.at.Interfaces {
			where.Availability = gophercloud.Availability(i)
			if found, err := known.locate(where); err == nil {
				return found, nil
			}
		}
		if len(w.at.Interfaces) > 0 {
			return "", compute.Errorf(compute.Unavailable, "the cloud's catalog has no %s endpoint of %s in region %q", strings.Join(w.at.Interfaces, " or "), where.Type, where.Region)
		}
		return known.locate(where)
	}
}
