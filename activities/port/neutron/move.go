package neutron

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

// binding is one of a port's bindings, of which one is active. gophercloud knows nothing of
// them.
type binding struct {
	Host    string          `json:"host"`
	Status  string          `json:"status"`
	VIFType compute.VIFType `json:"vif_type"`
	Details details         `json:"vif_details"`
}

const active = "ACTIVE"

// ownerPrefix begins the owner of a server's port: "compute:nova".
const ownerPrefix = "compute:"

// Prepare implements port.Service.
func (s *Service) Prepare(ctx context.Context, in port.BindInput) (port.VIF, error) {
	b, err := s.binding(ctx, in)
	if compute.Is(err, compute.NotFound) {
		var d document
		if d, err = s.held(ctx, in.Credential, in.Port); err != nil {
			return port.VIF{}, err
		}
		if d.DeviceID != in.Server.String() {
			return port.VIF{}, compute.Errorf(compute.Conflict, "port %s is not one of server %s", in.Port, in.Server)
		}
		body := map[string]any{"binding": map[string]any{"host": in.Host}}
		err = s.ask(ctx, http.MethodPost, body, nil, fmt.Sprintf("bind port %s to host %s too", in.Port, in.Host), in.Port)
		if err == nil || compute.Is(err, compute.Conflict) { // another attempt was faster, or no host of the name can plug it
			refused := err
			if b, err = s.binding(ctx, in); compute.Is(err, compute.NotFound) && refused != nil {
				err = refused
			}
		}
	}
	if err != nil {
		return port.VIF{}, err
	}
	vif := b.Details.vif(b.VIFType)
	return vif, vif.CheckBound(in.Port)
}

// Activate implements port.Service.
func (s *Service) Activate(ctx context.Context, in port.BindInput) error {
	b, err := s.binding(ctx, in)
	if err != nil || b.Status == active {
		return err
	}
	err = s.ask(ctx, http.MethodPut, nil, nil, fmt.Sprintf("activate the binding of port %s to host %s", in.Port, in.Host), in.Port, in.Host, "activate")
	if compute.Is(err, compute.Conflict) {
		if b, look := s.binding(ctx, in); look == nil && b.Status == active {
			return nil
		}
	}
	return err
}

// Withdraw implements port.Service.
func (s *Service) Withdraw(ctx context.Context, in port.BindInput) error {
	b, err := s.binding(ctx, in)
	switch {
	case compute.Is(err, compute.NotFound):
		return nil
	case err != nil:
		return err
	case b.Status == active:
		return compute.Errorf(compute.Conflict, "the binding of port %s to host %s is the active one", in.Port, in.Host)
	}
	return s.withdraw(ctx, in.Port, b)
}

func (s *Service) withdraw(ctx context.Context, id port.ID, b binding) error {
	err := s.ask(ctx, http.MethodDelete, nil, nil, fmt.Sprintf("withdraw the binding of port %s to host %s", id, b.Host), id, b.Host)
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}

// withdrawAll ensures that a port has no inactive binding.
func (s *Service) withdrawAll(ctx context.Context, d document) error {
	all, err := s.bindings(ctx, d)
	for _, b := range all {
		if err == nil && b.Status != active {
			err = s.withdraw(ctx, d.ID, b)
		}
	}
	return err
}

// binding gives a port's binding at a host. NotFound: it has none there, or is gone.
func (s *Service) binding(ctx context.Context, in port.BindInput) (binding, error) {
	if err := in.Check(); err != nil {
		return binding{}, err
	}
	d, err := s.held(ctx, in.Credential, in.Port)
	if err != nil {
		return binding{}, err
	}
	all, err := s.bindings(ctx, d)
	if err != nil {
		return binding{}, err
	}
	if i := slices.IndexFunc(all, func(b binding) bool { return b.Host == in.Host }); i >= 0 {
		return all[i], nil
	}
	return binding{}, compute.Errorf(compute.NotFound, "port %s has no binding to host %s", in.Port, in.Host)
}

// bindings gives all bindings of a port. Of one that is no server's Neutron shows none.
func (s *Service) bindings(ctx context.Context, d document) ([]binding, error) {
	if !strings.HasPrefix(d.Owner, ownerPrefix) {
		return nil, nil
	}
	var said struct {
		Bindings []binding `json:"bindings"`
	}
	err := s.ask(ctx, http.MethodGet, nil, &said, fmt.Sprintf("look at the bindings of port %s", d.ID), d.ID)
	return said.Bindings, err
}

// ask sends a request for a port's bindings, as strongroom's own user.
func (s *Service) ask(ctx context.Context, method string, body, answer any, what string, id port.ID, more ...string) error {
	client, err := s.client(ctx, own)
	if err != nil {
		return err
	}
	response, err := client.Request(ctx, method, client.ServiceURL(append([]string{"ports", id.String(), "bindings"}, more...)...), &gophercloud.RequestOpts{
		JSONBody: body, JSONResponse: answer, OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent},
	})
	if response != nil && answer == nil {
		response.Body.Close()
	}
	if faultOf(err) == "PortBindingError" { // which Neutron says with the status 500
		return port.VIF{}.CheckBound(id)
	}
	return openstack.Error(err, what)
}
