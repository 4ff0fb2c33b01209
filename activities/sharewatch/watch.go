// Package sharewatch looks at the shares that servers have: where the shared file systems service
// has no locks, users can take an access rule or the share itself away under a server.
package sharewatch

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
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
	// atOnce is how many attachments are looked at before it is put on record what was seen: a worker
	// that stops in the middle loses no more than that.
	atOnce = 100
	// again is how soon after a look that did not find a share, or no access to it, the next one
	// decides: an operation of another server may make a rule anew at this moment.
	again = time.Minute
	// later is when a service is asked again that gave no answer.
	later = 5 * time.Minute
	// mostSilent is for how many projects in a row there may be no answer before a pass ends.
	mostSilent = 3
)

// Watch compares the shares of servers that nobody is at work on with those of the service, and with
// the access rules there.
//
// A share that two looks in a row did not find, or found without a rule that lets the server's host read and write, is put
// in error, with the reason, logged, and told (notification.Writer.ShareTaken), unless too many are missed at once (brake.go).
// Nothing else is done: a guest that runs is left alone, and the next start, which asks for access anew, mounts the share or
// says why it cannot. What the service says to one share, or does not say, counts for no other.
type Watch struct {
	Pool       *pgxpool.Pool
	Service    share.Service
	Interval   time.Duration // how often an attachment is looked at; 0: never
	MostMissed int           // percent of the shares that may be missed at once (tooMany); 100: all
	// Notifications tells of shares that were taken away; nil: nobody is told.
	Notifications *notification.Writer
	Logger        *slog.Logger

	mu     sync.Mutex
	warned time.Time // when it was last logged that too many are missed
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
	silent := 0
	for _, name := range names {
		p := project{Watch: w, name: name, rows: projects[name], now: due[0].ReadAt}
		answered, err := p.look(ctx, credentials[name])
		if err != nil {
			return err
		}
		if silent++; answered {
			silent = 0
		}
		if silent == mostSilent { // the others stay due
			break
		}
	}
	return fence.Unavailable(q.ForgetRefusals(ctx))
}

// project is a project of which attachments are looked at.
type project struct {
	*Watch
	name string
	rows []schema.DueSharesRow
	now  time.Time // the database's, when they were read
}

// look looks at the attachments, some at once, and reports whether the service answered. One that does
// not is asked later; attachments that it was not asked about then stay due.
func (p project) look(ctx context.Context, credentials []compute.Credential) (answered bool, err error) {
	q := schema.New(p.Pool)
	for part := range slices.Chunk(p.rows, atOnce) {
		var seen share.Looked
		err := compute.WithAny(credentials, func(cred compute.Credential) error {
			got, err := p.Service.Standing(ctx, cred, sharesOf(part))
			if err == nil || len(got.Failed) > 0 {
				seen = got
			}
			return err
		})
		if len(seen.Failed) > 0 && compute.Is(err, compute.Forbidden) {
			err = p.refusal(ctx, part, err)
		}
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case compute.Is(err, compute.Forbidden): // also for the other parts
			if err := q.SharesRefused(ctx, p.name); err != nil {
				return true, fence.Unavailable(err)
			}
			if err := q.OfferRefused(ctx, schema.OfferRefusedParams{ProjectID: p.name, ReadAt: p.now}); err != nil {
				return true, fence.Unavailable(err)
			}
			return true, p.lookIn(ctx, p.rows, p.next().Sub(p.now))
		case err != nil:
			p.Logger.WarnContext(ctx, "the shares of servers could not be looked at", "project", p.name, "error", err)
			return false, p.lookIn(ctx, p.rows, later)
		}
		if err := q.SharesAllowed(ctx, p.name); err != nil {
			return true, fence.Unavailable(err)
		}
		if err := p.note(ctx, part, seen); err != nil || seen.Silent {
			return err != nil, err
		}
	}
	return true, nil
}

// refusal gives err, by which the service, which lists the project's shares, refused all those that it was asked about; nil
// where it lets strongroom see others of the project: what it says to these counts for no other.
func (p project) refusal(ctx context.Context, rows []schema.DueSharesRow, err error) error {
	others, failed := schema.New(p.Pool).SeesOtherShares(ctx, schema.SeesOtherSharesParams{
		ProjectID: p.name, Since: p.now.Add(-2 * p.Interval), Ids: ids(rows),
	})
	switch {
	case failed != nil:
		return fence.Unavailable(failed)
	case others:
		return nil
	}
	return err
}

// next is when the project is looked at again: all of its attachments at once, whenever they were made, since
// its shares are listed for each look; and projects one after the other, each at a time of its own within the interval.
func (p project) next() time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.name))
	at := p.now.Truncate(p.Interval).Add(time.Duration(h.Sum64() % uint64(p.Interval)))
	for at.Sub(p.now) <= p.Interval/2 {
		at = at.Add(p.Interval)
	}
	return at
}

// soon is how long after a look that has missed something the next one decides. A pass may take its time: it is not
// counted from its beginning.
func (w *Watch) soon() time.Duration { return min(again, w.Interval) }

func (w *Watch) lookIn(ctx context.Context, rows []schema.DueSharesRow, after time.Duration) error {
	return fence.Unavailable(schema.New(w.Pool).LookAtSharesLater(ctx, schema.LookAtSharesLaterParams{Again: after.Seconds(), Ids: ids(rows)}))
}

// note puts on record what was seen of attachments. Those that the service was not asked about stay due.
func (p project) note(ctx context.Context, rows []schema.DueSharesRow, seen share.Looked) error {
	var there, changing, missed, taken, failed []schema.DueSharesRow
	for _, row := range rows {
		access, _ := accessOf(row, seen)
		err := seen.Failed[row.ShareID]
		switch {
		case err != nil:
			p.Logger.WarnContext(ctx, "a share of a server could not be looked at", "project", p.name, "share", row.ShareID, "server", row.ServerID, "error", err)
			failed = append(failed, row)
		case access == "": // nor was it asked about
		case access == share.Open:
			there = append(there, row)
		case access == share.Changing:
			changing = append(changing, row)
		case row.MissedAt == nil:
			missed = append(missed, row)
		default:
			taken = append(taken, row)
		}
	}
	q := schema.New(p.Pool)
	if err := q.ShareIsThere(ctx, schema.ShareIsThereParams{SeenAt: &p.now, LookAt: p.next(), Ids: ids(there)}); err != nil {
		return fence.Unavailable(err)
	}
	if err := q.ShareIsThere(ctx, schema.ShareIsThereParams{LookAt: p.next(), Ids: ids(changing)}); err != nil {
		return fence.Unavailable(err)
	}
	if err := q.ShareIsMissed(ctx, schema.ShareIsMissedParams{ReadAt: p.now, Again: p.soon().Seconds(), Ids: ids(missed)}); err != nil {
		return fence.Unavailable(err)
	}
	if err := p.lookIn(ctx, failed, later); err != nil {
		return err
	}
	return p.decide(ctx, taken, seen)
}

// accessOf says whether an attachment's host has the share, and what was taken away if not; "": that is not known.
func accessOf(row schema.DueSharesRow, seen share.Looked) (share.Access, compute.ShareLoss) {
	if seen.Gone[row.ShareID] {
		return share.Shut, compute.ShareGone
	}
	rules, isThere := seen.There[row.ShareID]
	if !isThere {
		return "", ""
	}
	var host compute.HostID
	if row.HostID != nil {
		host = *row.HostID
	}
	to := share.GranteeOf(share.Protocol(row.ShareProto), host, row.ShareID, row.Address)
	access := share.AccessBy(rules, row.ServerID, to, share.ReadWrite)
	if access == share.Refused {
		return access, compute.ShareAccessRefused
	}
	return access, compute.ShareAccessGone
}

// decide puts attachments in error that were missed twice, or leaves them as they are where too many are.
func (p project) decide(ctx context.Context, rows []schema.DueSharesRow, seen share.Looked) error {
	if len(rows) == 0 {
		return nil
	}
	many, err := p.tooMany(ctx, rows)
	if err != nil {
		return err
	}
	if many {
		return fence.Unavailable(schema.New(p.Pool).ShareIsHeld(ctx, schema.ShareIsHeldParams{LookAt: p.next(), Ids: ids(rows)}))
	}
	for _, row := range rows {
		_, loss := accessOf(row, seen)
		err := p.taken(ctx, row, loss)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.Logger.WarnContext(ctx, "a share that was taken away could not be put in error", "share", row.ShareID, "server", row.ServerID, "error", err)
		if err := p.lookIn(ctx, []schema.DueSharesRow{row}, p.soon()); err != nil { // it keeps no other waiting
			return err
		}
	}
	return nil
}

// taken puts an attachment in error, unless somebody has been at work on its server since it was
// read, or has seen the share: an operation, or another control worker, knows better.
func (p project) taken(ctx context.Context, row schema.DueSharesRow, why compute.ShareLoss) error {
	found := false
	var was schema.LockShareAtRestRow
	err := fence.Transaction(ctx, p.Pool, func(q *schema.Queries) (err error) {
		found = false
		was, err = q.LockShareAtRest(ctx, schema.LockShareAtRestParams{ID: row.ID, ReadAt: row.ReadAt, MissedAt: *row.MissedAt})
		if errors.Is(err, pgx.ErrNoRows) {
			return q.LookAtSharesLater(ctx, schema.LookAtSharesLaterParams{Again: p.soon().Seconds(), Ids: []uuid.UUID{row.ID}})
		}
		if err != nil {
			return err
		}
		found = true
		status := was.ServerShare.Status.After(compute.ShareTaken)
		if err := q.ShareIsLost(ctx, schema.ShareIsLostParams{ID: row.ID, Status: status, Lost: why}); err != nil {
			return err
		}
		return p.Notifications.ShareTaken(ctx, q, row.ServerID, row.ShareID, why)
	})
	if err != nil || !found {
		return err
	}
	p.Logger.ErrorContext(ctx, "a share was taken away from a server", "share", row.ShareID, "server", row.ServerID, "project", row.ProjectID,
		"why", why, "status", was.ServerShare.Status, "vm_state", was.VMState)
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
