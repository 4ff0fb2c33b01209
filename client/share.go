package client

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Share is a share that a server has, as the document of shares spells it.
type Share struct {
	ID             string      `json:"shareId"`
	Status         string      `json:"status"`                    // attaching, inactive, active, detaching, error
	Tag            string      `json:"tag"`                       // under which the guest mounts it
	AttachmentID   string      `json:"attachmentId,omitempty"`    // for administrators, of one that is shown
	ExportLocation string      `json:"export_location,omitempty"` // the same
	Fault          *ShareFault `json:"fault,omitempty"`           // of one that was taken away under the server
}

// ShareFault is why a share was taken away.
type ShareFault struct {
	Message string    `json:"message"`
	Created time.Time `json:"created"`
}

// ListShares gives the shares of a server.
func ListShares(ctx context.Context, c *gophercloud.ServiceClient, server string) ([]Share, error) {
	var body struct {
		Shares []Share `json:"shares"`
	}
	return body.Shares, get(ctx, c, &body, "servers", server, "shares")
}

// GetShare gives one share of a server.
func GetShare(ctx context.Context, c *gophercloud.ServiceClient, server, share string) (Share, error) {
	var body struct {
		Share Share `json:"share"`
	}
	return body.Share, get(ctx, c, &body, "servers", server, "shares", share)
}

// AttachShare attaches a share to a server that is stopped, or whose guest takes shares while it runs. tag "": the share's id.
func AttachShare(ctx context.Context, c *gophercloud.ServiceClient, server, share, tag string) (attached Share, operation string, err error) {
	asked := map[string]any{"shareId": share}
	if tag != "" {
		asked["tag"] = tag
	}
	var body struct {
		Share Share `json:"share"`
	}
	header, err := post(ctx, c, map[string]any{"share": asked}, &body, "servers", server, "shares")
	return body.Share, OperationID(header), err
}

// DetachShare detaches a share from a server that is stopped, or whose guest takes shares while it runs.
func DetachShare(ctx context.Context, c *gophercloud.ServiceClient, server, share string) (operation string, err error) {
	header, err := remove(ctx, c, "servers", server, "shares", share)
	return OperationID(header), err
}
