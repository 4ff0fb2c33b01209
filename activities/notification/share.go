package notification

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// exceptions are Nova's, by which it says the same.
var exceptions = map[compute.ShareLoss]string{
	compute.ShareGone: "ShareNotFound", compute.ShareAccessGone: "ShareAccessNotFound", compute.ShareAccessRefused: "ShareAccessGrantError",
}

// ShareTaken writes that a share was taken away from a server: Nova's notification of an attachment
// that came into error.
func (w *Writer) ShareTaken(ctx context.Context, q *schema.Queries, server compute.ServerID, share compute.ShareID, what compute.ShareLoss) error {
	if w == nil {
		return nil
	}
	s, err := w.load(ctx, q, server)
	if err != nil {
		return err
	}
	data := s.instance()
	data["share_id"] = share
	data["fault"] = fault(exceptions[what], what.Message(share, server), "watch_shares")
	return insert(ctx, q, s, []event{{
		compute.ShareAttach.Notifications.Error, priorityError, versioned("InstanceActionSharePayload", "1.0", data),
	}})
}
