package sharewatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/notification"
	"strongroom/activities/share"
	"strongroom/activities/sharewatch"
	"strongroom/compute"
)

// becomes has all rules of shares be as they are said to be.
func becomes(level share.Level, state string) func(*share.Looked) {
	return func(l *share.Looked) {
		for _, rules := range l.There {
			for i := range rules {
				rules[i].Level, rules[i].State = level, state
			}
		}
	}
}

// SH-09: a rule that does not let its host read and write is none, and the reason is on record. One that the storage
// is at work on says nothing, and two looks in a row must have missed it.
func TestSH09ARuleThatIsThereAndLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct {
		level     share.Level
		loss      compute.ShareLoss
		exception string
	}{
		"error": {share.ReadWrite, compute.ShareAccessRefused, "ShareAccessGrantError"}, "denying": {share.ReadWrite, compute.ShareAccessGone, "ShareAccessNotFound"},
		"queued_to_deny": {share.ReadWrite, compute.ShareAccessGone, "ShareAccessNotFound"}, "active": {share.ReadOnly, compute.ShareAccessGone, "ShareAccessNotFound"},
		"applying": {level: share.ReadWrite}, "queued_to_apply": {level: share.ReadWrite},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			a := b.some(1, "p1")[0]
			b.service.after = becomes(want.level, state)
			b.pass()
			b.service.after = becomes(share.ReadWrite, "applying")
			b.pass()
			b.service.after = becomes(want.level, state)
			b.pass()
			require.Equal(t, compute.ShareActive, b.status(a))
			b.pass()
			if want.loss == "" {
				require.Equal(t, compute.ShareActive, b.status(a))
				require.Zero(t, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL OR look_at < now() + interval '2 minutes'"))
				return
			}
			require.Equal(t, compute.ShareError, b.status(a))
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_shares WHERE lost = '"+string(want.loss)+"' AND lost_at > now() - interval '1 minute'"))
			fault := data(data(b.told()[0]["payload"])["fault"])
			require.Equal(t, []any{want.exception, want.loss.Message(a.share, a.server)}, []any{fault["exception"], fault["exception_message"]})
		})
	}
}

// SH-09: no answer to a share is not known, never gone, and keeps no other share waiting. One that was not asked
// about stays due.
func TestSH09NoAnswerToOneShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	some := b.some(4, "p1")
	b.service.after = func(l *share.Looked) {
		for i, a := range some[:3] {
			delete(l.There, a.share)
			switch i {
			case 0:
				l.Failed[a.share] = compute.Errorf(compute.Unavailable, "500")
			case 1:
				l.Gone[a.share] = true
			}
		}
	}
	due := func() (due []bool) {
		for _, a := range some {
			due = append(due, b.CountRows("SELECT count(*) FROM server_shares WHERE look_at <= now() AND status = 'active' AND id = '"+a.id.String()+"'") == 1)
		}
		return due
	}
	for range 3 {
		b.pass()
		require.Equal(t, []bool{false, false, true, false}, due())
	}
	require.Equal(t, []compute.ShareStatus{compute.ShareActive, compute.ShareError, compute.ShareActive, compute.ShareActive},
		[]compute.ShareStatus{b.status(some[0]), b.status(some[1]), b.status(some[2]), b.status(some[3])})
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_shares WHERE look_at BETWEEN now() + interval '4 minutes' AND now() + interval '6 minutes'"))
}

// SH-09: a service that is away is not waited for project by project; those that were not asked about come next.
func TestSH09AServiceThatIsAwayEndsAPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.some(1, fmt.Sprint("p", i))
	}
	b.service.before = func(compute.Credential) error { return compute.Errorf(compute.Unavailable, "no answer") }
	b.pass()
	require.Len(t, b.service.asked, 3)
	require.NoError(t, b.Pass(b.Ctx))
	require.Len(t, b.service.asked, 5)
	require.NoError(t, b.Pass(b.Ctx))
	require.Len(t, b.service.asked, 5, "not their time")
	require.Zero(t, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL"))
}

// SH-09: of two control workers that look at once, one tells; and what one has seen, the other's look from before does
// not undo.
func TestSH09TwoControlWorkersAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := &sharewatch.Watch{
		Pool: b.Pool, Service: b.service.Service, Interval: time.Hour, MostMissed: 100, Notifications: &notification.Writer{}, Logger: slog.New(slog.DiscardHandler),
	}
	lost, back := b.some(1, "p1")[0], b.some(1, "p2")[0]
	b.deny(lost)
	b.deny(back)
	b.pass()
	b.service.after = func(*share.Looked) { // this one has its answer
		b.service.after = nil
		b.allow(back)
		require.NoError(t, other.Pass(b.Ctx))
	}
	b.passOf(back)
	require.Equal(t, compute.ShareActive, b.status(back))
	b.service.after = func(*share.Looked) {
		b.service.after = nil
		require.NoError(t, other.Pass(b.Ctx))
	}
	b.passOf(lost)
	require.Equal(t, compute.ShareError, b.status(lost))
	require.Len(t, b.told(), 1)
	require.Zero(t, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL"))
}

// SH-09: an operation that begins or ends during the first look knows better than that look, too.
func TestSH09NothingIsMissedBesideAnOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.some(1, "p1")[0]
	b.deny(a)
	for _, meanwhile := range []string{
		"UPDATE servers SET current_operation = 'req-1'",
		"UPDATE servers SET current_operation = ''; UPDATE server_shares SET updated_at = clock_timestamp(), status = 'inactive'",
		"UPDATE server_shares SET status = 'detaching', updated_at = NULL",
		"UPDATE server_shares SET status = 'inactive'; UPDATE servers SET deleted_at = now()",
	} {
		b.service.after = func(*share.Looked) { b.Exec(meanwhile) }
		b.pass()
		require.Zero(t, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL"), meanwhile)
		b.Exec("UPDATE servers SET current_operation = ''")
	}
}

// SH-09: the attachments of a project are looked at together, whenever they were made, and projects one after the other.
func TestSH09LooksAreSpread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.passOf(b.some(1, "p0")...)
	for i := range 20 {
		b.passOf(b.some(2, fmt.Sprint("p", i))...)
	}
	b.pass()
	require.Equal(t, 20, b.CountRows("SELECT count(DISTINCT look_at) FROM server_shares"))
	require.Equal(t, 41, b.CountRows("SELECT count(*) FROM server_shares WHERE look_at BETWEEN now() + interval '29 minutes' AND now() + interval '91 minutes'"))
	asked, shares := len(b.service.asked), b.service.shares
	b.pass()
	require.Equal(t, []int{20, 41}, []int{len(b.service.asked) - asked, b.service.shares - shares})
}

// SH-09: where the credentials of passing requests may not look, either, they are asked for less and less often.
func TestSH09OffersThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.some(1, "p1")
	b.service.before = func(compute.Credential) error { return compute.Errorf(compute.Forbidden, "no role") }
	wait := func() (minutes int) {
		require.NoError(t, b.DB.QueryRow(b.Ctx, "SELECT round(extract(epoch FROM offer_at - clock_timestamp()) / 60) FROM share_refusals").Scan(&minutes))
		return minutes
	}
	b.pass()
	require.Equal(t, 1, wait())
	b.pass()
	require.Equal(t, 1, wait(), "none was offered")
	for _, minutes := range []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440} {
		b.Exec("INSERT INTO credentials (id, project_id, user_id, sealed, offered) VALUES (gen_random_uuid(), 'p1', 'u', 'sealed', true)")
		require.NoError(t, b.Pass(b.Ctx))
		require.Equal(t, minutes, wait())
		waits, err := b.Q.ProjectWaits(b.Ctx, "p1")
		require.NoError(t, err)
		require.False(t, waits)
		b.Exec("DELETE FROM credentials")
		b.pass()
		require.Equal(t, minutes, wait(), "a look of its own changes nothing")
	}
}

// SH-09: a control worker that stops before it has put on record what it saw leaves all as it was, for the next one.
func TestSH09AWorkerThatStopsInTheMidst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.some(1, "p1")[0]
	b.deny(a)
	b.pass()
	ctx, stop := context.WithCancel(b.Ctx)
	b.service.after = func(*share.Looked) { stop() }
	b.due()
	require.ErrorIs(t, b.Pass(ctx), context.Canceled)
	require.Equal(t, compute.ShareActive, b.status(a))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL AND look_at <= now()"))
	b.service.after = nil
	require.NoError(t, b.Pass(b.Ctx))
	require.Equal(t, compute.ShareError, b.status(a))
	require.Len(t, b.told(), 1)
}

// SH-09: what a look has missed is decided on some time after that was put on record, however long the pass takes.
func TestSH09ASlowPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Interval = 10 * time.Second
	b.deny(b.some(1, "p1")[0])
	b.pass()
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL AND look_at = missed_at + interval '10 seconds'"))
}

// refuse has the service list the project's shares, and refuse to tell of some of them.
func refuse(some ...attached) func(share.ID) compute.Kind {
	return func(id share.ID) compute.Kind {
		if slices.ContainsFunc(some, func(a attached) bool { return a.share == id }) {
			return compute.Forbidden
		}
		return ""
	}
}

// SH-09: a share that is refused counts for itself, also where it is looked at alone: strongroom sees the project's others. Where
// it sees none, the project lets it see none.
func TestSH09OneShareThatIsRefused(t *testing.T) {
	t.Parallel()
	refusals := "SELECT count(*) FROM share_refusals"
	t.Run("beside others", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		some := b.some(2, "p1")
		b.pass()
		b.service.says = refuse(some[0])
		b.passOf(some[0])
		require.Zero(t, b.CountRows(refusals))
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_shares WHERE look_at BETWEEN now() + interval '4 minutes' AND now() + interval '6 minutes'"))
		require.Equal(t, []compute.ShareStatus{compute.ShareActive, compute.ShareActive}, []compute.ShareStatus{b.status(some[0]), b.status(some[1])})
	})
	t.Run("another server has it, too", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		s := b.share("p1")
		one := b.attach(s, compute.ShareActive)
		b.attach(s, compute.ShareActive)
		b.pass()
		b.service.says = refuse(one)
		b.passOf(one)
		require.Equal(t, 1, b.CountRows(refusals), "it is no other share")
	})
	t.Run("the others were seen long ago", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		some := b.some(2, "p1")
		b.pass()
		b.Exec("UPDATE server_shares SET seen_at = seen_at - interval '3 hours'")
		b.service.says = refuse(some...)
		b.passOf(some[0])
		require.Equal(t, 1, b.CountRows(refusals))
	})
	t.Run("the only one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one := b.some(1, "p1")[0]
		b.some(1, "p2")
		b.pass()
		b.service.says = refuse(one)
		b.passOf(one)
		require.Equal(t, 1, b.CountRows(refusals))
	})
	t.Run("the project's list is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		some := b.some(2, "p1")
		b.pass()
		b.service.before = func(compute.Credential) error { return compute.Errorf(compute.Forbidden, "no role") }
		b.passOf(some[0])
		require.Equal(t, 1, b.CountRows(refusals))
	})
}

// SH-09: a service that lists shares and tells nothing of any is away, too: it is waited for three shares in a row and no more, and
// for three projects; what it was not asked about comes next.
func TestSH09AServiceThatTellsOfNoShareEndsAPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.some(5, fmt.Sprint("p", i))
	}
	b.service.says = func(share.ID) compute.Kind { return compute.Unavailable }
	due := func() int { return b.CountRows("SELECT count(*) FROM server_shares WHERE look_at <= now()") }
	b.pass()
	require.Len(t, b.service.asked, 3)
	require.Equal(t, 25-3*3, due())
	b.service.says = nil
	require.NoError(t, b.Pass(b.Ctx))
	require.Zero(t, due())
	require.Zero(t, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL"))
}
