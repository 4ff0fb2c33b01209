package notification

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// exceptions are Nova's, by which it says the same.
var exceptions = map[compute.ShareLoss]string{
	compute.ShareGone: "ShareNotFound", compute.ShareAccessGone: "ShareAccessNotFound", compute.ShareAccessRefused: "ShareAccessGrantError",
}

// The payload of what is told of one share: Nova's, with the keys of SharePayload that it leaves out, as the design document has them.
const (
	sharePayload        = "InstanceActionSharePayload"
	sharePayloadVersion = "1.1"
)

// ShareOf gives the share that an operation is about, as it is attached before the operation's end is written; nil: it is about none, or the server has it
// no more.
func (w *Writer) ShareOf(ctx context.Context, q *schema.Queries, op schema.Operation) (*schema.ServerShare, error) {
	if w == nil || !isOfShare(op) {
		return nil, nil //nolint:nilnil // of most operations
	}
	return attached(ctx, q, op.ServerID, arguments[compute.ShareArguments](op).Share)
}

// isOfShare reports whether an operation attaches or detaches a share.
func isOfShare(op schema.Operation) bool {
	return op.Kind == compute.OpShareAttach || op.Kind == compute.OpShareDetach
}

func attached(ctx context.Context, q *schema.Queries, server compute.ServerID, share compute.ShareID) (*schema.ServerShare, error) {
	row, err := q.GetServerShare(ctx, schema.GetServerShareParams{ServerID: server, ShareID: share})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // the server has it not, or no more
	}
	return &row, err
}

// about are the keys of a share of a server: as it is attached, or else as it was.
func (w *Writer) about(ctx context.Context, q *schema.Queries, server compute.ServerID, share compute.ShareID, was *schema.ServerShare) (map[string]any, error) {
	is, err := attached(ctx, q, server, share)
	if err != nil {
		return nil, err
	}
	if is = cmp.Or(is, was); is != nil {
		return w.told(ctx, *is), nil
	}
	return map[string]any{"share_id": orNull(share), "share_mapping_uuid": nil, "status": nil, "tag": nil}, nil
}

// told are the keys of an attachment.
func (w *Writer) told(ctx context.Context, row schema.ServerShare) map[string]any {
	var location []byte
	if w.Locations != nil {
		var err error
		// A key that is not there any more must keep no operation from its end.
		if location, err = w.Locations.Unseal(row.SealedFor(), row.ExportLocation); err != nil {
			w.Logger.WarnContext(ctx, "where a share is exported cannot be told", "server", row.ServerID, "attachment", row.ID, "error", err)
		}
	}
	return attachment(row.Mapping(), string(location))
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
	about, err := w.about(ctx, q, server, share, nil)
	if err != nil {
		return err
	}
	maps.Copy(data, about)
	data["fault"] = fault(exceptions[what], what.Message(share, server), "watch_shares")
	return insert(ctx, q, s, []event{{
		compute.ShareAttach.Notifications.Error, priorityError, versioned(sharePayload, sharePayloadVersion, data),
	}})
}
