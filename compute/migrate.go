package compute

import "maps"

// The kinds of a move that its owner decides on, and of the two decisions.
const (
	OpMigrate       OperationKind = "migrate"
	OpConfirmResize OperationKind = "confirmResize"
	OpRevertResize  OperationKind = "revertResize"
)

// Migrate moves a server to another host, off, until it is confirmed or reverted.
var Migrate = declare(Action[MigrateArguments]{Facts: Facts{
	Kind:          OpMigrate,
	Transition:    Transition{Task: TaskResizePrep, From: []VMState{VMActive, VMStopped}},
	NoShares:      true,
	Boots:         true,
	Notifications: notifications("resize"),
}})

// ConfirmResize gives up what a server was before it was resized or migrated. One in ERROR may
// be in the midst of it, see CheckMoved.
var ConfirmResize = declare(Action[None]{Facts: Facts{
	Kind:          OpConfirmResize,
	Transition:    Transition{Task: TaskResizeConfirming, From: []VMState{VMResized, VMError}},
	Notifications: notifications("resize_confirm"),
}})

// RevertResize brings back what a server was before it was resized or migrated.
var RevertResize = declare(Action[None]{Facts: Facts{
	Kind:          OpRevertResize,
	Transition:    Transition{Task: TaskResizeReverting, From: []VMState{VMResized, VMError}},
	Boots:         true,
	Notifications: notifications("resize_revert"),
}})

// MigrateArguments are the arguments of a migrate.
type MigrateArguments struct {
	Host         *HostID `json:"host,omitempty"` // nil: any other than it is on
	ConfirmAfter int     `json:"confirm_after"`  // seconds until it is confirmed by itself; 0: never
}

// Former is what a server was before a resize or a migration that is neither confirmed nor
// reverted. Its host keeps all that it needs to be that again.
type Former struct {
	Operation  OperationID `json:"operation"` // that moved it
	Host       HostID      `json:"host"`
	HostName   string      `json:"host_name"`
	VMState    VMState     `json:"vm_state"`
	Flavor     Flavor      `json:"flavor"`
	Disks      []Disk      `json:"disks"`
	TPM        *TPM        `json:"tpm,omitempty"`
	Traits     []string    `json:"traits,omitempty"`
	Forbidden  []string    `json:"forbidden_traits,omitempty"`
	DiskConfig string      `json:"disk_config"`
	Unbooted   bool        `json:"unbooted,omitempty"` // see SystemUnbooted
	NewTPM     bool        `json:"new_tpm,omitempty"`  // see SystemNewTPM
	// SharedTPM: the state of its vTPM is on storage that its host shares with the server's, which
	// uses it now. As on one host, there is a copy of what it was, where that may change.
	SharedTPM bool `json:"shared_tpm,omitempty"`
}

// FormerOf is the server as a move leaves it behind.
func (s Server) FormerOf(op OperationID, hostName, diskConfig string) Former {
	out := Former{
		Operation: op, HostName: hostName, VMState: s.VMState, Flavor: s.Flavor, Disks: s.Disks, TPM: s.TPM,
		Traits: s.Traits, Forbidden: s.Forbidden, DiskConfig: diskConfig, Unbooted: s.Unbooted(), NewTPM: s.HasNewTPM(),
	}
	if s.Host != nil {
		out.Host = *s.Host
	}
	return out
}

// Before is the server as it was. It must have been moved (CheckMoved).
func (s Server) Before() Server {
	f := *s.Former
	out := s
	out.Host, out.VMState, out.Flavor, out.Disks, out.TPM = &f.Host, f.VMState, f.Flavor, f.Disks, f.TPM
	out.Traits, out.Forbidden, out.Former = f.Traits, f.Forbidden, nil
	return out.WithUnbooted(f.Unbooted).WithNewTPM(f.NewTPM)
}

// CheckMoved refuses, with Conflict and the API's text, to confirm or revert where there is
// nothing to decide on.
func (s Server) CheckMoved(of Facts) error {
	if s.Former == nil {
		return of.wrongState(s.ID, "vm_state", string(s.VMState))
	}
	return nil
}

// WhileMoved reports whether the kind may begin on a server that was moved, before that is
// confirmed or reverted: the others would change what the server was or is under the decision.
func (f Facts) WhileMoved() bool {
	return f.Kind == OpConfirmResize || f.Kind == OpRevertResize || f.Kind == OpDelete
}

// TakesTPM reports whether the kind takes the state of the server's vTPM for what it is to be, though no guest runs by it: while
// a copy of what it was is still to be put back, that copy would be lost.
func (f Facts) TakesTPM() bool {
	return f.Kind == OpConfirmResize || f.Kind == OpShelve || f.Kind == OpBackUpTPM
}

// CheckMovable refuses, with Conflict, a server that cannot be moved or resized now. Corrupt: its record does not say
// with which firmware it begins.
func (s Server) CheckMovable() error {
	if err := s.CheckNotRescued(); err != nil {
		return err
	}
	if s.Former != nil {
		return Errorf(Conflict, "Server %s was resized or migrated before, which is neither confirmed nor reverted.", s.ID)
	}
	if _, ok := s.RootDisk(); !ok {
		return Errorf(Conflict, "server %s has no local root disk", s.ID)
	}
	for _, d := range s.Disks {
		if d.OnDevice() {
			return Errorf(Conflict, "Server %s cannot be moved or resized: its %s disk is a logical volume of its host (encryption format %s).", s.ID, d.Label(), d.Format)
		}
	}
	_, err := s.Firmware()
	return err
}

// InNewFiles is a planned server with its disks in files of the operation's own, for a host that
// has the others too: both are there until it is decided which stay.
func (s Server) InNewFiles(op OperationID) Server {
	disks := s.Disks
	s.Disks = nil
	for _, d := range disks {
		d.File = ""
		d.File = d.Name() + "." + op.Derive("disk/" + d.Label()).String()[:8]
		s.Disks = append(s.Disks, d)
	}
	return s
}

// SameTPM reports whether two servers have a vTPM, and the same one: its state goes over from
// one to the other.
func (s Server) SameTPM(other Server) bool {
	return s.TPM != nil && other.TPM != nil && s.TPM.Version == other.TPM.Version && s.TPM.Model == other.TPM.Model
}

// KeptTPM names the copy of the state of a server's vTPM that an operation keeps beside it.
func KeptTPM(id ServerID, op OperationID) string {
	return id.String() + "." + op.Derive("tpm/" + id.String()).String()[:8]
}

// KeptUndecided is the reference of such a copy while it is not decided that the state is to be
// another one: whoever removes the copy puts it back.
const KeptUndecided = "undecided"

// HasTPMBack refuses, with Conflict, while a copy of the state of a server's vTPM is still to be put back, by what is on the ledger:
// what is in its place is what a move that failed left.
func HasTPMBack(has []Thing) error {
	for _, t := range has {
		if t.Kind == ThingTPMState && t.Reference == KeptUndecided && t.State == ThingWaiting {
			return Errorf(Conflict, "the state of the server's vTPM is still to be put back on host %s: try again when that was done", t.HostName)
		}
	}
	return nil
}

// RunsNowhere refuses, with Conflict, while a host that did not answer may still run a server, by what is on the ledger.
func RunsNowhere(has []Thing) error {
	for _, t := range has {
		if t.Kind == ThingRunningDomain {
			return Errorf(Conflict, "host %s did not answer and may still run the server: try again when it is back, or when the host was forgotten", t.HostName)
		}
	}
	return nil
}

// SystemUnbooted is the key of a server's system metadata that says that it was never booted on
// the host that it is on: it has no domain there.
const SystemUnbooted = "unbooted"

// Unbooted reports whether the server was never booted on its host.
func (s Server) Unbooted() bool { return s.System[SystemUnbooted] != "" }

// WithUnbooted is the server with that set.
func (s Server) WithUnbooted(unbooted bool) Server {
	s.System = maps.Clone(s.System)
	if s.System == nil {
		s.System = map[string]string{}
	}
	delete(s.System, SystemUnbooted)
	if unbooted {
		s.System[SystemUnbooted] = "yes"
	}
	return s
}
