package keystone

import (
	"context"
	"net/http"
	"regexp"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

var projectID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`) // it becomes a part of a path

// GoneProjects implements project.Registry, with the role reader on the system: who has less
// is told 403 of any project, be it there or not.
//
// Only an answer of 404 says that a project is gone, and only where strongroom's own project
// is found in the same way, before and after: a balancer in front of an identity service that
// does not run, or an address that leads elsewhere, says 404 to everything.
func (c *Cloud) GoneProjects(ctx context.Context, ids []string) ([]string, error) {
	own, err := c.own.session(ctx)
	if err != nil {
		return nil, err
	}
	client, err := c.loggedIn(ctx, wanted{service: identityType}, c.login(tokens.Scope{System: true}), "")
	if err != nil {
		return nil, err
	}
	if err := c.findOwn(ctx, client, own.project); err != nil {
		return nil, err
	}
	var gone []string
	for _, id := range ids {
		if !projectID.MatchString(id) || id == own.project {
			continue
		}
		err := projects.Get(ctx, client, id).Err
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			gone = append(gone, id)
		}
		if ctx.Err() != nil {
			return nil, openstack.Error(ctx.Err(), "look for a project")
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return gone, c.findOwn(ctx, client, own.project)
}

func (c *Cloud) findOwn(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
	found, err := projects.Get(ctx, client, id).Extract()
	if err == nil && found.ID == id {
		return nil
	}
	if err := openstack.Error(err, "look for strongroom's own project"); compute.Is(err, compute.Forbidden) {
		return err
	}
	return compute.Errorf(compute.Unavailable, "the identity service does not even find strongroom's own project: %w", err)
}
