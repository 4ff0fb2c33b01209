package workflows_test

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// silentBench is a bench whose first host stops answering.
type silentBench struct {
	*bench
	env   *testsuite.TestWorkflowEnvironment
	known bool // the record says that it is down
	old   bool // the record has no report of it lately
	since time.Time
	begun atomic.Bool
	tried atomic.Int32
}

func (h *silentBench) silentHost() compute.HostID { return h.hosts[0] }

// arm makes the host silent in an environment, from stopsAnswering on.
func (h *silentBench) arm(env *testsuite.TestWorkflowEnvironment) {
	h.env = env
	silenced(&silence{hosts: []compute.HostID{h.silentHost()}, quick: true, since: &h.begun, tried: &h.tried})(env)
}

// stopsAnswering makes the host silent from now on.
func (h *silentBench) stopsAnswering() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = h.env.Now()
	h.begun.Store(true)
	h.down[h.silentHost()], h.stale[h.silentHost()] = h.known, h.old
}

// saidToBeDown has it that an operator said so, where the record knows that the host is down.
func (h *silentBench) saidToBeDown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forced[h.silentHost()] = h.known
}

// back makes the host answer again, and runs the janitor until nothing is due.
func (h *silentBench) back() {
	h.begun.Store(false)
	h.down[h.silentHost()], h.forced[h.silentHost()], h.stale[h.silentHost()] = false, false, false
	h.fault = nil
	h.reapAll()
}

// inTime requires that the operation did not take longer than a host may be silent, and
// that nothing was tried on a host that is down, as the record says.
func (h *silentBench) inTime() {
	h.t.Helper()
	took := h.env.Now().Sub(h.since)
	if h.known {
		require.Zero(h.t, h.tried.Load(), "nothing there is tried")
		require.Less(h.t, took, 5*time.Second)
		return
	}
	require.Positive(h.t, h.tried.Load())
	silence := durable.HostSilence
	if h.old {
		silence = durable.StaleHostSilence
	}
	require.Less(h.t, took, silence+5*time.Second, "one silence, whatever is to be removed there")
}

// waitForIt requires that what is to go on the host waits for it, keys wait behind it
// (EE-27), and nothing else waits.
func (h *silentBench) waitForIt() {
	t := h.t
	t.Helper()
	require.Empty(t, h.broken)
	waiting := 0
	for _, thing := range h.ledger {
		switch {
		case thing.State != compute.ThingWaiting:
		case thing.OnHost():
			waiting++
			require.Equal(t, compute.BlockedByHost, thing.BlockedBy, thing.Name)
			require.Equal(t, h.silentHost().String(), thing.Place)
		default:
			require.Equal(t, compute.BlockedByThings, thing.BlockedBy, thing.Name)
			require.Contains(t, []compute.ThingKind{compute.ThingKeySecret, compute.ThingTrust, compute.ThingPort}, thing.Kind)
		}
	}
	require.Positive(t, waiting)
	for _, f := range h.audit() {
		require.Contains(t, []compute.Verdict{compute.Stranded, compute.Behind}, f.What, "%+v", f)
	}
}

// forcedDown forces the host down: no key waits for it any more (TPM-33).
func (h *silentBench) forcedDown() {
	h.t.Helper()
	h.down[h.silentHost()], h.forced[h.silentHost()] = true, true
	h.fault = nil
	h.reapAll()
	require.Empty(h.t, h.broken)
	for _, thing := range h.ledger {
		require.False(h.t, thing.State == compute.ThingWaiting && !thing.OnHost(), "%s waits still", thing.Name)
	}
}

// eachWay runs a test with a host that falls silent: nobody knows, or the record has no
// report of it, or says that it is down; and with one that is forced down then.
func eachWay(t *testing.T, setup func(*testing.T) *bench, test func(h *silentBench)) {
	for name, way := range map[string]struct{ known, stale, forced bool }{
		"nobody knows": {}, "it is known to be down": {known: true}, "its last report is old": {stale: true}, "it is forced down": {forced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &silentBench{bench: setup(t), known: way.known, old: way.stale}
			test(h)
			h.inTime()
			h.waitForIt()
			if way.forced {
				h.forcedDown()
			}
			h.back()
		})
	}
}

// A2: a host that falls silent when an operation fails. Everything else is undone, and the
// server let go.
func TestA2ASilentHostUnderAnUndo(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]call{
		"spawn":                        {name: domain.Start.Name, nth: 1},
		"spawn delegated":              {name: domain.Start.Name, nth: 1},
		"spawn with ports":             {name: domain.Start.Name, nth: 1},
		"spawn of an encrypted image":  {name: disk.Create.Name, nth: 2},
		"rebuild":                      {name: disk.Create.Name, nth: 3},
		"rescue":                       {name: disk.Create.Name, nth: 1},
		"rotation of a running server": {name: disk.AddKey.Name, nth: 2},
		"snapshot of a running server": {name: image.Upload.Name, nth: 1},
		"snapshot of a stopped server": {name: image.Upload.Name, nth: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			vm, power := s.undone(nil, 0, false)
			eachWay(t, s.setup, func(h *silentBench) {
				in := h.accept(s.kind, s.task, s.arguments)
				h.fault = at(failing, fault{after: func() error { h.stopsAnswering(); return errBroken }})
				require.Equal(h.t, errBroken.Message, durable.FromTemporal(h.run(s.kind, in, h.arm)).Message)
				require.Empty(h.t, h.row.current)
				require.Equal(h.t, compute.OperationFailed, h.operations[in.Operation].State)
				require.Equal(h.t, vm, h.row.server.VMState)
				for _, img := range h.images {
					require.True(h.t, h.owned[img.ID.String()], "an image waits for no host")
				}
				h.t.Cleanup(func() { h.early(in, s, compute.OperationFailed, vm, power) })
			})
		})
	}
}

// A2: a host that falls silent when a new domain has just been started there. When it is
// back, the domain is stopped before a disk goes that it runs from, and before its old one
// could be taken for it.
func TestA2ASilentHostUnderANewDomain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"start", "rebuild", "rebuild with a TPM", "rescue", "unrescue"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			eachWay(t, s.setup, func(h *silentBench) {
				in := h.accept(s.kind, s.task, s.arguments)
				h.fault = at(call{name: domain.Start.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); return errBroken }})
				require.Equal(h.t, errBroken.Message, durable.FromTemporal(h.run(s.kind, in, h.arm)).Message)
				require.Equal(h.t, []compute.PowerState{compute.PowerRunning}, h.power(), "nobody could stop it")
				require.Equal(h.t, compute.PowerShutdown, h.row.server.PowerState)
				h.t.Cleanup(func() {
					require.Empty(h.t, h.broken)
					require.Empty(h.t, h.audit())
					require.Equal(h.t, []compute.PowerState{compute.PowerShutdown}, h.power())
				})
			})
		})
	}
}

// A2: a host that falls silent when an interface has just been plugged in there. Its port is nobody else's until the
// guest has it no longer.
func TestA2ASilentHostUnderANewInterface(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]compute.InterfaceAttachArguments{"a new port": newInterface, "a user's port": broughtInterface} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, spawned, func(h *silentBench) {
				in := h.accept(compute.OpInterfaceAttach, compute.TaskAttachingInterface, arguments)
				h.fault = at(call{name: domain.Plug.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); return errBroken }})
				require.Equal(h.t, errBroken.Message, durable.FromTemporal(h.run(compute.OpInterfaceAttach, in, h.arm)).Message)
				require.Empty(h.t, h.row.current)
				require.Empty(h.t, h.row.server.Networks)
				require.Len(h.t, h.interfaces, 1, "nobody could take it from the guest")
				require.Len(h.t, h.ports, 1)
				h.t.Cleanup(func() {
					require.Empty(h.t, h.interfaces)
					require.Empty(h.t, h.ports)
					require.Empty(h.t, h.broken)
					require.Empty(h.t, h.audit())
				})
			})
		})
	}
}

// A guest that its owner starts while the janitor is about to stop it runs on.
func TestTheJanitorStopsNoGuestThatWasStartedAgain(t *testing.T) {
	t.Parallel()
	s := subjects["start"]
	h := &silentBench{bench: s.setup(t), known: true}
	in := h.accept(s.kind, s.task, s.arguments)
	h.fault = at(call{name: domain.Start.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); return errBroken }})
	require.Error(t, h.run(s.kind, in, h.arm))
	h.waitForIt()
	h.begun.Store(false)
	h.down[h.silentHost()] = false
	h.forget()
	h.fault = at(call{name: removal(compute.ThingRunningDomain), nth: 1}, fault{before: func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for key, t := range h.ledger {
			if t.Kind == compute.ThingRunningDomain {
				t.Operation, t.State = "req-again", compute.ThingIntended
				h.ledger[key], h.startedBy[t.Place+" "+t.Name] = t, t.Operation
			}
		}
		return nil
	}})
	h.reap()
	require.Equal(t, 1, h.count(removal(compute.ThingRunningDomain)))
	require.Equal(t, []compute.PowerState{compute.PowerRunning}, h.power())
	for _, thing := range h.ledger {
		if thing.Kind == compute.ThingRunningDomain {
			require.Equal(t, compute.ThingIntended, thing.State)
			return
		}
	}
	require.Fail(t, "the row of the operation that starts the guest is gone")
}

// A2: a host that falls silent when the effect of an operation stands, and what the server
// does not use any more is to go.
func TestA2ASilentHostAfterThePointOfNoReturn(t *testing.T) {
	t.Parallel()
	for name, decides := range map[string]string{
		"rebuild":                      record.Rebuild.Name,
		"rebuild without the TPM":      record.Rebuild.Name,
		"rotation of a running server": record.Rotate.Name,
		"rotation of a stopped server": record.Rotate.Name,
		"snapshot of a running server": record.HandOver.Name,
		"unrescue":                     record.Unrescue.Name,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			eachWay(t, s.setup, func(h *silentBench) {
				in := h.accept(s.kind, s.task, s.arguments)
				h.fault = at(call{name: decides, nth: 1}, fault{after: func() error { h.stopsAnswering(); return nil }})
				require.NoError(h.t, h.run(s.kind, in, h.arm))
				require.Empty(h.t, h.row.current)
				h.t.Cleanup(func() { h.whole(in, s.kind) })
			})
		})
	}
}

// A server that was stopped is stopped again after its rebuild. A host that does not
// answer to that reports itself what became of the guest.
func TestA2ASilentHostUnderARebuildOfAStoppedServer(t *testing.T) {
	t.Parallel()
	s := subjects["rebuild of a stopped"]
	eachWay(t, s.setup, func(h *silentBench) {
		in := h.accept(s.kind, s.task, s.arguments)
		h.fault = at(call{name: record.Rebuild.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); return nil }})
		require.NoError(h.t, h.run(s.kind, in, h.arm))
		require.Equal(h.t, compute.VMActive, h.row.server.VMState)
		h.t.Cleanup(func() {
			require.Empty(h.t, h.broken)
			require.Empty(h.t, h.audit())
			h.agrees()
		})
	})
}

// A2, TPM-33: a delete on a silent host ends. Keys wait for what they open, and ports for the guest that uses them, but not on a host that an operator
// says is down: the request's credential is good for them then, and gone when the janitor comes.
func TestA2ASilentHostUnderADelete(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{
		"encrypted": spawned, "stopped": stopped, "rescued": rescuedWith(sealedImage), "with ports": spawnedOnPorts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, setup, func(h *silentBench) {
				in := h.deletion()
				h.fault = at(call{name: record.Begin.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); h.saidToBeDown(); return nil }})
				require.NoError(h.t, h.run(compute.OpDelete, in, h.arm))
				require.True(h.t, h.row.deleted)
				keys, ports := 0, 0
				for _, thing := range h.ledger {
					switch {
					case thing.State != compute.ThingWaiting:
					case thing.OnHost():
						require.Equal(h.t, h.known, thing.Reason == compute.HostGivenUp, "EE-27: %s", thing.Reason)
					case thing.Kind == compute.ThingKeySecret:
						keys++
					case thing.Kind == compute.ThingPort:
						ports++
					}
				}
				require.Equal(h.t, h.known, keys == 0)
				require.Equal(h.t, h.known, slices.Contains(slices.Collect(maps.Values(h.events)), "done: "+compute.HostGivenUp), "the trail says so")
				require.Equal(h.t, !h.known && name == "with ports", ports == 2, "another server could get an address that a guest still has")
				h.t.Cleanup(func() { h.gone(in) })
			})
		})
	}
}

// A2: a host that is silent when the janitor comes back holds up nothing that is elsewhere.
func TestA2ASilentHostUnderAReap(t *testing.T) {
	t.Parallel()
	h := &silentBench{bench: spawned(t), known: true}
	in := h.deletion()
	h.fault = at(call{name: record.Begin.Name, nth: 1}, fault{after: func() error { h.stopsAnswering(); h.saidToBeDown(); return nil }})
	require.NoError(t, h.run(compute.OpDelete, in, h.arm))
	h.waitForIt()
	other := compute.Thing{
		ID: uuid.New(), Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: "another's",
		Owner: compute.Owner{Kind: compute.OwnerServer, ID: uuid.New()}, Credential: compute.Credential{ProjectID: project},
	}
	h.secrets[other.Name] = compute.SecretID{UUID: uuid.New()}
	h.wait([]compute.Thing{other})
	h.ledger[compute.Sighting{Kind: other.Kind, Place: other.Place, Name: other.Name}] = other.Waits(compute.BlockedByCredential, "you may not")

	h.down[h.silentHost()], h.forced[h.silentHost()] = false, false // the record thinks that it is back
	h.forget()
	var began, removed time.Time
	h.fault = func(c call) fault {
		switch c.name {
		case removal(compute.ThingKeySecret):
			removed = h.env.Now()
		case "ledger.Due":
			began = h.env.Now()
		}
		return fault{}
	}
	gone, _ := h.reapBeside(h.arm)
	require.Equal(t, 1, gone)
	require.NotContains(t, h.secrets, other.Name)
	require.Less(t, removed.Sub(began), time.Second, "it waited for nobody")
	require.Less(t, h.env.Now().Sub(began), durable.HostSilence)
	require.Positive(t, h.tried.Load())
	h.waitForIt()
	h.back()
	h.gone(in)
}

// A2: on a real server, an operation waits for a host that has no worker. A delete ends
// it, and ends itself; what is on the host is left to the janitor.
func TestA2ADeleteOnAHostWithoutAWorkerEnds(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]struct {
		kind compute.OperationKind
		task compute.TaskState
		body any
	}{
		"under a stop":    {compute.OpStop, compute.TaskPoweringOff, nil},
		"under a rebuild": {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			s := b.onServer(temporaltest.Client(t), b.hosts[1:])
			waiting := s.accept(arguments.kind, arguments.task, arguments.body)
			s.start(waiting)
			require.Eventually(t, func() bool {
				d, err := s.client.DescribeWorkflowExecution(t.Context(), durable.WorkflowID(compute.ServerOwner(waiting.Server), arguments.kind), "")
				return err == nil && slices.ContainsFunc(d.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
					return a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
				})
			}, time.Minute, 50*time.Millisecond, "it waits for its host")
			in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "")
			require.NoError(t, err)
			require.Error(t, s.ended(waiting, ""))
			require.Equal(t, compute.OperationCancelled, s.operations[waiting.Operation].State)
			require.True(t, s.row.deleted)
			h := &silentBench{bench: s.bench}
			h.waitForIt()
			h.back()
			s.gone(in)
		})
	}
}
