// Package sharewatch looks at the shares that servers have: where the shared file systems service
// has no locks, users can take an access rule or the share itself away under a server.
package sharewatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/ledger"
	"strongroom/activities/notification"
	"strongroom/activities/share"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

const (
	// most is how many attachments one pass looks at.
	most = 500
	// atOnce is how many shares the service is asked for with one credential before it is known
	// what was seen: a worker that stops in the middle loses no more than that.
	atOnce = 100
	// again is how soon after a look that did not find a share, or no access to it, the next one
	// decides: an operation of another server may make a rule anew at this moment.
	again = time.Minute
	// later is when a service is asked again that gave no answer.
	later = 5 * time.Minute
)

// Watch compares the shares of servers that nobody is at work on with those of the service, and with
// the access rules there.
//
// A share that two looks in a row did not find, or found without a rule for the server's host, is put
// in error, logged, and told (notification.Writer.ShareTaken). Nothing else is done: a guest that runs
// is left alone, and the next start, which asks for access anew, mounts the share or says why it cannot.
type Watch struct {
	Pool     *pgxpool.Pool
	Service  share.Service
	Interval time.Duration // how often an attachment is looked at; 0: never
	// Notifications tells of shares that were taken away; nil: nobody is told.
	Notifications *notification.Writer
	Logger        *slog.Logger
}

// Pass looks at the attachments whose time has come, at most some of them.
func (w *Watch) Pass(ctx context.Context) error {
	if w.Interval <= 0 {
		return nil
	}
	q := schema.New(w.Pool)
	if err := q.LookWithOffers(ctx); err != nil {
		return fence.Unavailable(err)
	}
	due, err := q.DueShares(ctx, most)
	if err != nil || len(due) == 0 {
		return fence.Unavailable(err)
	}
	projects := map[string][]schema.DueSharesRow{}
	var names []string
	for _, row := range due {
		if projects[row.ProjectID] == nil {
			names = append(names, row.ProjectID)
		}
		projects[row.ProjectID] = append(projects[row.ProjectID], row)
	}
	credentials, err := ledger.CredentialsFor(ctx, q, names)
	if err != nil {
		return fence.Unavailable(err)
	}
	for _, project := range names {
		if err := w.project(ctx, project, projects[project], credentials[project]); err != nil {
			return err
		}
	}
	return fence.Unavailable(q.ForgetRefusals(ctx))
}

// project looks at attachments of one project. A service that does not answer is asked later.
func (w *Watch) project(ctx context.Context, project string, rows []schema.DueSharesRow, credentials []compute.Credential) error {
	q := schema.New(w.Pool)
	for part := range slices.Chunk(rows, atOnce) {
		var seen map[share.ID][]share.Rule
		err := compute.WithAny(credentials, func(cred compute.Credential) (err error) {
			seen, err = w.Service.Standing(ctx, cred, sharesOf(part))
			return err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case compute.Is(err, compute.Forbidden): // also for the other parts
			if err := q.SharesRefused(ctx, project); err != nil {
				return fence.Unavailable(err)
			}
			return fence.Unavailable(q.LookAtSharesLater(ctx, schema.LookAtSharesLaterParams{Again: w.Interval.Seconds(), Ids: ids(rows)}))
		case err != nil:
			w.Logger.WarnContext(ctx, "the shares of servers could not be looked at", "project", project, "error", err)
			return fence.Unavailable(q.LookAtSharesLater(ctx, schema.LookAtSharesLaterParams{Again: later.Seconds(), Ids: ids(rows)}))
		}
		if err := q.SharesAllowed(ctx, project); err != nil {
			return fence.Unavailable(err)
		}
		if err := w.note(ctx, part, seen); err != nil {
			return err
		}
	}
	return nil
}

// note puts on record what was seen of attachments.
func (w *Watch) note(ctx context.Context, rows []schema.DueSharesRow, seen map[share.ID][]share.Rule) error {
	var there, missed, taken []schema.DueSharesRow
	for _, row := range rows {
		switch {
		case lacks(row, seen) == "":
			there = append(there, row)
		case row.MissedAt == nil:
			missed = append(missed, row)
		default:
			taken = append(taken, row)
		}
	}
	q := schema.New(w.Pool)
	if err := q.ShareIsThere(ctx, schema.ShareIsThereParams{Again: w.Interval.Seconds(), Ids: ids(there)}); err != nil {
		return fence.Unavailable(err)
	}
	soon := min(again, w.Interval).Seconds()
	if err := q.ShareIsMissed(ctx, schema.ShareIsMissedParams{Again: soon, Ids: ids(missed)}); err != nil {
		return fence.Unavailable(err)
	}
	for _, row := range taken {
		err := w.taken(ctx, row, lacks(row, seen))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // it stays due, and keeps no other waiting
			w.Logger.WarnContext(ctx, "a share that was taken away could not be put in error", "share", row.ShareID, "server", row.ServerID, "error", err)
		}
	}
	return nil
}

// lacks says what is not there of an attachment; "": nothing.
func lacks(row schema.DueSharesRow, seen map[share.ID][]share.Rule) notification.ShareLoss {
	rules, isThere := seen[row.ShareID]
	if !isThere {
		return notification.ShareGone
	}
	to := share.Grantee{Kind: share.Address, Name: row.Address}
	if row.ShareProto == compute.CephFSShare && row.HostID != nil {
		to = share.UserOf(*row.HostID, row.ShareID)
	}
	if slices.ContainsFunc(rules, func(r share.Rule) bool { return r.LetsIn(row.ServerID, to) }) {
		return ""
	}
	return notification.ShareAccessGone
}

// taken puts an attachment in error, unless somebody has been at work on its server since it was
// read: an operation knows better.
func (w *Watch) taken(ctx context.Context, row schema.DueSharesRow, what notification.ShareLoss) error {
	found := false
	var was schema.LockShareAtRestRow
	err := fence.Transaction(ctx, w.Pool, func(q *schema.Queries) (err error) {
		found = false
		was, err = q.LockShareAtRest(ctx, schema.LockShareAtRestParams{ID: row.ID, ReadAt: row.ReadAt})
		if errors.Is(err, pgx.ErrNoRows) {
			return q.LookAtSharesLater(ctx, schema.LookAtSharesLaterParams{Again: min(again, w.Interval).Seconds(), Ids: []uuid.UUID{row.ID}})
		}
		if err != nil {
			return err
		}
		found = true
		status := was.ServerShare.Status.After(compute.ShareTaken)
		if _, err := q.SetShareStatus(ctx, schema.SetShareStatusParams{ServerID: row.ServerID, ShareID: row.ShareID, Status: status}); err != nil {
			return err
		}
		// The share that a start brings back is looked at like a new one.
		if err := q.ShareIsThere(ctx, schema.ShareIsThereParams{Again: w.Interval.Seconds(), Ids: []uuid.UUID{row.ID}}); err != nil {
			return err
		}
		return w.Notifications.ShareTaken(ctx, q, row.ServerID, row.ShareID, what)
	})
	if err != nil || !found {
		return err
	}
	w.Logger.ErrorContext(ctx, "a share was taken away from a server", "share", row.ShareID, "server", row.ServerID, "project", row.ProjectID,
		"why", what, "status", was.ServerShare.Status, "vm_state", was.VMState)
	return nil
}

func sharesOf(rows []schema.DueSharesRow) (out []share.ID) {
	for _, row := range rows {
		if !slices.Contains(out, row.ShareID) {
			out = append(out, row.ShareID)
		}
	}
	return out
}

func ids(rows []schema.DueSharesRow) []uuid.UUID {
	out := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		out[i] = row.ID
	}
	return out
}
