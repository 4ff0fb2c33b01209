package compute

import "fmt"

// OpDrain is the kind of a host's drain. It works on a host and is no Action, which works on a
// server.
const OpDrain = OperationKind("drain")

// HostOwner is a host as what an operation works on.
func HostOwner(id HostID) Owner { return Owner{Kind: OwnerHost, ID: id.UUID} }

// How many servers a drain moves at once.
const (
	DefaultDrainConcurrency = 2
	MaxDrainConcurrency     = 20
)

// DrainArguments are the arguments of a drain.
type DrainArguments struct {
	Concurrency int  `json:"concurrency"`         // servers that are moved at once
	Cold        bool `json:"cold,omitempty"`      // servers that run are moved too: each is shut down and boots again
	Cancelled   bool `json:"cancelled,omitempty"` // what is under way ends, and nothing more begins
}

// Check refuses arguments that make no sense, with Invalid.
func (in DrainArguments) Check() error {
	if in.Concurrency < 1 || in.Concurrency > MaxDrainConcurrency {
		return Errorf(Invalid, "a drain moves 1 to %d servers at once, not %d", MaxDrainConcurrency, in.Concurrency)
	}
	return nil
}

// DrainState is what became of a server of a host that is drained.
type DrainState string

// The states of a server of a host that is drained.
const (
	DrainMoving     DrainState = "moving"     // an operation moves it
	DrainConfirming DrainState = "confirming" // an operation gives up what the host has of it
	DrainMoved      DrainState = "moved"      // it is not on the host any more, which may have to remove things of it yet
	DrainLeft       DrainState = "left"       // it was not tried
	DrainFailed     DrainState = "failed"     // it was tried in vain
)

// UnderWay reports whether an operation is at work on the server for the drain.
func (s DrainState) UnderWay() bool { return s == DrainMoving || s == DrainConfirming }

// DrainReason is a host's disabled_reason while it is drained.
func DrainReason(op OperationID) string { return fmt.Sprintf("draining (%s)", op) }

// DrainEnd is a host's disabled_reason once its drain has ended: left is how many servers are
// on it still.
func DrainEnd(op OperationID, left int, cancelled bool) string {
	switch {
	case cancelled:
		return fmt.Sprintf("drain cancelled, %s (%s)", serversLeft(left), op)
	case left > 0:
		return fmt.Sprintf("drained, %s (%s)", serversLeft(left), op)
	}
	return fmt.Sprintf("drained (%s)", op)
}

func serversLeft(n int) string {
	if n == 1 {
		return "1 server is left"
	}
	return fmt.Sprintf("%d servers are left", n)
}

// Departure is how a server leaves a host that is drained.
type Departure struct {
	Facts
	Arguments any
}

// DrainMove says how a server leaves a host that is drained: while its guest runs, if it runs, or
// with a restart of it, where cold says so. Conflict: not at all, and why.
func DrainMove(s Server, cold bool) (Departure, error) {
	switch {
	case s.Former != nil:
		return Departure{}, Errorf(Conflict, "Server %s was resized or migrated before, which is neither confirmed nor reverted.", s.ID)
	case s.VMState == VMShelved:
		return Departure{ShelveOffload.Facts, None{}}, nil
	case len(s.Shares) > 0:
		return Departure{}, CheckHasNoShares(len(s.Shares))
	case s.VMState == VMActive && !cold, s.VMState == VMPaused:
		return Departure{LiveMigrate.Facts, LiveMigrateArguments{}}, s.CheckMovable()
	case s.VMState == VMActive && !s.StartsUnattended():
		return Departure{}, Errorf(Conflict, "Server %s runs, and only its project's own requests can read its keys to start it elsewhere (secret security \"user\"): "+
			"it can be moved while it runs, or its owner stops or resizes it.", s.ID)
	case s.VMState == VMActive, s.VMState == VMStopped:
		if s.IsShelved() {
			return Departure{}, s.WhileShelved(OpMigrate)
		}
		return Departure{Migrate.Facts, MigrateArguments{}}, s.CheckMovable()
	}
	return Departure{}, Errorf(Conflict, "Server %s is in vm_state %s, in which it cannot be moved.", s.ID, s.VMState)
}
