package devcloud

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// service is one entry of the catalog.
type service struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"`
	Name      string     `json:"name"`
	Endpoints []endpoint `json:"endpoints"`
}

type endpoint struct {
	ID        string `json:"id"`
	Interface string `json:"interface"`
	Region    string `json:"region"`
	RegionID  string `json:"region_id"`
	URL       string `json:"url"`
}

// serviceName is the catalog's name for strongroom's own services; those of
// this package carry the package's.
const serviceName = "strongroom"

// projectVariable stands in an address for the project of the token whose
// catalog it is.
const projectVariable = "$(project_id)s"

// catalog lists the services; the public, internal and admin interface of each
// are one address.
func (s *Server) catalog() []service {
	out := []service{
		s.service("identity", "devcloud", s.AuthURL()),
		s.service("image", "devcloud", s.ImageURL()),
	}
	if s.cfg.Networks != nil {
		out = append(out, s.service("network", "devcloud", s.NetworkURL()))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.cfg.Endpoints)) {
		out = append(out, s.service(kind, serviceName, s.cfg.Endpoints[kind]))
	}
	return out
}

// catalogFor is the catalog as a project's tokens show it.
func (s *Server) catalogFor(p *project) []service {
	out := s.catalog()
	for _, service := range out {
		for i := range service.Endpoints {
			service.Endpoints[i].URL = strings.ReplaceAll(service.Endpoints[i].URL, projectVariable, p.ID)
		}
	}
	return out
}

// service makes an entry whose ids follow from its type, so that they are the
// same after a restart.
func (s *Server) service(kind, name, url string) service {
	id := func(label string) string {
		return plainID(uuid.NewSHA1(uuid.NameSpaceOID, []byte("strongroom catalog "+s.cfg.Region+" "+kind+label)))
	}
	out := service{ID: id(""), Type: kind, Name: name}
	for _, face := range []string{"public", "internal", "admin"} {
		out.Endpoints = append(out.Endpoints, endpoint{ID: id(" " + face), Interface: face, Region: s.cfg.Region, RegionID: s.cfg.Region, URL: url})
	}
	return out
}
