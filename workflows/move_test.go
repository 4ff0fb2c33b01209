package workflows_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/compute"
	"strongroom/durable"
)

// larger is a flavor with a larger root disk, and with a vTPM as the extra specs say.
func larger(specs map[string]string) compute.Flavor {
	return compute.Flavor{ID: "2", Name: "large", VCPUs: 2, MemoryMB: 1024, RootGB: 2, EphemeralGB: 2, SwapMB: 256, ExtraSpecs: specs}
}

var (
	sameTPM  = map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}
	otherTPM = map[string]string{"hw:tpm_version": "1.2"}

	delegatedTPM = map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb", "hw:tpm_secret_security": "host"}
)

// here and there are resizes on the server's host and to another one.
func here(specs map[string]string) compute.ResizeArguments {
	return compute.ResizeArguments{Flavor: larger(specs), SameHost: true}
}

func there(specs map[string]string) compute.ResizeArguments {
	return compute.ResizeArguments{Flavor: larger(specs)}
}

// resized is a bench with a server that was resized, and migrated one that was migrated.
func resized(setup func(*testing.T) *bench, in compute.ResizeArguments) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.resizeIt(in))
		b.forget()
		return b
	}
}

func migrated(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.migrateIt(compute.MigrateArguments{}))
		b.forget()
		return b
	}
}

func (b *bench) resizeIt(in compute.ResizeArguments) error {
	b.t.Helper()
	return b.run(compute.OpResize, b.accept(compute.OpResize, compute.TaskResizePrep, in), nil)
}

func (b *bench) migrateIt(in compute.MigrateArguments) error {
	b.t.Helper()
	return b.run(compute.OpMigrate, b.accept(compute.OpMigrate, compute.TaskResizePrep, in), nil)
}

func (b *bench) confirmIt() error {
	b.t.Helper()
	return b.run(compute.OpConfirmResize, b.accept(compute.OpConfirmResize, compute.TaskResizeConfirming, nil), nil)
}

func (b *bench) revertIt() error {
	b.t.Helper()
	return b.run(compute.OpRevertResize, b.accept(compute.OpRevertResize, compute.TaskResizeReverting, nil), nil)
}

// moves reports whether operations of a kind move servers, or decide on that.
func moves(kind compute.OperationKind) bool {
	return slices.Contains([]compute.OperationKind{compute.OpResize, compute.OpMigrate, compute.OpConfirmResize, compute.OpRevertResize, compute.OpEvacuate}, kind)
}

func toVerify() func([]call, int, bool) (compute.VMState, compute.PowerState) {
	return always(compute.VMResized, compute.PowerRunning)
}

func verifyOff() func([]call, int, bool) (compute.VMState, compute.PowerState) {
	return always(compute.VMResized, compute.PowerShutdown)
}

// isWhatItIs requires that there is all that the server is made of, and what it was while that
// can be brought back, and nothing else; and that it runs once at most, where the record says.
func (b *bench) isWhatItIs() {
	t, s := b.t, b.row.server
	t.Helper()
	if s.VMState == compute.VMError { // nothing began
		return
	}
	machines := []compute.Server{s}
	if s.Former != nil {
		machines = append(machines, s.Before())
	}
	require.Len(t, b.claims, len(machines))
	for _, m := range machines {
		host := m.Host.String() + " "
		require.Equal(t, m.NVRAM() != "", b.files[host+m.ID.String()+"/"+m.NVRAM()])
		for _, d := range m.Disks {
			file := host + m.ID.String() + "/" + d.Name()
			require.True(t, b.files[file], file)
			require.Equal(t, d.Encrypted, d.Secret != nil)
			if d.Encrypted {
				require.Equal(t, compute.Server{Disks: []compute.Disk{d}}.Secrets(), b.locks[file])
				require.NotEmpty(t, d.EncryptionOptions)
			}
		}
		if m.HasTPMState() && !m.Unbooted() {
			require.True(t, b.tpms[b.tpmKey(m.Host.String(), m.ID.String())])
		}
		for _, id := range m.Secrets() {
			require.True(t, b.has(&id))
		}
	}
	for _, thing := range b.listed() {
		kept := s.Former != nil && thing.Kind == compute.ThingTPMState && thing.Name == compute.KeptTPM(s.ID, s.Former.Operation)
		used := slices.ContainsFunc(machines, func(m compute.Server) bool { return m.Uses(*m.Host, thing) })
		require.True(t, kept || used, "%s %s at %s", thing.Kind, thing.Name, thing.Place)
		require.NotEqual(t, compute.KeptUndecided, thing.Reference)
	}
	for name, power := range b.domains {
		here := name == s.Host.String()+" "+s.InstanceName()
		require.Equal(t, here && s.PowerState == compute.PowerRunning, power == compute.PowerRunning, name)
		if here && power == compute.PowerRunning {
			require.ElementsMatch(t, s.Secrets(), b.locks[name])
		}
	}
}

// state is that of the vTPM on the server's host.
func (b *bench) state() string {
	return b.states[b.tpmKey(b.row.server.Host.String(), b.row.server.ID.String())]
}

// TPM-16 … TPM-19: what a resize does with a vTPM, and what is left of it when the resize is
// confirmed and when it is reverted, on one host and between two.
func TestResizeAndTheTPM(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup func(*testing.T) *bench
		specs map[string]string
		kept  bool // the state is the same
	}{
		"kept":    {spawned, sameTPM, true},
		"changed": {spawned, otherTPM, false},
		"removed": {spawned, nil, false},
		"added":   {withoutTPM, sameTPM, false},
	} {
		for where, in := range map[string]compute.ResizeArguments{"here": here(v.specs), "there": there(v.specs), "there, TPM-39": there(v.specs)} {
			setup := v.setup
			if strings.Contains(where, "TPM-39") { // both hosts have the states on one storage
				setup = sharing(setup)
			}
			t.Run(name+" "+where+", confirmed", func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				was, state, keys := b.row.server, b.state(), len(b.secrets)
				require.NoError(t, b.resizeIt(in))
				b.isWhatItIs()
				require.Equal(t, compute.VMResized, b.row.server.VMState)
				require.Equal(t, in.SameHost, *was.Host == *b.row.server.Host)
				if name != "removed" { // it is there until that is confirmed
					require.Equal(t, v.kept, b.state() != "" && b.state() == state)
				}
				require.NoError(t, b.confirmIt())
				b.isWhatItIs()
				now := b.row.server
				require.Equal(t, compute.VMActive, now.VMState)
				require.Equal(t, in.Flavor, now.Flavor)
				require.Equal(t, v.specs != nil, now.TPM != nil)
				require.Len(t, b.secrets, len(now.Secrets()))
				require.Equal(t, v.kept, b.state() != "" && b.state() == state)
				for i, d := range now.Disks {
					require.Equal(t, was.Disks[i].ID, d.ID)
					require.Equal(t, was.Disks[i].Secret, d.Secret, "a resize keeps keys")
				}
				if v.specs != nil && was.TPM != nil {
					require.Len(t, b.secrets, keys)
				}
				require.Empty(t, b.audit())
				require.Empty(t, b.broken)
			})
			t.Run(name+" "+where+", reverted", func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				was, state, keys := b.row.server, b.state(), len(b.secrets)
				require.NoError(t, b.resizeIt(in))
				b.states[b.tpmKey(b.row.server.Host.String(), was.ID.String())] += ", and used since"
				require.NoError(t, b.revertIt())
				b.isWhatItIs()
				now := b.row.server
				was.VMState, was.System, now.System = now.VMState, nil, nil
				require.Equal(t, compute.VMActive, now.VMState)
				require.Equal(t, was, now)
				if was.TPM != nil && name != "removed" {
					require.Equal(t, state, b.state(), "as it was before the resize")
				}
				require.Len(t, b.secrets, keys)
				require.Empty(t, b.audit())
				require.Empty(t, b.broken)
				require.Len(t, b.domains, 1)
			})
		}
	}
}

// TPM-18, TPM-19: a server that is off gets a vTPM, or another one, without being started. The first boot makes its state; a
// revert brings the old one back.
func TestResizeOfAServerThatIsOffAndTheTPM(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup func(*testing.T) *bench
		specs map[string]string
	}{
		"changed":             {stopped, otherTPM},
		"changed, not booted": {withNewTPM, otherTPM},
		"added":               {stoppedWithoutTPM, sameTPM},
	} {
		for where, in := range map[string]compute.ResizeArguments{"here": here(v.specs), "there": there(v.specs), "there, TPM-39": there(v.specs)} {
			setup := v.setup
			if strings.Contains(where, "TPM-39") {
				setup = sharing(setup)
			}
			for end, decide := range map[string]func(*bench) error{"confirmed": (*bench).confirmIt, "reverted": (*bench).revertIt} {
				t.Run(name+" "+where+", "+end, func(t *testing.T) {
					t.Parallel()
					b := setup(t)
					was, state := b.row.server, b.state()
					require.NoError(t, b.resizeIt(in))
					b.isWhatItIs()
					require.True(t, b.row.server.HasNewTPM())
					require.NoError(t, decide(b))
					b.isWhatItIs()
					now := b.row.server
					require.Equal(t, []any{compute.VMStopped, end == "confirmed" || was.HasNewTPM()}, []any{now.VMState, now.HasNewTPM()})
					require.Zero(t, b.count(domain.Start.Name))
					require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
					b.isWhatItIs()
					require.False(t, b.row.server.HasNewTPM())
					if is := b.state(); end == "confirmed" {
						require.NotEmpty(t, is)
						require.NotEqual(t, state, is)
					} else if was.HasTPMState() {
						require.Equal(t, state, is)
					}
					require.Len(t, b.secrets, len(b.row.server.Secrets()))
					require.Empty(t, b.audit())
					require.Empty(t, b.broken)
				})
			}
		}
	}
}

// A server that is off is moved with no key, and stays off. It boots when it is started.
func TestMigrateOfAStoppedServerNeedsNoKey(t *testing.T) {
	t.Parallel()
	b := stopped(t)
	b.imageGone = true // the host that it leaves has a copy
	hidden := b.secrets
	b.secrets = map[string]compute.SecretID{}
	require.NoError(t, b.migrateIt(compute.MigrateArguments{}))
	b.secrets = hidden
	b.isWhatItIs()
	require.Equal(t, 0, b.count(domain.Start.Name))
	require.NoError(t, b.confirmIt())
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Equal(t, b.hosts[1], *b.row.server.Host)
	require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
	b.isWhatItIs()
	require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
	require.False(t, b.row.server.Unbooted())
	require.Empty(t, b.audit())
	require.Empty(t, b.broken)
}

// EE-30: who may not read the keys of a server that runs moves nothing, and the server stays as
// it is.
func TestAMoveByWhoMayNotReadTheKeys(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*bench) error{
		"migrate": func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
		"resize":  func(b *bench) error { return b.resizeIt(there(sameTPM)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			was := b.row.server
			b.unreadable = true
			err := move(b)
			b.unreadable = false
			require.Equal(t, compute.Forbidden, durable.FromTemporal(err).Kind)
			require.Equal(t, compute.VMActive, b.row.server.VMState)
			require.Equal(t, was.Host, b.row.server.Host)
			require.Zero(t, b.count(domain.Stop.Name))
			require.Zero(t, b.count("placement.Claim"))
			b.isWhatItIs()
			require.Empty(t, b.audit())
		})
	}
}

// TPM-18: keys are looked at with the credentials that open them: that of a vTPM that goes with its own, not with that of
// the disks which stay, and when it comes back, too; and a delegation that begins with the new flavor opens none before.
func TestWithWhatAMoveReadsKeys(t *testing.T) {
	t.Parallel()
	for _, security := range []compute.SecretSecurity{compute.SecurityHost, compute.SecurityDeployment} {
		t.Run("a vTPM of the mode "+string(security)+" goes", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			b.row.server.TPM.Security = security
			require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
			b.forget()
			was := b.row.server
			want := map[compute.SecretSecurity]compute.Credential{
				compute.SecurityHost: was.Delegated(), compute.SecurityDeployment: compute.DeploymentCredential(),
			}[security]
			require.NoError(t, b.resizeIt(there(nil)))
			require.Nil(t, b.row.server.TPM)
			require.Equal(t, want, b.checked[*was.TPM.Secret])
			require.NotEqual(t, want, b.checked[*was.Disks[0].Secret])
			clear(b.checked)
			require.NoError(t, b.revertIt())
			require.Equal(t, want, b.checked[*was.TPM.Secret])
			require.Equal(t, was.TPM, b.row.server.TPM)
			b.isWhatItIs()
			require.Empty(t, b.audit())
		})
	}
	t.Run("a delegation begins", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		in := b.accept(compute.OpResize, compute.TaskResizePrep, there(delegatedTPM))
		first := b.firstStep()
		require.NoError(t, b.run(compute.OpResize, in, nil))
		require.Equal(t, trust.Create.Name, *first)
		require.Equal(t, b.operations[in.Operation].Credential, b.checked[*b.row.server.TPM.Secret])
		require.Len(t, b.trusts, 1)
		b.isWhatItIs()
		require.NoError(t, b.confirmIt())
		require.Len(t, b.trusts, 1)
		require.Empty(t, b.audit())
	})
}

// firstStep gives the first call of the next operation that is no record: what an owner delegates, he does while his token is good.
func (b *bench) firstStep() *string {
	var first string
	b.fault = func(c call) fault {
		if first == "" && !c.local {
			first = c.name
		}
		return fault{}
	}
	return &first
}

// A delete of a server that could still be reverted removes it on both hosts.
func TestDeleteOfAMovedServer(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{
		"resized":  resized(spawned, here(otherTPM)),
		"migrated": migrated(spawned),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, in, nil))
			b.gone(in)
		})
	}
}

// A host that does not answer when the new machine is to be stopped may still run it: the old
// one is not started beside it.
func TestAMoveThatFailsNeverRunsTwice(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.accept(compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{})
	b.fault = func(c call) fault {
		if c.name == record.Settle.Name && c.nth == 1 && c.attempt == 1 {
			return fault{before: func() error { b.down[b.hosts[1]] = true; return nil }}
		}
		if c.name == domain.Start.Name && c.nth == 1 {
			return fault{after: func() error { b.down[b.hosts[1]] = true; return errBroken }}
		}
		return fault{}
	}
	require.Error(t, b.run(compute.OpMigrate, in, nil))
	require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Equal(t, compute.PowerShutdown, b.row.server.PowerState)
	require.Equal(t, b.hosts[0], *b.row.server.Host)
	require.Nil(t, b.row.server.Former)
	there := b.hosts[1].String() + " " + b.row.server.InstanceName()
	require.Equal(t, compute.PowerRunning, b.domains[there], "it runs where nobody could stop it")
	require.Equal(t, compute.PowerShutdown, b.domains[b.hosts[0].String()+" "+b.row.server.InstanceName()])
	require.Equal(t, 1, b.count(domain.Start.Name))
	running := b.ledger[compute.Sighting{Kind: compute.ThingRunningDomain, Place: b.hosts[1].String(), Name: b.row.server.InstanceName()}]
	require.Equal(t, []any{compute.ThingWaiting, compute.BlockedByHost}, []any{running.State, running.BlockedBy}, "no start while it waits")
	for _, thing := range b.listed() {
		if thing.Place == b.hosts[1].String() {
			require.Equal(t, compute.ThingWaiting, thing.State, "%s %s", thing.Kind, thing.Name)
		}
	}
	b.down[b.hosts[1]] = false
	b.fault = nil
	b.reapAll()
	b.isWhatItIs()
	require.NotContains(t, b.domains, there)
	require.Empty(t, b.audit())
	require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
	b.isWhatItIs()
	require.Equal(t, compute.PowerRunning, b.row.server.PowerState)
	require.Empty(t, b.audit())
	require.Empty(t, b.broken)
}

// A host can be asked for; where it is none, nothing moves. A host where something of the server
// still waits to be removed is not gone to.
func TestMigrateToAHost(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.NoError(t, b.migrateIt(compute.MigrateArguments{Host: &b.hosts[1]}))
	require.Equal(t, b.hosts[1], *b.row.server.Host)
	b.isWhatItIs()

	b = spawned(t)
	require.Equal(t, compute.NoHost, durable.FromTemporal(b.migrateIt(compute.MigrateArguments{Host: &compute.HostID{UUID: uuid.New()}})).Kind)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Zero(t, b.count(domain.Stop.Name))

	b = spawned(t)
	left := b.row.server.ID.String() + "/disk"
	b.also(compute.ThingDiskFile, b.hosts[1].String(), left)
	require.Equal(t, compute.NoHost, durable.FromTemporal(b.migrateIt(compute.MigrateArguments{})).Kind)
}

// What is decided twice, or on a server that was not moved, is refused; so is another move.
func TestNothingToDecide(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	for _, err := range []error{b.confirmIt(), b.revertIt()} {
		require.ErrorContains(t, err, "while it is in vm_state active")
	}
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.NoError(t, b.resizeIt(here(sameTPM)))
	require.ErrorContains(t, b.migrateIt(compute.MigrateArguments{}), "neither confirmed nor reverted")
	require.NoError(t, b.confirmIt())
	require.Equal(t, 1, b.count(tpm.Keep.Name))
	require.Equal(t, 2, b.count(disk.Resize.Name), "swap of another size is made anew")
}

// A revert to a host that does not answer fails before anything is stopped or removed: what the server was is there alone, and what
// it is goes on. It ends, and can be asked for again when the host is back.
func TestARevertToASilentHost(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{"it runs": spawned, "it is off": stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := migrated(setup)(t)
			was, power := b.row.server.Former.Host, b.row.server.PowerState
			files := len(b.files)
			in := b.accept(compute.OpRevertResize, compute.TaskResizeReverting, nil)
			err := b.run(compute.OpRevertResize, in, silenced(&silence{hosts: []compute.HostID{was}, quick: true}))
			require.ErrorContains(t, err, "where the server was, does not answer")
			require.Zero(t, b.count(domain.Stop.Name))
			require.Equal(t, compute.VMResized, b.row.server.VMState)
			require.Equal(t, power, b.row.server.PowerState)
			require.Len(t, b.files, files)
			b.forget()
			require.NoError(t, b.revertIt())
			require.Equal(t, was, *b.row.server.Host)
			b.reapAll()
			require.Empty(t, b.audit())
		})
	}
}

// A host that dies once the guest was stopped for it ends the move: the guest runs again where it was, and what is on that host
// waits for it.
func TestAMoveToAHostThatDies(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		last call // that the host, or the one before it, took
		do   func(*bench) durable.OperationInput
		kind compute.OperationKind
	}{
		"nothing has come": {call{name: domain.Stop.Name, nth: 1}, func(b *bench) durable.OperationInput {
			return b.accept(compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{})
		}, compute.OpMigrate},
		"a disk has come": {call{name: disk.Receive.Name, nth: 1}, func(b *bench) durable.OperationInput {
			return b.accept(compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{})
		}, compute.OpMigrate},
		"it was asked for": {call{name: disk.Receive.Name, nth: 1}, func(b *bench) durable.OperationInput {
			return b.accept(compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{Host: &b.hosts[1]})
		}, compute.OpMigrate},
		"all has come": {call{name: tpm.Receive.Name, nth: 1}, func(b *bench) durable.OperationInput {
			return b.accept(compute.OpResize, compute.TaskResizePrep, there(sameTPM))
		}, compute.OpResize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			in := v.do(b)
			files, starts := len(b.files), b.count(domain.Start.Name)
			var died atomic.Bool
			var since time.Time
			var env *testsuite.TestWorkflowEnvironment
			b.fault = at(v.last, fault{after: func() error {
				since = env.Now()
				died.Store(true)
				return nil
			}})
			err := b.run(v.kind, in, func(e *testsuite.TestWorkflowEnvironment) {
				env = e
				silenced(&silence{hosts: b.hosts[1:], quick: true, since: &died})(e)
			})
			require.True(t, died.Load())
			require.True(t, durable.IsHostSilent(err), "%v", err)
			require.Less(t, env.Now().Sub(since), 3*durable.HostSilence, "to see that it does not answer, and in the undo")
			require.Equal(t, compute.VMActive, b.row.server.VMState)
			require.Equal(t, b.hosts[0], *b.row.server.Host)
			require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
			require.Equal(t, starts+1, b.count(domain.Start.Name), "where it was, and nowhere else")
			require.Empty(t, b.broken)

			b.fault = nil
			died.Store(false)
			b.reapAll()
			require.Len(t, b.files, files)
			require.Empty(t, b.audit())
		})
	}
}
