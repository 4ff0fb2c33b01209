package workflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema/fence"
	"strongroom/workflows"
)

// volumeWorld is a host's volume with all that knows of it: the record, the key manager and the kernel.
type volumeWorld struct {
	row     *compute.SecureVolume
	device  string                   // the one that is asked for; "": as it was
	things  map[string]compute.Thing // open rows of the ledger, by kind and name
	ended   compute.OperationState
	message string

	keys   map[string]compute.SecretID // by name
	opens  *compute.SecretID           // what the volume is encrypted with; nil: it is new
	open   bool
	busy   bool
	others bool // something else is on the device
	gone   bool // it was given up with its host
	again  bool // no device is named: it is opened as it was

	calls []string
	fails func(call string, nth int, after bool) error
}

var (
	volumeHost = durable.Host{ID: compute.HostID{UUID: uuid.New()}, Name: "h1"}
	volumeOf   = compute.StateVolume(volumeHost.ID)
)

func newVolumeWorld() *volumeWorld {
	return &volumeWorld{things: map[string]compute.Thing{}, keys: map[string]compute.SecretID{}}
}

// run runs an operation, as it is asked for.
func (w *volumeWorld) run(t *testing.T, kind compute.OperationKind) error {
	t.Helper()
	if w.row == nil {
		w.row = &compute.SecureVolume{ID: volumeOf, Host: volumeHost.ID, Device: "/dev/v"}
	}
	w.row.Wanted = kind != compute.OpSecureVolumeClose
	w.calls, w.ended = nil, ""
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := newEnvironment(&suite)
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(workerOptions())
	workflows.Register(env)
	w.register(env, kind)
	env.ExecuteWorkflow(durable.WorkflowType(kind), durable.OperationInput{Operation: compute.NewOperationID(), Subject: compute.VolumeOwner(volumeOf)})
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

func on[In, Out any](w *volumeWorld, name string, do func(In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(_ context.Context, in In) (out Out, err error) {
		w.calls = append(w.calls, name)
		nth := len(w.calls)
		if w.fails != nil {
			if err := w.fails(name, nth, false); err != nil {
				return out, err
			}
		}
		if out, err = do(in); err == nil && w.fails != nil {
			err = w.fails(name, nth, true)
		}
		return out, err
	}
}

func does[In any](w *volumeWorld, name string, do func(In) error) func(context.Context, In) (durable.None, error) {
	return on(w, name, func(in In) (durable.None, error) { return durable.None{}, do(in) })
}

func (w *volumeWorld) register(r durable.Registry, kind compute.OperationKind) {
	record.BeginVolume.Register(r, on(w, record.BeginVolume.Name, func(durable.OperationInput) (record.BeginVolumeResult, error) {
		begun := record.BeginVolumeResult{Kind: kind, Volume: *w.row, Host: volumeHost, Superseded: w.ended != "", NeverFormat: w.again && w.row.Secret != nil}
		if w.device != "" {
			begun.Volume.Device = w.device
		}
		return begun, nil
	}))
	record.Advance.Register(r, on(w, record.Advance.Name, func(in record.AdvanceInput) (out record.AdvanceResult, _ error) {
		w.closes(in.Close)
		if in.Open != nil {
			for _, t := range in.Open.Things {
				if _, known := w.things[string(t.Kind)+t.Name]; !known {
					t.State = compute.ThingIntended
					w.things[string(t.Kind)+t.Name] = t
				}
			}
		}
		return out, nil
	}))
	record.SetVolume.Register(r, does(w, record.SetVolume.Name, func(in record.SetVolumeInput) error {
		w.closes(in.Close)
		if in.Keys != nil && w.gone {
			return fence.Superseded()
		}
		if in.Keys != nil {
			w.row.Secret, w.row.Next, w.row.Device = in.Keys.Secret, in.Keys.Next, in.Keys.Device
		}
		w.row.Wanted = w.row.Wanted || in.Wanted
		if in.Unopened && w.row.Secret == nil {
			w.row = nil
		}
		return nil
	}))
	record.Settle.Register(r, does(w, record.Settle.Name, func(in record.SettleInput) error {
		w.closes(in.Close)
		w.ended, w.message = in.State, in.Message
		return nil
	}))
	ledger.Things.Register(r, on(w, ledger.Things.Name, func(compute.Owner) (all []compute.Thing, _ error) {
		for _, t := range w.things {
			all = append(all, t)
		}
		return all, nil
	}))
	key.Create.Register(r, on(w, key.Create.Name, func(in key.CreateInput) (key.CreateResult, error) {
		w.keys[in.Name] = in.ID
		return key.CreateResult{Secret: in.ID}, nil
	}))
	key.Remove.Register(r, does(w, key.Remove.Name, func(in compute.Removal) error {
		delete(w.keys, in.Thing.Name)
		return nil
	}))
	w.registerOnHost(r)
}

func (w *volumeWorld) registerOnHost(r durable.Registry) {
	refused := compute.Errorf(compute.Conflict, "refused: the folder /srv/state/instances is not empty")
	volume.Look.Register(r, on(w, volume.Look.Name, func(volume.Input) (volume.LookResult, error) {
		if w.others {
			return volume.LookResult{}, refused
		}
		return volume.LookResult{New: w.opens == nil, Open: w.open}, nil
	}))
	volume.Open.Register(r, does(w, volume.Open.Name, func(in volume.OpenInput) error {
		if w.opens == nil && in.NeverFormat {
			return refused
		}
		if w.opens == nil {
			w.opens = &in.Secret
		}
		if *w.opens != in.Secret && (in.Next == nil || *w.opens != *in.Next) {
			return refused
		}
		w.open = true
		return nil
	}))
	closes := func() error {
		if w.busy {
			return compute.Errorf(compute.Conflict, "guests run on this host: 1")
		}
		w.open = false
		return nil
	}
	volume.Close.Register(r, does(w, volume.Close.Name, func(volume.Input) error { return closes() }))
	volume.Remove.Register(r, does(w, volume.Remove.Name, func(compute.Removal) error { return closes() }))
	volume.Rotate.Register(r, does(w, volume.Rotate.Name, func(in volume.RotateInput) error {
		if *w.opens != in.Secret && *w.opens != in.Next {
			return refused
		}
		w.opens = &in.Next
		return nil
	}))
}

func (w *volumeWorld) closes(c *record.Close) {
	if c == nil {
		return
	}
	for _, t := range c.Present {
		t.State = compute.ThingPresent
		w.things[string(t.Kind)+t.Name] = t
	}
	for _, t := range c.Waiting {
		w.things[string(t.Kind)+t.Name] = t
	}
	for _, t := range c.Released {
		delete(w.things, string(t.Kind)+t.Name)
	}
}

// holds requires what is true whenever an operation has ended: all that exists is on the ledger, and nothing is there that does
// not exist; the volume opens with one of the keys on record, and these are all that there are.
func (w *volumeWorld) holds(t *testing.T) {
	t.Helper()
	for _, thing := range w.things {
		if thing.State == compute.ThingWaiting { // for the janitor
			delete(w.things, string(thing.Kind)+thing.Name)
			if thing.Kind == compute.ThingKeySecret {
				delete(w.keys, thing.Name)
			} else {
				w.open = false
			}
			continue
		}
		require.Equal(t, compute.ThingPresent, thing.State, "%s %s", thing.Kind, thing.Name)
	}
	_, mapping := w.things[string(compute.ThingVolumeMapping)+volumeOf.String()]
	_, mount := w.things[string(compute.ThingVolumeMount)+volumeOf.String()]
	require.Equal(t, [2]bool{w.open, w.open}, [2]bool{mapping, mount})
	for name := range w.keys {
		require.Contains(t, w.things, string(compute.ThingKeySecret)+name)
	}
	var onRecord []compute.SecretID
	if w.row != nil && w.row.Secret != nil {
		onRecord = append(onRecord, *w.row.Secret)
		if w.row.Next != nil {
			onRecord = append(onRecord, *w.row.Next)
		}
	}
	var has []compute.SecretID
	for _, id := range w.keys {
		has = append(has, id)
	}
	require.ElementsMatch(t, onRecord, has)
	if w.opens != nil {
		require.Contains(t, onRecord, *w.opens)
	}
	require.NotEmpty(t, w.ended)
}

// prepared gives a world in which an operation of a kind makes sense.
func prepared(t *testing.T, kind compute.OperationKind) *volumeWorld {
	t.Helper()
	w := newVolumeWorld()
	if kind != compute.OpSecureVolumeOpen {
		require.NoError(t, w.run(t, compute.OpSecureVolumeOpen))
		w.holds(t)
	}
	return w
}

// A volume is opened, opened again, gets another key, is closed and opened with that.
func TestSecureVolume(t *testing.T) {
	t.Parallel()
	w := newVolumeWorld()
	for _, kind := range []compute.OperationKind{compute.OpSecureVolumeOpen, compute.OpSecureVolumeOpen} {
		require.NoError(t, w.run(t, kind))
		w.holds(t)
		require.True(t, w.open)
	}
	first := *w.opens
	require.NoError(t, w.run(t, compute.OpSecureVolumeRotateKey))
	w.holds(t)
	require.NotEqual(t, first, *w.opens)
	require.Len(t, w.keys, 1)
	w.busy = true
	require.ErrorContains(t, w.run(t, compute.OpSecureVolumeClose), "guests run")
	w.holds(t)
	require.True(t, w.open && w.row.Wanted, "it stays open, and is opened when the worker starts")
	w.busy = false
	require.NoError(t, w.run(t, compute.OpSecureVolumeClose))
	w.holds(t)
	require.False(t, w.open || w.row.Wanted)
	require.NoError(t, w.run(t, compute.OpSecureVolumeOpen))
	w.holds(t)
	require.True(t, w.open)

	w.open = false // the host was booted: the ledger has it open still
	require.NoError(t, w.run(t, compute.OpSecureVolumeOpen))
	w.holds(t)
}

// A volume that is given up with its host meanwhile gets no key more.
func TestSecureVolumeIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, kind := range []compute.OperationKind{compute.OpSecureVolumeOpen, compute.OpSecureVolumeRotateKey} {
		w := prepared(t, kind)
		before := maps.Clone(w.keys)
		w.gone = true
		require.ErrorContains(t, w.run(t, kind), fence.Message)
		require.Contains(t, w.calls, key.Create.Name)
		require.Equal(t, before, w.keys)
		require.Equal(t, compute.OperationCancelled, w.ended)
		require.NotContains(t, w.calls, volume.Rotate.Name)
	}
}

// A device that holds something else gets no key, and is forgotten.
func TestSecureVolumeOnAnotherDevice(t *testing.T) {
	t.Parallel()
	w := newVolumeWorld()
	w.others = true
	require.ErrorContains(t, w.run(t, compute.OpSecureVolumeOpen), "refused")
	w.holds(t)
	require.Contains(t, w.message, "/srv/state/instances is not empty", "operators read which folder it is")
	require.Nil(t, w.row)
	require.NotContains(t, w.calls, key.Create.Name)

	w.others, w.opens = false, &compute.SecretID{UUID: uuid.New()}
	require.ErrorContains(t, w.run(t, compute.OpSecureVolumeOpen), "no key of it is on record")
	require.Nil(t, w.row)
	require.Empty(t, w.keys)
}

// An empty disk in the place of a volume that was in use is not formatted where the host's worker has it opened, and is where its
// device is named. A device is on record once the volume was opened on it.
func TestSecureVolumeOnANewDevice(t *testing.T) {
	t.Parallel()
	w := prepared(t, compute.OpSecureVolumeClose)
	require.NoError(t, w.run(t, compute.OpSecureVolumeClose))
	was := *w.opens
	w.opens, w.again = nil, true
	require.ErrorContains(t, w.run(t, compute.OpSecureVolumeOpen), "/dev/v of host h1 is new, and the host's volume is not")
	w.holds(t)
	require.NotContains(t, w.calls, volume.Open.Name)
	require.Nil(t, w.opens, "it is not formatted")

	w.fails = func(call string, _ int, _ bool) error { // another disk is put there after the look at it
		if call == volume.Look.Name {
			w.opens = &was
		} else if call == volume.Open.Name {
			w.opens = nil
		}
		return nil
	}
	require.ErrorContains(t, w.run(t, compute.OpSecureVolumeOpen), "refused")
	require.Nil(t, w.opens, "it is not formatted")

	w.fails, w.again, w.device, w.others = nil, false, "/dev/w", true
	require.ErrorContains(t, w.run(t, compute.OpSecureVolumeOpen), "refused")
	w.holds(t)
	require.Equal(t, "/dev/v", w.row.Device, "nothing was opened on the other one")
	w.others = false
	require.NoError(t, w.run(t, compute.OpSecureVolumeOpen))
	w.holds(t)
	require.True(t, w.open)
	require.Equal(t, "/dev/w", w.row.Device)
	w.device = ""
	require.NoError(t, w.run(t, compute.OpSecureVolumeRotateKey))
	require.Equal(t, "/dev/w", w.row.Device)
}

// Whichever call of an operation fails for good or does its work and says that it failed, or has to be tried again: what the
// operation leaves is in order, and the same operation does it afterwards.
func TestSecureVolumeFailsAtEachCall(t *testing.T) {
	t.Parallel()
	failures := map[string]error{"for good": compute.Errorf(compute.Conflict, "broken"), "for a while": compute.Errorf(compute.Unavailable, "away")}
	for _, kind := range []compute.OperationKind{compute.OpSecureVolumeOpen, compute.OpSecureVolumeClose, compute.OpSecureVolumeRotateKey} {
		whole := prepared(t, kind)
		require.NoError(t, whole.run(t, kind))
		for nth, name := range whole.calls {
			for how, failure := range failures {
				for _, after := range []bool{false, true} {
					if name == record.Advance.Name || name == record.BeginVolume.Name {
						continue // the record's own, as of all operations
					}
					t.Run(fmt.Sprintf("%s/%d %s/%s/after=%v", kind, nth, name, how, after), func(t *testing.T) {
						t.Parallel()
						w := prepared(t, kind)
						w.fails = func(call string, n int, isAfter bool) error {
							if n == nth+1 && isAfter == after {
								return failure
							}
							return nil
						}
						err := w.run(t, kind)
						require.True(t, slices.Contains(w.calls, name))
						if err != nil {
							require.Equal(t, compute.OperationFailed, w.ended)
						}
						w.fails = nil
						if err != nil && kind == compute.OpSecureVolumeClose && !w.open {
							// It was closed and could not say so: the ledger is told by the next one.
							require.NoError(t, w.run(t, compute.OpSecureVolumeOpen))
						}
						w.holds(t)
						require.NoError(t, w.run(t, kind))
						w.holds(t)
						require.Equal(t, kind != compute.OpSecureVolumeClose, w.open)
					})
				}
			}
		}
	}
}

// Whichever call of the undo of an open fails once, before or after its work: the open has failed, what it leaves is in order, and
// the next one does it.
func TestSecureVolumeFailsInItsUndo(t *testing.T) {
	t.Parallel()
	broken := compute.Errorf(compute.Conflict, "broken")
	opens := func(t *testing.T) *volumeWorld { // a volume that was closed
		t.Helper()
		w := prepared(t, compute.OpSecureVolumeClose)
		require.NoError(t, w.run(t, compute.OpSecureVolumeClose))
		w.fails = func(call string, _ int, after bool) error {
			if call == volume.Open.Name && after {
				return broken
			}
			return nil
		}
		return w
	}
	whole := opens(t)
	require.ErrorContains(t, whole.run(t, compute.OpSecureVolumeOpen), "broken")
	whole.holds(t)
	require.False(t, whole.open, "the undo closed it")
	undo := slices.Index(whole.calls, volume.Open.Name) + 1
	require.Contains(t, whole.calls[undo:], volume.Remove.Name)
	for nth := undo; nth < len(whole.calls); nth++ {
		for how, failure := range map[string]error{"for good": broken, "for a while": compute.Errorf(compute.Unavailable, "away")} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d %s/%s/after=%v", nth, whole.calls[nth], how, after), func(t *testing.T) {
					t.Parallel()
					w := opens(t)
					fails := w.fails
					w.fails = func(call string, n int, isAfter bool) error {
						if n == nth+1 && isAfter == after {
							return failure
						}
						return fails(call, n, isAfter)
					}
					require.ErrorContains(t, w.run(t, compute.OpSecureVolumeOpen), "broken")
					require.Equal(t, compute.OperationFailed, w.ended)
					w.holds(t)
					require.False(t, w.open)
					w.fails = nil
					require.NoError(t, w.run(t, compute.OpSecureVolumeOpen))
					w.holds(t)
					require.True(t, w.open)
				})
			}
		}
	}
}
