package sharewatch_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

// allGone is a service that knows no share, such as that of another region.
func allGone(l *share.Looked) {
	for id := range l.There {
		l.Gone[id] = true
	}
	clear(l.There)
}

func (b *bench) warnings() int {
	return bytes.Count(b.log.Bytes(), []byte("control.share_most_missed"))
}

// SH-09: a service that has lost its shares costs no server its own: nothing is changed or told, and it is logged
// once for each interval. Shares that are there again are watched as if nothing had happened.
func TestSH09TooManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.MostMissed = 20
	all := append(b.some(6, "p1"), b.some(4, "p2")...)
	b.pass()
	b.service.after = allGone
	for range 4 {
		b.pass()
	}
	require.Zero(t, b.lost())
	require.Empty(t, b.told())
	require.Equal(t, 10, b.CountRows("SELECT count(*) FROM server_shares WHERE held_at IS NOT NULL"))
	require.Equal(t, 1, b.warnings())
	require.Contains(t, b.log.String(), "level=ERROR")
	require.Contains(t, b.log.String(), "shares.endpoint")
	require.Equal(t, 10, b.CountRows("SELECT count(*) FROM server_shares WHERE look_at > now() + interval '20 minutes'"), "not each minute")

	b.service.after = nil
	b.pass()
	require.Zero(t, b.CountRows("SELECT count(*) FROM server_shares WHERE missed_at IS NOT NULL OR held_at IS NOT NULL"))
	b.deny(all[0])
	b.deny(all[9])
	b.pass()
	b.pass()
	b.pass() // by the second, those of the other project had not been looked at once more
	require.Equal(t, 2, b.lost(), "20 percent are not more than 20 percent")
	require.Len(t, b.told(), 2)
}

// SH-09: what looks found before shares were missed does not speak for the service: of many that are missed the first ones
// would else be put in error as long as most others were not looked at, and the rest of them one after the other.
func TestSH09OnlyLooksSinceCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.MostMissed = 20
	all := b.some(20, "p1")
	b.pass()
	b.service.after = allGone
	for i := 0; i < 3; i += 2 {
		b.passOf(all[i : i+2]...)
		b.passOf(all[i : i+2]...)
	}
	require.Zero(t, b.lost(), "20 percent of all, and all that were looked at since")
	require.Zero(t, b.warnings(), "it is too early to say")

	b.service.after = nil
	b.deny(all[0])
	b.deny(all[1])
	b.passOf(all[2:]...)
	b.passOf(all[:2]...)
	require.Equal(t, 2, b.lost(), "the others were seen since")

	b.service.after = allGone
	b.passOf(all[2:6]...)
	b.passOf(all[2:6]...)
	require.Equal(t, 2, b.lost())
	require.Equal(t, 1, b.warnings(), "more than 20 percent of all")
}

// SH-09: where few servers have shares, one may be lost. The next one is not, as long as that one counts.
func TestSH09AFewShares(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.MostMissed = 20
	all := b.some(3, "p1")
	b.pass()
	b.service.after = allGone
	b.passOf(all[0])
	b.passOf(all[0])
	require.Equal(t, 1, b.lost(), "a user may have deleted it")
	for range 3 {
		b.pass()
	}
	require.Equal(t, 1, b.lost())
	require.Equal(t, 1, b.warnings())
	b.service.after = nil
	b.deny(all[1])
	b.pass()
	b.pass()
	require.Equal(t, 1, b.lost(), "two of three within a day")
	b.Exec("UPDATE server_shares SET lost_at = lost_at - interval '1 day' WHERE lost_at IS NOT NULL")
	b.pass()
	require.Equal(t, 2, b.lost())
	require.Equal(t, compute.ShareActive, b.status(all[2]))
}

// SH-09: a share counts once, whatever number of servers has it.
func TestSH09AShareOfManyServersCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.MostMissed = 20
	shared := b.share("p1")
	first := b.attach(shared, compute.ShareActive)
	for range 4 {
		b.attach(shared, compute.ShareActive)
	}
	b.some(4, "p1")
	b.pass()
	b.Exec("UPDATE hosts SET address = '192.0.2.9'")
	b.service.after = func(l *share.Looked) { delete(l.There, first.share); l.Gone[first.share] = true }
	b.pass()
	b.pass()
	require.Equal(t, 5, b.lost())
}
