package compute

import (
	"cmp"
	"fmt"
	"time"
)

// LedgerEntry is an open ledger row with what the audit must know of its owner.
type LedgerEntry struct {
	Thing
	Project      string `json:"project,omitempty"` // whose it is; "": of whoever asked for it
	OwnerDeleted bool   `json:"owner_deleted"`
	Busy         bool   `json:"busy"` // an operation is at work on the owner
	// Kept is why a key stays whose image is gone, and HeldShares of access to a share that is missed with
	// too many others; "" for all else.
	Kept string `json:"kept,omitempty"`
	// HostGivenUp: it is on a host that is forced down or forgotten.
	HostGivenUp bool `json:"host_given_up,omitempty"`
}

// Sighting is something that was seen in the world.
type Sighting struct {
	Kind  ThingKind `json:"kind"`
	Place string    `json:"place"`
	Name  string    `json:"name"`
}

// Finding is one difference between the ledger and the world.
type Finding struct {
	Kind  ThingKind `json:"kind"`
	Place string    `json:"place"`
	Name  string    `json:"name"`
	Owner string    `json:"owner,omitempty"`
	// Project is whose it is: the ledger's project, or the one of the server that the name has; "" if neither says.
	Project string  `json:"project,omitempty"`
	What    Verdict `json:"what"`
	Why     string  `json:"why,omitempty"`
}

// GoneProject is what the ledger has of a project that the identity service does not know any
// more.
type GoneProject struct {
	Project string `json:"project"`
	Things  int    `json:"things"` // in the cloud's services, without what was handed over
}

// String says it in one line.
func (g GoneProject) String() string {
	return fmt.Sprintf("project %s was deleted, and %d things of it are on the ledger", g.Project, g.Things)
}

// Verdict says what is wrong with a thing.
type Verdict string

// The verdicts of the audit.
const (
	Unowned  Verdict = "unowned"  // it exists and the ledger does not know it
	Leftover Verdict = "leftover" // its owner is deleted and it is still on the ledger
	Missing  Verdict = "missing"  // the ledger says it is there and it is not
	Unsure   Verdict = "unsure"   // it was meant to be made, nobody is at work on it, and nobody knows whether it is there
	Kept     Verdict = "kept"     // the key of an image that is gone, which nothing removes (EE-28, EE-44)
	Held     Verdict = "held"     // an image with a key, or a share, that is gone with so many others that an operator is to look
	Waiting  Verdict = "waiting for a credential"
	Stranded Verdict = "waiting for its host"
	Late     Verdict = "waiting for what may still happen"
	Behind   Verdict = "waiting for what must go first"
	Failing  Verdict = "waiting to be tried again"
	Long     Verdict = "tried for long" // an operation that does not get any further (K15)
)

// Looked names what was looked at when it is less than a whole place: what one
// project has there.
func Looked(place, projectID string) string { return place + "/" + projectID }

// auditedOperation is the kind of findings that are operations: they are no things on the ledger, and have no place in the order of removal.
const auditedOperation = "operation"

// LongAfter is how long an operation may be in one step before the audit tells of it: longer than two attempts at a long one.
const LongAfter = 13 * time.Hour

// FindingOf is the audit's finding on an operation that is in one step since then.
func FindingOf(op Operation, step string, since time.Time) Finding {
	return Finding{
		Kind: auditedOperation, Place: "temporal", Name: string(op.ID), Owner: op.On().String(), Project: op.Credential.ProjectID, What: Long,
		Why: fmt.Sprintf("%s, in step %s since %s", op.Kind, cmp.Or(step, "begin"), since.UTC().Format(time.RFC3339)),
	}
}

// Finding gives the audit's finding on a ledger row.
func (e LedgerEntry) Finding(what Verdict) Finding {
	return Finding{
		Kind: e.Kind, Place: e.Place, Name: e.Name, Owner: e.Owner.String(), Project: cmp.Or(e.Project, e.Credential.ProjectID), What: what, Why: e.why(),
	}
}

func (e LedgerEntry) why() string {
	if e.BlockedBy == BlockedByHost && e.HostGivenUp && e.OwnerDeleted && e.Owner.Kind == OwnerServer {
		return HostGivenUp
	}
	return cmp.Or(e.Kept, e.Reason)
}

// HostGivenUp is why something of a deleted server stays on a host that an operator forced down or forgot: the server's keys did not wait for it
// (EE-27, TPM-33).
const HostGivenUp = "its host is forced down or forgotten: the server's keys are deleted before it; it goes when the host is back"

// waitingFor tells what things that wait are waiting for.
var waitingFor = map[Blocker]Verdict{
	BlockedByCredential: Waiting, BlockedByHost: Stranded, BlockedByTime: Late, BlockedByThings: Behind, BlockedByError: Failing,
}

// Judge says what is wrong with a thing on the ledger, "" if nothing is. seen says
// that it exists; looked that its place was looked at.
func (e LedgerEntry) Judge(seen, looked bool) Verdict {
	switch {
	case e.State == ThingHandedOver && e.Kept != "" && (seen || !looked):
		if e.Kept == KeptWithMany {
			return Held
		}
		return Kept
	case e.Busy, e.State == ThingHandedOver:
		return ""
	case e.State == ThingWaiting:
		return cmp.Or(waitingFor[e.BlockedBy], Failing)
	case e.OwnerDeleted:
		return Leftover
	case e.Kept == HeldShares:
		return Held
	case !looked || of(e.Kind).notAudited:
		return ""
	case e.State == ThingPresent && !seen:
		return Missing
	case e.State == ThingIntended:
		return Unsure
	}
	return ""
}

// ByPlace sorts findings.
func ByPlace(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}
