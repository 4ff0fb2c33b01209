package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// What was refused, or failed, is tried at growing intervals; what was refused also when
// somebody of its project offers a credential.
func TestDueGrowsLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	key := thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "key")
	late := func() (seconds float64) {
		require.NoError(t, b.DB.QueryRow(b.Ctx, "SELECT extract(epoch FROM try_at - updated_at) FROM ledger").Scan(&seconds))
		return seconds
	}
	b.waits(compute.BlockedByCredential, key)
	require.Empty(t, b.due(), "its time has not come")
	require.InDelta(t, 15, late(), 0.01)
	b.again(compute.BlockedByError, key)
	require.InDelta(t, 30, late(), 0.01)
	for range 20 {
		b.again(compute.BlockedByError, key)
	}
	require.InDelta(t, 3600, late(), 0.01)
	b.Exec("UPDATE ledger SET try_at = now()")
	got, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Len(t, got.Things, 1)
	require.NotZero(t, got.Things[0].Since)
	key.Since = got.Things[0].Since
	key.State, key.BlockedBy, key.Reason = compute.ThingWaiting, compute.BlockedByError, "why"
	require.Equal(t, key, got.Things[0])
}

func (b *bundle) offer(project string) compute.Credential {
	b.t.Helper()
	c := compute.Credential{ID: uuid.New(), ProjectID: project, UserID: "u2"}
	_, err := b.Q.OfferCredential(b.Ctx, schema.OfferCredentialParams{ID: c.ID, ProjectID: project, UserID: c.UserID, Sealed: []byte("x")})
	require.NoError(b.t, err)
	return c
}

// A thing waits since it was to be removed first, however often that was tried; once an
// operation has made it again, since that was to be removed.
func TestDueSaysSinceWhenAThingWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	state := thing(b.idle(), compute.ThingTPMState, b.Host("h1", 1, 1).String(), "state")
	since := func() time.Time {
		got, err := b.Due(b.Ctx, ledger.DueInput{})
		require.NoError(t, err)
		require.Len(t, got.Things, 1)
		return got.Things[0].Since
	}
	b.waits(compute.BlockedByHost, state)
	first := since()
	require.NotZero(t, first)
	b.again(compute.BlockedByError, state)
	b.Exec("UPDATE ledger SET try_at = now()")
	require.Equal(t, first, since())

	later := state
	later.ID, later.Operation = uuid.New(), "req-2"
	b.open(later)
	require.Empty(t, b.due())
	b.again(compute.BlockedByHost, later)
	require.True(t, since().After(first))
}

// An offer is for what waits for a credential in its project, once, and is wiped then.
func TestAnOfferMakesDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := thing(b.idle(), compute.ThingKeySecret, compute.PlaceKeyManager, "key")
	failed := thing(b.idle(), compute.ThingKeySecret, compute.PlaceKeyManager, "failed")
	others := thing(b.idle(), compute.ThingKeySecret, compute.PlaceKeyManager, "another project's")
	others.Credential.ProjectID = "p2"
	b.waits(compute.BlockedByCredential, key, others)
	b.waits(compute.BlockedByError, failed)
	require.Empty(t, b.due())
	offer := b.offer(schematest.Owner.ProjectID)
	b.offer(schematest.Owner.ProjectID)
	got, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Equal(t, []compute.Credential{offer}, got.Offers, "one is enough")
	require.Equal(t, []string{"key"}, names(got.Things))
	require.NoError(t, b.Reaped(b.Ctx, ledger.ReapedInput{
		Waiting: []compute.Thing{key.Waits(compute.BlockedByCredential, "still none")}, Offers: got.Offers,
	}))
	require.Empty(t, b.due())
	require.Zero(t, b.CountRows("SELECT count(*) FROM credentials"), "tried once")
}

// An offer is kept for what found no room in the first page.
func TestAnOfferIsKeptForTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var keys []compute.Thing
	for i := range 60 {
		keys = append(keys, thing(b.idle(), compute.ThingKeySecret, compute.PlaceKeyManager, fmt.Sprintf("key %d", i)))
	}
	b.waits(compute.BlockedByCredential, keys...)
	b.offer(schematest.Owner.ProjectID)
	for _, want := range []int{50, 10, 0} {
		got, err := b.Due(b.Ctx, ledger.DueInput{})
		require.NoError(t, err)
		require.Len(t, got.Things, want)
		require.NoError(t, b.Reaped(b.Ctx, ledger.ReapedInput{Released: got.Things, Offers: got.Offers}))
	}
	require.Zero(t, b.CountRows("SELECT count(*) FROM credentials"))
}

// What an operation is at work on is its own business.
func TestDueLeavesOutWhatIsBusy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.idle()
	volume := compute.Owner{Kind: compute.OwnerVolume, ID: uuid.New()}
	b.waits(compute.BlockedByThings, thing(server, compute.ThingKeySecret, compute.PlaceKeyManager, "a"))
	b.waits(compute.BlockedByThings, thing(volume, compute.ThingKeySecret, compute.PlaceKeyManager, "b"))
	require.Equal(t, []string{"a", "b"}, b.due())
	b.Exec("UPDATE servers SET current_operation = 'req-1'")
	require.Equal(t, []string{"b"}, b.due())
	op := compute.Operation{ID: compute.NewOperationID(), Kind: "secure", Subject: volume}
	b.Operation(op, nil)
	require.Empty(t, b.due())
	b.Exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", op.ID)
	require.Equal(t, []string{"b"}, b.due())
}

// A5: any number of things of one service that is away leave the others their turn.
func TestA5DueIsFairToPlaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		SELECT gen_random_uuid(), 'key_secret', $1, 'key ' || n, 'server', $2::uuid, 'req-1', $2::uuid, 'p', 'u', 'waiting', 'error', now() - interval '1 hour' - n * interval '1 second'
		FROM generate_series(1, 1000) n`, compute.PlaceKeyManager, owner.ID)
	host := b.Host("h1", 8, 8192)
	b.waits(compute.BlockedByThings, thing(b.idle(), compute.ThingDomain, host.String(), "domain"))
	got := b.due()
	require.Len(t, got, 51)
	require.Equal(t, []string{"key 1000", "key 999"}, got[:2], "the longest due first")
	require.Equal(t, "domain", got[50])
}

// What is under way is not given again, and counts among what its place has: a host keeps
// room for what operations do there.
func TestDueLeavesOutWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	for i := range 20 {
		b.waits(compute.BlockedByThings, thing(b.idle(), compute.ThingDomain, host.String(), fmt.Sprintf("domain %02d", i)))
	}
	first, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Len(t, first.Things, 12)
	key := thing(b.idle(), compute.ThingKeySecret, compute.PlaceKeyManager, "key")
	b.waits(compute.BlockedByThings, key)
	in := ledger.DueInput{}
	for _, t := range first.Things {
		in.UnderWay = append(in.UnderWay, t.ID)
	}
	got, err := b.Due(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, []string{"key"}, names(got.Things))
	require.NoError(t, b.Reaped(b.Ctx, ledger.ReapedInput{Released: first.Things[:3]}))
	got, err = b.Due(b.Ctx, ledger.DueInput{UnderWay: in.UnderWay[3:]})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"domain 12", "domain 13", "domain 14", "key"}, names(got.Things))
}

// A page stays far below what a payload may have, however long names and reasons are, and
// what finds no room is due still.
func TestDueFitsIntoAPayload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, reason, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		SELECT gen_random_uuid(), 'key_secret', 'place ' || n % 10, repeat('<', 300) || n, repeat('why ', 100000), 'server', $1::uuid, 'req-1', $1::uuid, 'p', 'u', 'waiting', 'error', now()
		FROM generate_series(1, 300) n`, owner.ID)
	seen := map[string]bool{}
	for range 20 {
		got, err := b.Due(b.Ctx, ledger.DueInput{})
		require.NoError(t, err)
		if len(got.Things) == 0 {
			break
		}
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.Less(t, len(text), 130<<10)
		for _, t := range got.Things {
			seen[t.Name] = true
		}
		require.NoError(t, b.Reaped(b.Ctx, ledger.ReapedInput{Released: got.Things}))
	}
	require.Len(t, seen, 300)

	large := thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "key")
	large.Reference = strings.Repeat("x", 200<<10)
	b.waits(compute.BlockedByThings, large)
	got, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Len(t, got.Things, 1, "one that fills a page by itself has its turn")
}

// B7: a host that does not answer is not asked, and is as soon as it does, whatever kind of
// thing waits there.
func TestB7AThingOfAnyKindWaitsForItsHost(t *testing.T) {
	t.Parallel()
	for _, kind := range append(slices.Clone(compute.TeardownOrder), "mount") {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			host := b.Host("h1", 8, 8192)
			b.waits(compute.BlockedByHost, thing(b.idle(), kind, host.String(), "thing"))
			got, err := b.Due(b.Ctx, ledger.DueInput{})
			require.NoError(t, err)
			require.Len(t, got.Things, 1)
			require.Equal(t, "h1", got.Things[0].HostName)
			for _, away := range []string{
				"UPDATE hosts SET last_seen = now() - interval '60 seconds'", "UPDATE hosts SET forced_down = true", "UPDATE hosts SET forgotten_at = now()",
			} {
				b.Exec(away)
				require.Empty(t, b.due(), away)
				b.Exec("UPDATE hosts SET forced_down = false")
				b.Report(host, "h1", 8, 8192)
				require.Equal(t, []string{"thing"}, b.due(), away)
			}
			b.Exec("DELETE FROM hosts")
			require.Empty(t, b.due(), "nobody would take it")
		})
	}
}

// A host that says that it lives and takes no work is asked again after a while, so that
// what else is to be looked after has its turn.
func TestDueLeavesAHostThatTakesNoWorkAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	domain := thing(b.idle(), compute.ThingDomain, host.String(), "domain")
	b.waits(compute.BlockedByHost, domain)
	require.Equal(t, []string{"domain"}, b.due())
	b.again(compute.BlockedByHost, domain)
	require.Empty(t, b.due())
	b.Exec("UPDATE ledger SET try_at = try_at - interval '1 minute'")
	require.Equal(t, []string{"domain"}, b.due())
}

// EE-27, TPM-31: a server's things go in their order, on one host or another.
func TestDueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, h1, h2 := b.idle(), b.Host("h1", 8, 8192), b.Host("h2", 8, 8192)
	domain, disk := thing(owner, compute.ThingDomain, h1.String(), "domain"), thing(owner, compute.ThingDiskFile, h1.String(), "disk")
	elsewhere := thing(owner, compute.ThingDiskFile, h2.String(), "disk elsewhere")
	key, trust := thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "key"), thing(owner, compute.ThingTrust, compute.PlaceIdentity, "trust")
	image := thing(owner, compute.ThingImage, compute.PlaceImageStore, "image")
	b.waits(compute.BlockedByTime, domain, image)
	b.present(thing(owner, compute.ThingDomain, h2.String(), "domain in use"), thing(owner, compute.ThingDiskFile, h1.String(), "disk in use"))
	b.waits(compute.BlockedByThings, disk, elsewhere, key, trust)
	another := thing(b.idle(), compute.ThingKeySecret, compute.PlaceKeyManager, "another server's")
	b.waits(compute.BlockedByThings, another)

	require.ElementsMatch(t, []string{"disk elsewhere", "another server's"}, b.due())
	b.release(elsewhere, another, domain)
	require.Equal(t, []string{"disk"}, b.due())
	b.release(disk)
	require.Empty(t, b.due(), "the key opens the image")
	b.write(func(q *schema.Queries) error { return ledger.HandOver(b.Ctx, q, []compute.Thing{image}) })
	require.Equal(t, []string{"key"}, b.due(), "the image is its user's")
	b.release(key)
	require.Equal(t, []string{"trust"}, b.due())
}

// hostsThatDoNotAnswer are what the record knows of a host that does not: nothing, or that an operator gave it up.
var hostsThatDoNotAnswer = map[string]string{
	"silent": "", "forced down": "UPDATE hosts SET forced_down = true", "forgotten": "UPDATE hosts SET forgotten_at = now()", "deleted": "DELETE FROM hosts",
}

// TPM-33: a key does not wait for what is on a host that was given up.
func TestDueLetsAKeyGoBeforeAHostThatWasGivenUp(t *testing.T) {
	t.Parallel()
	for name, change := range hostsThatDoNotAnswer {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			owner, host := b.idle(), b.Host("h1", 8, 8192)
			b.Exec("UPDATE hosts SET last_seen = now() - interval '1 day'")
			b.waits(compute.BlockedByHost, thing(owner, compute.ThingTPMState, host.String(), "tpm"), thing(owner, compute.ThingDiskFile, host.String(), "disk"))
			b.waits(compute.BlockedByThings, thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "key"))
			require.Empty(t, b.due())
			if change != "" {
				b.Exec(change)
				require.Equal(t, []string{"key"}, b.due())
			}
		})
	}
}

// What may still happen is not removed before it cannot any more (A8).
func TestA8DueWaitsForLateEffects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.waits(compute.BlockedByTime, thing(b.idle(), compute.ThingImage, compute.PlaceImageStore, "image"))
	b.offer(schematest.Owner.ProjectID)
	require.Empty(t, b.due(), "no offer makes it sooner")
	var seconds float64
	require.NoError(t, b.DB.QueryRow(b.Ctx, "SELECT extract(epoch FROM try_at - updated_at) FROM ledger").Scan(&seconds))
	require.InDelta(t, compute.LateEffectWindow.Seconds(), seconds, 0.01)
	b.Exec("UPDATE ledger SET try_at = now()")
	require.Equal(t, []string{"image"}, b.due())
}

// B5: a thing may belong to anything that has an id.
func TestB5AThingMayBelongToAnyOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	id := uuid.New() // of all of them
	for _, kind := range []compute.OwnerKind{
		compute.OwnerServer, compute.OwnerShare, compute.OwnerHost, compute.OwnerVolume, compute.OwnerImage, compute.OwnerOperation,
	} {
		owner := compute.Owner{Kind: kind, ID: id}
		mount := thing(owner, "mount", host.String(), string(kind))
		mount.Reference = "/mnt"
		b.present(mount)
		got, err := b.Things(b.Ctx, owner)
		require.NoError(t, err)
		mount.State, mount.HostName = compute.ThingPresent, "h1"
		require.Equal(t, []compute.Thing{mount}, got)
		b.again(compute.BlockedByHost, mount)
	}
	require.Len(t, b.due(), 6)
}

// That a domain runs is the business of the operation that starts it last. What the janitor
// made of it before is no word on that.
func TestReapedLeavesWhatIsStartedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	runs := thing(b.idle(), compute.ThingRunningDomain, host.String(), "domain")
	disk := thing(runs.Owner, compute.ThingDiskFile, host.String(), "disk")
	b.waits(compute.BlockedByHost, runs, disk)
	tried, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Equal(t, []string{"domain"}, names(tried.Things))

	again, more := thing(runs.Owner, runs.Kind, runs.Place, runs.Name), thing(runs.Owner, disk.Kind, disk.Place, disk.Name)
	again.Operation, more.Operation = "req-2", "req-2"
	b.open(again, more)
	for _, in := range []ledger.ReapedInput{{Released: tried.Things}, {Waiting: tried.Things}} {
		require.NoError(t, b.Reaped(b.Ctx, in))
	}
	got, err := b.Things(b.Ctx, runs.Owner)
	require.NoError(t, err)
	require.Len(t, got, 2)
	for _, row := range got {
		want := more
		want.ID = disk.ID
		if row.Kind == runs.Kind {
			want = again
			want.ID = runs.ID
		}
		want.State, want.HostName = compute.ThingIntended, "h1"
		require.Equal(t, want, row)
	}
	b.again(compute.BlockedByHost, again)
	tried, err = b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Equal(t, []string{"domain"}, names(tried.Things))
	require.Equal(t, again.Operation, tried.Things[0].Operation)
	require.NoError(t, b.Reaped(b.Ctx, ledger.ReapedInput{Released: tried.Things}))
	require.Empty(t, b.due(), "the disk is the other operation's")
}

// A thing of any kind that an operation makes while the janitor removes what another one
// left under its name has a row afterwards: nothing exists without one.
func TestWhatIsMadeAgainKeepsItsRow(t *testing.T) {
	t.Parallel()
	for _, kind := range compute.TeardownOrder {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			host := b.Host("h1", 8, 8192)
			left := thing(b.idle(), kind, host.String(), "thing")
			b.waits(compute.BlockedByError, left)
			b.Exec("UPDATE ledger SET try_at = now()")
			tried, err := b.Due(b.Ctx, ledger.DueInput{})
			require.NoError(t, err)
			require.Len(t, tried.Things, 1)
			made := thing(left.Owner, left.Kind, left.Place, left.Name)
			made.Operation = "req-2"
			b.open(made) // while the removal is under way
			require.NoError(t, b.Reaped(b.Ctx, ledger.ReapedInput{Released: tried.Things}))
			b.write(func(q *schema.Queries) error { return ledger.Present(b.Ctx, q, []compute.Thing{made}) })
			got, err := b.Things(b.Ctx, left.Owner)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, compute.ThingPresent, got[0].State)
			require.Equal(t, made.Operation, got[0].Operation)
			require.Equal(t, made.Credential, got[0].Credential)
		})
	}
}
