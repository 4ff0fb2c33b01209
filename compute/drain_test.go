package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestDrainMove(t *testing.T) {
	t.Parallel()
	server := func(vm compute.VMState, specs map[string]string) compute.Server {
		return compute.Server{
			ID: compute.ServerID{UUID: uuid.New()}, ProjectID: "p", UserID: "u", VMState: vm, Flavor: compute.Flavor{ExtraSpecs: specs},
			Disks: []compute.Disk{{Role: compute.RootDisk, Encrypted: specs != nil, Format: compute.FormatLUKS}},
		}
	}
	yours := map[string]string{"hw:ephemeral_encryption": "true"}
	delegated := map[string]string{"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_secret_security": "host"}
	of := func(change func(*compute.Server)) compute.Server {
		s := server(compute.VMStopped, nil)
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		server compute.Server
		cold   bool
		how    compute.OperationKind
		why    string
	}{
		"off":                     {server: server(compute.VMStopped, nil), how: compute.OpMigrate},
		"off, its owner's keys":   {server: server(compute.VMStopped, yours), how: compute.OpMigrate},
		"runs":                    {server: server(compute.VMActive, nil), how: compute.OpLiveMigrate},
		"runs, with keys":         {server: server(compute.VMActive, delegated), how: compute.OpLiveMigrate},
		"runs, keys out of reach": {server: server(compute.VMActive, yours), how: compute.OpLiveMigrate}, // its host hands them on
		"runs, restarted":         {server: server(compute.VMActive, nil), cold: true, how: compute.OpMigrate},
		"runs, delegated keys":    {server: server(compute.VMActive, delegated), cold: true, how: compute.OpMigrate},
		"runs, its owner's keys":  {server: server(compute.VMActive, yours), cold: true, why: "only its project's own requests can read its keys"},
		"shelved":                 {server: server(compute.VMShelved, yours), how: compute.OpShelveOffload},
		"paused":                  {server: server(compute.VMPaused, nil), cold: true, how: compute.OpLiveMigrate}, // a restart would end that
		"paused, its owner's":     {server: server(compute.VMPaused, yours), cold: true, how: compute.OpLiveMigrate},
		"in error":                {server: server(compute.VMError, nil), cold: true, why: "vm_state error"},
		"moved and not confirmed": {server: of(func(s *compute.Server) { s.VMState, s.Former = compute.VMResized, &compute.Former{} }), why: "neither confirmed nor reverted"},
		"shelved, as if stopped":  {server: of(func(s *compute.Server) { s.Disks[0].Shelved = &compute.ShelvedDisk{} }), why: "while it is shelved"},
		"rescued":                 {server: server(compute.VMRescued, nil), why: "vm_state rescued"},
		"logical volume": {server: of(func(s *compute.Server) {
			s.Disks[0].Encrypted, s.Disks[0].Format = true, compute.FormatLUKSv2
		}), why: "is a logical volume"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			how, err := compute.DrainMove(c.server, c.cold)
			if c.why != "" {
				require.ErrorContains(t, err, c.why)
				require.Equal(t, compute.Conflict, compute.KindOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.how, how.Kind)
			require.Contains(t, how.Transition.From, c.server.VMState)
		})
	}
}

func TestDrainArguments(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{-1: false, 0: false, 1: true, compute.MaxDrainConcurrency: true, compute.MaxDrainConcurrency + 1: false} {
		err := compute.DrainArguments{Concurrency: n}.Check()
		require.Equal(t, ok, err == nil, n)
		if !ok {
			require.Equal(t, compute.Invalid, compute.KindOf(err))
		}
	}
	require.Equal(t, "drained (req-1)", compute.DrainEnd("req-1", 0, false))
	require.Equal(t, "drained, 1 server is left (req-1)", compute.DrainEnd("req-1", 1, false))
	require.Equal(t, "drain cancelled, 2 servers are left (req-1)", compute.DrainEnd("req-1", 2, true))
}
