package client

import (
	"context"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// Version is what clients of Extend ask for.
const Version = "compute 2.97, strongroom 1.1"

const versionHeader = "OpenStack-API-Version"

// Extend gives a client of the same compute service that speaks strongroom 1.1. The one it is given stays as it is.
func Extend(compute *gophercloud.ServiceClient) *gophercloud.ServiceClient {
	c := *compute
	c.Microversion = "" // gophercloud would write a header of its own
	c.MoreHeaders = map[string]string{}
	for name, value := range compute.MoreHeaders {
		c.MoreHeaders[name] = value
	}
	c.MoreHeaders[versionHeader] = Version
	return &c
}

// OperationID is the id of the operation that an answer of the compute service began, "" for none: it is that of
// the request. gophercloud's results have the answer's header.
func OperationID(answer http.Header) string { return answer.Get("X-Openstack-Request-Id") }

// get reads a resource.
func get(ctx context.Context, c *gophercloud.ServiceClient, into any, path ...string) error {
	resp, err := c.Get(ctx, c.ServiceURL(path...), into, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// post sends a body and gives the answer's header; into nil: the answer has no body that is read.
func post(ctx context.Context, c *gophercloud.ServiceClient, body, into any, path ...string) (http.Header, error) {
	resp, err := c.Post(ctx, c.ServiceURL(path...), body, into, &gophercloud.RequestOpts{
		OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent},
	})
	if err != nil {
		return nil, err
	}
	return resp.Header, resp.Body.Close()
}

// remove deletes, or asks to delete, a resource and gives the answer's header.
func remove(ctx context.Context, c *gophercloud.ServiceClient, path ...string) (http.Header, error) {
	resp, err := c.Delete(ctx, c.ServiceURL(path...), &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return nil, err
	}
	return resp.Header, resp.Body.Close()
}

// Act asks for an action on a server, a body of POST /servers/{id}/action, and gives the id of the operation that it
// began.
func Act(ctx context.Context, c *gophercloud.ServiceClient, server string, action map[string]any) (operation string, err error) {
	header, err := post(ctx, c, action, nil, "servers", server, "action")
	return OperationID(header), err
}
