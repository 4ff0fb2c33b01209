package workflows_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/workflows"
)

// also puts something of the server on the ledger, as present.
func (b *bench) also(kind compute.ThingKind, place, name string) {
	op := compute.Operation{ID: "req-before", ServerID: b.row.server.ID, Credential: compute.Credential{ProjectID: project, UserID: "u1"}}
	t := op.Thing(kind, place, name)
	t.State = compute.ThingPresent
	b.ledger[compute.Sighting{Kind: kind, Place: place, Name: name}] = t
}

// A6: whatever kind of thing a server has, its delete removes it by the activity for that
// kind, and ends.
func TestA6ADeleteRemovesThingsOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range compute.TeardownOrder {
		if kind == compute.ThingVolumeMapping || kind == compute.ThingVolumeMount {
			continue // a volume has them, and no server
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			place := map[compute.ThingKind]string{
				compute.ThingImage: compute.PlaceImageStore, compute.ThingObject: compute.PlaceObjects,
				compute.ThingKeySecret: compute.PlaceKeyManager, compute.ThingTrust: compute.PlaceIdentity, compute.ThingShareAccess: compute.PlaceShares, compute.ThingPort: compute.PlaceNetworks,
			}[kind]
			if place == "" {
				place = b.hosts[0].String()
			}
			name := b.row.server.ID.String() + "/left"
			b.also(kind, place, name)
			in := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, in, nil))
			b.gone(in)
			removed := slices.ContainsFunc(b.calls, func(c call) bool { return c.name == removal(kind) && strings.Contains(c.detail, name) })
			require.True(t, removed, "by its own activity")
		})
	}
}

// B2: a delete removes what a server has on each of two hosts, and asks each for its own.
func TestB2ADeleteRemovesWhatAServerHasOnTwoHosts(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	other := b.hosts[1].String()
	b.domains[other+" "+b.row.server.InstanceName()] = compute.PowerShutdown
	b.also(compute.ThingDomain, other, b.row.server.InstanceName())
	for _, d := range b.row.server.Disks {
		file := b.row.server.ID.String() + "/" + d.Name() // as on the host that it is on
		b.files[other+" "+file] = true
		b.also(compute.ThingDiskFile, other, file)
	}
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}

// moved has a server move to its bench's second host, or fail to.
func (b *bench) moved(in durable.OperationInput) error {
	b.t.Helper()
	to := durable.Host{ID: b.hosts[1], Name: "host-" + b.hosts[1].String()[:4]}
	b.kind = "move"
	defer func() { b.kind = "" }()
	return b.run("move", in, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterWorkflowWithOptions(workflows.Move(to), workflow.RegisterOptions{Name: durable.WorkflowType("move")})
	})
}

// request accepts the operation of moved. Its kind is that of any without arguments.
func (b *bench) request() durable.OperationInput {
	return b.accept(compute.OpStop, compute.TaskPoweringOff, nil)
}

// B8: a switchover from one host to another makes everything of the new machine there,
// and removes all of the old one and nothing else, though their files have the same names
// (B4). Its undo leaves the old machine as it was.
func TestB8ASwitchoverBetweenHostsRemovesTheOldMachineOnly(t *testing.T) {
	t.Parallel()
	b := withoutTPM(t)
	from, to := b.hosts[0], b.hosts[1]
	keys := len(b.secrets)
	in := b.request()
	require.NoError(t, b.moved(in))
	b.row.server.Host = &to
	b.agrees()
	require.Empty(t, b.broken)
	require.Empty(t, b.audit())
	require.Len(t, b.secrets, keys, "the keys move along")
	require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
	for _, s := range b.things() {
		require.NotEqual(t, from.String(), s.Place, s.Name)
	}

	for _, c := range b.names() {
		if c.name == record.Rebuild.Name {
			break // the point of no return
		}
		for when, f := range map[string]fault{"before": {before: fail}, "after": {after: fail}} {
			t.Run(c.String()+" "+when, func(t *testing.T) {
				t.Parallel()
				b := withoutTPM(t)
				b.fault = at(c, f)
				in := b.request()
				require.Error(t, b.moved(in))
				b.reapAll()
				require.Empty(t, b.broken)
				require.Empty(t, b.audit())
				require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
				if c.name != record.Begin.Name {
					require.Equal(t, compute.VMActive, b.row.server.VMState)
				}
				require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
				b.agrees()
				for _, thing := range b.listed() {
					require.NotEqual(t, b.hosts[1].String(), thing.Place, thing.Name)
				}
			})
		}
	}
}
