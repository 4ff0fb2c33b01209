package notification

import (
	"context"
	"fmt"

	"strongroom/compute"
	"strongroom/schema"
)

// ShareLoss is what is not there any more of a share that a server has.
type ShareLoss string

// What can be taken away.
const (
	ShareGone       ShareLoss = "the share is not there any more"
	ShareAccessGone ShareLoss = "the access rule of its host is not there any more"
)

// exceptions are Nova's, by which it says the same.
var exceptions = map[ShareLoss]string{ShareGone: "ShareNotFound", ShareAccessGone: "ShareAccessNotFound"}

// ShareTaken writes that a share was taken away from a server: Nova's notification of an attachment
// that came into error.
func (w *Writer) ShareTaken(ctx context.Context, q *schema.Queries, server compute.ServerID, share compute.ShareID, what ShareLoss) error {
	if w == nil {
		return nil
	}
	s, err := w.load(ctx, q, server)
	if err != nil {
		return err
	}
	data := s.instance()
	data["share_id"] = share
	data["fault"] = fault(exceptions[what], fmt.Sprintf("Share %s of server %s: %s.", share, server, what), "watch_shares")
	return insert(ctx, q, s, []event{{
		compute.ShareAttach.Notifications.Error, priorityError, versioned("InstanceActionSharePayload", "1.0", data),
	}})
}
