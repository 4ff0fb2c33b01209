package api

import (
	"context"

	"strongroom/compute"
)

// ImageStore is where the images of servers are.
type ImageStore interface {
	// Image gives an image's record. NotFound: no such image that this credential
	// may see; Unavailable: the store does not answer.
	Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error)
	// Create ensures that an image's record is there, without data.
	Create(ctx context.Context, cred compute.Credential, img compute.Image) error
	// Delete removes an image. NotFound: it is not there.
	Delete(ctx context.Context, cred compute.Credential, id compute.ImageID) error
}

// Starter starts the workflows of committed operations; durable.Starter is one.
type Starter interface {
	// Start starts op's workflow; starting one that runs is a success. Conflict:
	// another operation of the server is at its very end, call again.
	Start(ctx context.Context, op compute.Operation) error
}

// Console reads console logs where servers run; worker/agent.Client is one.
type Console interface {
	// Console gives the last lines of a server's console log, all of it when lines
	// is negative, from the agent at url. NotFound: there is none; Unavailable: the
	// host does not answer.
	Console(ctx context.Context, url string, server compute.ServerID, lines int) ([]byte, error)
}
