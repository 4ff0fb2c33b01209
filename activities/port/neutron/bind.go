package neutron

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/dns"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

// attempts bounds how often a port is looked at again because something changed it.
const attempts = 10

// Bind implements port.Service.
func (s *Service) Bind(ctx context.Context, in port.BindInput) (port.Port, error) {
	if err := in.Check(); err != nil {
		return port.Port{}, err
	}
	server := in.Server.String()
	in.Hostname = port.DNSName(in.Hostname)
	d, err := s.change(ctx, in.Credential, in.Port, func(d document) (*portsbinding.UpdateOptsExt, error) {
		if err := d.port().CheckUsable(in.Server); err != nil {
			return nil, err
		}
		if d.DeviceID == "" {
			if err := d.port().CheckNamed(server, in.Hostname); err != nil {
				return nil, err
			}
		}
		owner := ownerPrefix + in.Zone
		if in.Zone == "" && strings.HasPrefix(d.Owner, ownerPrefix) {
			owner = d.Owner
		}
		if d.DeviceID == server && d.Owner == owner && d.HostID == in.Host && d.port().VIF.CheckBound(in.Port) == nil && (in.Hostname == "" || d.isNamed(in.Hostname)) {
			return nil, nil
		}
		opts := dns.PortUpdateOptsExt{UpdateOptsBuilder: ports.UpdateOpts{DeviceID: &server, DeviceOwner: &owner}}
		if in.Hostname != "" && d.DNSName != nil {
			opts.DNSName = &in.Hostname
		}
		return &portsbinding.UpdateOptsExt{UpdateOptsBuilder: opts, HostID: &in.Host}, nil
	})
	if err != nil {
		return port.Port{}, err
	}
	bound := d.port()
	if err := bound.VIF.CheckBound(in.Port); err != nil {
		return port.Port{}, err
	}
	bound.MTU, err = s.mtu(ctx, d.Network)
	return bound, err
}

// mtu looks up a network's.
func (s *Service) mtu(ctx context.Context, id port.NetworkID) (int, error) {
	client, err := s.client(ctx, own)
	if err != nil {
		return 0, err
	}
	var found network
	err = networks.Get(ctx, client, id.String()).ExtractInto(&found)
	return found.MTU, openstack.Error(err, fmt.Sprintf("look at network %s", id))
}

// Unbind implements port.Service.
func (s *Service) Unbind(ctx context.Context, in port.UnbindInput) error {
	d, err := s.held(ctx, in.Credential, in.Port)
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	if err != nil || d.DeviceID != in.Server.String() {
		return err
	}
	if err := s.withdrawAll(ctx, d); err != nil {
		return err
	}
	_, err = s.change(ctx, in.Credential, in.Port, func(d document) (*portsbinding.UpdateOptsExt, error) {
		none := ""
		switch {
		case d.DeviceID != in.Server.String(), in.Keep && d.HostID == "":
			return nil, nil
		case in.Keep:
			return &portsbinding.UpdateOptsExt{UpdateOptsBuilder: ports.UpdateOpts{}, HostID: &none}, nil
		}
		opts := dns.PortUpdateOptsExt{UpdateOptsBuilder: ports.UpdateOpts{DeviceID: &none, DeviceOwner: &none}}
		if !d.isNamed("") { // as Nova: also a name that the port's owner gave it before, which was the server's too
			opts.DNSName = &none
		}
		return &portsbinding.UpdateOptsExt{UpdateOptsBuilder: opts, HostID: &none}, nil
	})
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}

// held gives a port as strongroom's own user sees it. NotFound: it is gone, or another
// project's; Forbidden: the user does not see what is the project's.
func (s *Service) held(ctx context.Context, cred compute.Credential, id port.ID) (document, error) {
	if cred.ProjectID == "" {
		return document{}, compute.Errorf(compute.Forbidden, "a port is bound for a server of the project that owns it")
	}
	client, err := s.client(ctx, own)
	if err != nil {
		return document{}, err
	}
	d, err := get(ctx, client, id)
	if compute.Is(err, compute.NotFound) {
		if blind := sees(ctx, client, cred.ProjectID); blind != nil {
			err = blind
		}
	}
	if err == nil && d.ProjectID != cred.ProjectID {
		err = port.Missing(id)
	}
	return d, err
}

// sees reports, with Forbidden, that strongroom's own user does not see what is a project's:
// that it finds no port means nothing then. Each project that ever had a port has a security
// group.
func sees(ctx context.Context, client *gophercloud.ServiceClient, project string) error {
	pages, err := groups.List(client, groups.ListOpts{ProjectID: project, Limit: 1}).AllPages(ctx)
	if err := openstack.Error(err, "list security groups"); err != nil {
		return err
	}
	if empty, err := pages.IsEmpty(); err != nil || empty {
		return compute.Errorf(compute.Forbidden, "strongroom's own user does not see the ports of project %s: it needs the role service, or admin, in the network service", project)
	}
	return nil
}

// change changes a port, as strongroom's own user, in the way that choose finds right for what
// it is at that moment; nil is to leave it. It gives the port as it is then.
func (s *Service) change(ctx context.Context, cred compute.Credential, id port.ID, choose func(document) (*portsbinding.UpdateOptsExt, error)) (document, error) {
	client, err := s.client(ctx, own)
	if err != nil {
		return document{}, err
	}
	for range attempts {
		d, err := s.held(ctx, cred, id)
		if err != nil {
			return document{}, err
		}
		opts, err := choose(d)
		if opts == nil || err != nil {
			return d, err
		}
		var changed document
		err = ports.Update(ctx, client, id.String(), atRevision{*opts, d.Revision}).ExtractInto(&changed)
		if gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed) {
			continue
		}
		if err = openstack.Error(err, fmt.Sprintf("bind port %s", id)); compute.Is(err, compute.NotFound) {
			err = port.Missing(id)
		}
		return changed, err
	}
	return document{}, compute.Errorf(compute.Unavailable, "port %s is changed again and again", id)
}

// atRevision is a change of a port that nobody has changed since it was looked at: who took it
// meanwhile keeps it.
type atRevision struct {
	portsbinding.UpdateOptsExt
	Revision int `h:"If-Match"`
}
