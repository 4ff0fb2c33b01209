package workflows_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/mount"
	"strongroom/activities/record"
	"strongroom/activities/share"
	"strongroom/compute"
)

var (
	shareID    = compute.ShareID{UUID: uuid.MustParse("6dd2d5ce-d469-4235-b10a-25d1e983aefd")}
	thirdShare = compute.ShareID{UUID: uuid.MustParse("6dd2d5ce-d469-4235-b10a-25d1e983aefe")}
	otherShare = compute.ShareID{UUID: uuid.MustParse("6dd2d5ce-d469-4235-b10a-25d1e983aeff")}
)

// attaching is a bench with a server that is off and whose share the API has written down.
func attaching(t *testing.T) *bench {
	b := stopped(t)
	b.writeDown(shareID)
	return b
}

func (b *bench) writeDown(id compute.ShareID) {
	m := compute.ShareMapping{ID: uuid.New(), Share: id, Status: compute.ShareAttaching, Tag: id.String(), Protocol: string(b.protocol())}
	if m.Protocol == compute.NFSShare {
		m.Address = shareAddress // record.Begin reads it
	}
	b.row.server.Shares = append(b.row.server.Shares, m)
}

// attached is a bench with a server that is off and has two shares.
func attached(t *testing.T) *bench {
	b := stopped(t)
	for _, id := range []compute.ShareID{shareID, otherShare} {
		b.writeDown(id)
		require.NoError(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: id, Address: "192.0.2.1"}))
	}
	require.Equal(t, "inactive inactive", b.statuses())
	b.forget()
	return b
}

// running2 is attached with the server running.
func running2(t *testing.T) *bench {
	b := attached(t)
	require.NoError(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
	require.Equal(t, "active active", b.statuses())
	b.forget()
	return b
}

func (b *bench) shares(kind compute.OperationKind, task compute.TaskState, arguments any) error {
	return b.run(kind, b.accept(kind, task, arguments), nil)
}

func (b *bench) detach(id compute.ShareID) error {
	return b.detachBy(compute.ShareArguments{Share: id})
}

func (b *bench) detachLive(id compute.ShareID) error {
	return b.detachBy(compute.ShareArguments{Share: id, Live: true})
}

func (b *bench) detachBy(in compute.ShareArguments) error {
	id := in.Share
	for i := range b.row.server.Shares {
		if m := &b.row.server.Shares[i]; m.Share == id {
			m.Status = m.Status.After(compute.ShareUnwanted) // the API did that
		}
	}
	return b.shares(compute.OpShareDetach, compute.TaskDetachingShare, in)
}

// live are the arguments of an attachment to a guest that runs.
func live(id compute.ShareID) compute.ShareArguments {
	return compute.ShareArguments{Share: id, Address: shareAddress, Live: true}
}

func (b *bench) statuses() (out string) {
	for i, m := range b.row.server.Shares {
		if i > 0 {
			out += " "
		}
		out += string(m.Status)
	}
	return out
}

// tidy checks that all that is there is on record, and that nothing was done in a wrong order.
func (b *bench) tidy() {
	b.t.Helper()
	require.Empty(b.t, b.broken)
	require.Empty(b.t, b.audit())
}

// SH-03, SH-10, SH-11, SH-16: the whole life of two shares.
func TestSH10TheLifeOfShares(t *testing.T) {
	t.Parallel()
	b := running2(t)
	require.Len(t, b.mounts, 2)
	require.NoError(t, b.shares(compute.OpReboot, compute.TaskRebooting, compute.RebootArguments{}))
	require.Equal(t, "active active", b.statuses())
	require.NoError(t, b.shares(compute.OpStop, compute.TaskPoweringOff, nil))
	require.Equal(t, "inactive inactive", b.statuses())
	require.Empty(t, b.mounts)
	require.Len(t, b.access, 2)
	b.tidy()
	require.NoError(t, b.detach(shareID))
	require.Equal(t, "inactive", b.statuses())
	require.Len(t, b.access, 1)
	require.NoError(t, b.detach(otherShare))
	require.Empty(t, b.row.server.Shares)
	require.Empty(t, b.access)
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	b.tidy()
}

// SH-08: a share to which the host gets no access is in error, and may be detached (SH-32).
func TestSH32AnAttachmentThatFails(t *testing.T) {
	t.Parallel()
	b := attaching(t)
	b.fault = at(call{name: share.Allow.Name, nth: 1}, fault{before: fail})
	require.Error(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: shareID, Address: "192.0.2.1"}))
	require.Equal(t, "error", b.statuses())
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	b.fault = nil
	b.tidy()
	require.NoError(t, b.detach(shareID))
	require.Empty(t, b.row.server.Shares)
	b.tidy()
}

// SH-08: until its host may read and write it, and its locks are there, a share attaches; then it is inactive.
func TestSH08AShareIsInactiveOnceItsHostIsLetIn(t *testing.T) {
	t.Parallel()
	b := attaching(t)
	var seen []string
	look := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		seen = append(seen, b.statuses())
		return nil
	}
	b.fault = at(call{name: share.Allow.Name, nth: 1}, fault{before: look, after: look})
	require.NoError(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: shareID, Address: shareAddress}))
	require.Equal(t, []string{"attaching", "attaching"}, seen)
	require.Equal(t, "inactive", b.statuses())
	require.Len(t, b.access, 1)
	b.tidy()
}

// SH-12, SH-14: a share that cannot be mounted leaves the server in ERROR and the other unmounted;
// a hard reboot mends it once the cause is gone. SH-33: the one in error is mounted again.
func TestSH12AShareThatCannotBeMounted(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]compute.OperationKind{"start": compute.OpStart, "reboot": compute.OpReboot} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := attached(t)
			task := compute.TaskPoweringOn
			if kind == compute.OpReboot {
				b, task = running2(t), compute.TaskRebooting
			}
			b.fault = at(call{name: mount.Mount.Name, nth: 2}, fault{before: fail})
			require.Error(t, b.shares(kind, task, compute.RebootArguments{}))
			require.ElementsMatch(t, []string{"inactive", "error"}, strings.Fields(b.statuses())) // both are mounted at once
			require.Equal(t, compute.VMError, b.row.server.VMState)
			require.NotNil(t, b.row.fault)
			require.Empty(t, b.mounts)
			require.Equal(t, []compute.PowerState{compute.PowerShutdown}, b.power())
			b.fault = nil
			b.tidy()
			var log bytes.Buffer
			b.logs = slog.NewTextHandler(&log, nil)
			require.NoError(t, b.shares(compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}))
			require.Equal(t, 1, strings.Count(log.String(), `level=WARN msg="a share that was in error is mounted again"`), log.String())
			require.Equal(t, "active active", b.statuses())
			require.Equal(t, compute.VMActive, b.row.server.VMState)
			require.Nil(t, b.row.fault)
			b.tidy()
		})
	}
}

// attachingBy is attaching, with a share of each protocol whose storage goes by rules.
func attachingBy(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, protocol := range []share.Protocol{share.CephFS, share.NFS} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			b := stopped(t)
			b.shareProtocol = protocol
			b.writeDown(shareID)
			test(t, b)
		})
	}
}

// SH-14: a share to which the host got no access gets it with the next start, on the ledger, and loses it
// again with a start that fails.
func TestSH14AShareThatWasRefusedGetsAccessAtTheNextStart(t *testing.T) {
	t.Parallel()
	attachingBy(t, refusedOnce)
}

func refusedOnce(t *testing.T, b *bench) {
	b.fault = at(call{name: share.Allow.Name, nth: 1}, fault{before: fail})
	require.Error(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: shareID, Address: shareAddress}))
	require.Equal(t, "error", b.statuses())
	b.fault = at(call{name: domain.Start.Name, nth: 1}, fault{after: fail})
	require.Error(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
	require.Empty(t, b.access)
	require.Empty(t, b.mounts)
	b.fault = nil
	b.tidy()
	require.NoError(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
	require.Equal(t, "active", b.statuses())
	require.Len(t, b.access, 1)
	b.tidy()
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	require.Empty(t, b.access)
	require.Empty(t, b.ledger)
	b.tidy()
}

// SH-14, SH-30: where users can take an access rule away, a start makes it anew; without it, the
// share is what failed.
func TestSH14AnAccessRuleThatWasTakenAway(t *testing.T) {
	t.Parallel()
	attachingBy(t, taken)
}

func taken(t *testing.T, b *bench) {
	require.NoError(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: shareID, Address: shareAddress}))
	clear(b.access)
	b.forget()
	b.fault = at(call{name: share.Allow.Name, nth: 1}, fault{before: fail})
	require.Error(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
	require.Equal(t, "error", b.statuses())
	require.Equal(t, compute.VMError, b.row.server.VMState)
	b.fault = nil
	require.NoError(t, b.shares(compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}))
	require.Equal(t, "active", b.statuses())
	require.Len(t, b.access, 1)
	b.tidy()
}

// SH-13: no server is started with a share that attaches or detaches.
func TestSH13AStartWithAShareThatAttaches(t *testing.T) {
	t.Parallel()
	for _, status := range []compute.ShareStatus{compute.ShareAttaching, compute.ShareDetaching} {
		b := attached(t)
		b.row.server.Shares[1].Status = status // an administrator reset the server's state meanwhile
		require.ErrorContains(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil), string(status))
		require.Equal(t, "inactive "+string(status), b.statuses())
		require.Equal(t, compute.VMError, b.row.server.VMState)
		require.Contains(t, b.row.fault.Message, otherShare.String())
		require.Empty(t, b.mounts)
		b.tidy()
		require.NoError(t, b.detach(otherShare))
		require.NoError(t, b.shares(compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}))
		require.Equal(t, "active", b.statuses())
		b.tidy()
	}
}

// A start that fails for another reason leaves the server stopped and its shares as they were.
func TestAStartThatFailsUnmountsShares(t *testing.T) {
	t.Parallel()
	b := attached(t)
	b.fault = at(call{name: domain.Start.Name, nth: 1}, fault{after: fail})
	require.Error(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
	require.Equal(t, "inactive inactive", b.statuses())
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Empty(t, b.mounts)
	b.fault = nil
	b.tidy()
}

// SH-15: what cannot be unmounted is in error, waits on the ledger, and is tried until it is gone.
func TestSH15AShareThatCannotBeUnmounted(t *testing.T) {
	t.Parallel()
	b := running2(t)
	b.stuck = true
	require.NoError(t, b.shares(compute.OpStop, compute.TaskPoweringOff, nil))
	require.Equal(t, "error error", b.statuses())
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	for _, f := range b.audit() {
		require.Equal(t, compute.Failing, f.What)
	}
	b.stuck = false
	b.reapAll()
	require.Empty(t, b.mounts)
	b.tidy()
}

// SH-21: a server is deleted while its host does not answer. A host that comes back and cannot unmount its shares is rid of all else that the server had
// there; why it cannot is told, the access stays behind the mounts, and it is tried until they are gone.
func TestSH21AHostThatComesBackAndCannotUnmount(t *testing.T) {
	t.Parallel()
	h := &silentBench{bench: running2(t)}
	in := h.deletion()
	h.fault = at(call{name: record.Begin.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); return nil }})
	require.NoError(t, h.run(compute.OpDelete, in, h.arm))
	require.True(t, h.row.deleted, "nobody waits for the host")
	require.Len(t, h.mounts, 2)
	require.Len(t, h.access, 2)

	h.stuck = true
	h.back()
	require.Empty(t, h.broken)
	require.Empty(t, h.domains)
	require.Empty(t, h.files)
	require.Empty(t, h.tpms)
	require.Len(t, h.mounts, 2)
	require.Len(t, h.access, 2)
	why := map[compute.ThingKind][]string{}
	for _, f := range h.audit() {
		why[f.Kind] = append(why[f.Kind], string(f.What)+": "+f.Why)
	}
	busy := string(compute.Failing) + ": it is busy"
	require.Equal(t, []string{busy, busy}, why[compute.ThingShareMount])
	require.Len(t, why[compute.ThingShareAccess], 2)
	require.Len(t, why, 2, "%v", why)

	tried := h.count(removal(compute.ThingShareMount))
	h.reaps(0, 4)
	require.Equal(t, tried+2, h.count(removal(compute.ThingShareMount)), "each is tried again")
	h.stuck = false
	h.gone(in)
}

// SH-16, SH-17: a server in ERROR whose guest still runs is parted from its share, whose mount and
// access rule stay until the guest is off.
func TestSH17ADetachWhileTheGuestRuns(t *testing.T) {
	t.Parallel()
	b := running2(t)
	b.row.server.VMState = compute.VMError
	require.NoError(t, b.detach(shareID))
	require.Equal(t, "active", b.statuses())
	require.Len(t, b.mounts, 2)
	require.Len(t, b.access, 2)
	require.NoError(t, b.shares(compute.OpStop, compute.TaskPoweringOff, nil))
	b.reapAll()
	require.Empty(t, b.mounts)
	require.Len(t, b.access, 1)
	b.tidy()
}

// A guest that runs is given a share and parted from it; a stop and a start know of both.
func TestSharesOfAGuestThatRuns(t *testing.T) {
	t.Parallel()
	attachingBy(t, func(t *testing.T, b *bench) {
		require.NoError(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: shareID, Address: shareAddress}))
		require.NoError(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
		b.writeDown(otherShare)
		require.NoError(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, live(otherShare)))
		require.Equal(t, "active active", b.statuses())
		require.Equal(t, compute.VMActive, b.row.server.VMState)
		require.Len(t, b.mounts, 2)
		require.Len(t, b.plugged, 2)
		require.Len(t, b.access, 2)
		b.tidy()
		require.NoError(t, b.detachLive(shareID))
		require.Equal(t, "active", b.statuses())
		require.Equal(t, b.mounts, b.plugged)
		require.Len(t, b.mounts, 1)
		require.Len(t, b.access, 1)
		b.tidy()
		require.NoError(t, b.shares(compute.OpStop, compute.TaskPoweringOff, nil))
		require.Equal(t, "inactive", b.statuses())
		require.Empty(t, b.mounts)
		require.NoError(t, b.shares(compute.OpStart, compute.TaskPoweringOn, nil))
		require.Equal(t, "active", b.statuses())
		b.tidy()
	})
}

// A guest that does not give a share back keeps it, mounted and in error, until it is off.
func TestAGuestThatHoldsOnToAShare(t *testing.T) {
	t.Parallel()
	b := running2(t)
	b.holdsOn = true
	require.Error(t, b.detachLive(shareID))
	require.Equal(t, "error active", b.statuses())
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Len(t, b.mounts, 2)
	require.Len(t, b.access, 2)
	b.tidy()
	b.holdsOn = false
	require.NoError(t, b.detachLive(shareID))
	require.Equal(t, "active", b.statuses())
	require.Len(t, b.mounts, 1)
	b.tidy()
}

// SH-19, SH-20, SH-32: a delete in each status; what cannot be unmounted keeps no server, and goes later.
func TestSH19ADeleteInEachStatus(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{false, true} {
		for _, status := range []compute.ShareStatus{compute.ShareAttaching, compute.ShareInactive, compute.ShareActive, compute.ShareError, compute.ShareDetaching} {
			t.Run(string(status), func(t *testing.T) {
				t.Parallel()
				b := running2(t)
				b.row.server.Shares[0].Status = status
				b.stuck = stuck
				in := b.deletion()
				require.NoError(t, b.run(compute.OpDelete, in, nil))
				require.True(t, b.row.deleted)
				require.Equal(t, stuck, len(b.mounts) > 0)
				b.stuck = false
				b.reapAll()
				require.Empty(t, b.things())
				require.Empty(t, b.ledger)
				b.tidy()
			})
		}
	}
}

// Whatever call of a stop or a detach fails, the share is not active under a server that is off,
// and in the end nothing is left.
func TestAFailureAnywhereWithShares(t *testing.T) {
	t.Parallel()
	off := func(b *bench) error { return b.shares(compute.OpStop, compute.TaskPoweringOff, nil) }
	apart := func(b *bench) error { return b.detach(shareID) }
	apartLive := func(b *bench) error { return b.detachLive(shareID) }
	given := func(b *bench) error {
		b.writeDown(thirdShare)
		return b.shares(compute.OpShareAttach, compute.TaskAttachingShare, live(thirdShare))
	}
	for name, tc := range map[string]struct {
		begin func(*testing.T) *bench
		do    func(*bench) error
	}{"stop": {running2, off}, "detach": {attached, apart}, "attach live": {running2, given}, "detach live": {running2, apartLive}} {
		undisturbed := tc.begin(t)
		require.NoError(t, tc.do(undisturbed))
		for _, c := range undisturbed.names() {
			for when, f := range map[string]fault{"before": {before: fail}, "after": {after: fail}} {
				t.Run(name+"/"+c.String()+"/"+when, func(t *testing.T) {
					t.Parallel()
					b := tc.begin(t)
					b.fault = at(c, f)
					_ = tc.do(b)
					b.fault = nil
					b.reapAll()
					b.tidy()
					for _, m := range b.row.server.Shares {
						if key := b.row.server.Host.String() + " " + compute.ShareUse(m.Share, b.row.server.ID); m.Status == compute.ShareActive && slices.Contains(b.power(), compute.PowerRunning) {
							require.True(t, b.mounts[key] && b.plugged[key], "share %s is active", m.Share)
						}
					}
					if b.row.server.VMState == compute.VMStopped {
						for _, m := range b.row.server.Shares {
							require.NotEqual(t, compute.ShareActive, m.Status)
						}
						require.Empty(t, b.mounts)
					}
					in := b.deletion()
					require.NoError(t, b.run(compute.OpDelete, in, nil))
					b.reapAll()
					require.Empty(t, b.things())
					require.Empty(t, b.ledger)
				})
			}
		}
	}
}
