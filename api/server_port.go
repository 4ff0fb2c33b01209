package api

import (
	"context"

	"strongroom/compute"
	"strongroom/durable/outbox"
)

// Operations starts the workflows of operations and waits for them; durable.Starter is one.
type Operations interface {
	outbox.Starter
	// ImageRecord waits until op has made the record of its image. failure says why it
	// ended without one. Unavailable: ctx ended before either was known.
	ImageRecord(ctx context.Context, op compute.Operation) (failure *compute.Error, err error)
}

// ImageStore is where the images of servers are. The api reads them; workflows write.
type ImageStore interface {
	// Image gives an image's record. NotFound: no such image that this credential
	// may see; Unavailable: the store does not answer.
	Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error)
}

// Hosts asks hosts of what is on them alone; worker/agent.Client is one.
type Hosts interface {
	// Console gives the last lines of a server's console log, all of it when lines
	// is negative, from the agent of its host at url. NotFound: there is none;
	// Unavailable: the host does not answer.
	Console(ctx context.Context, host compute.HostID, url string, server compute.ServerID, lines int) ([]byte, error)
	// Kept gives the secrets of a running server whose keys its host keeps. Unavailable: the host
	// does not answer.
	Kept(ctx context.Context, host compute.HostID, url string, server compute.ServerID) ([]compute.SecretID, error)
}
