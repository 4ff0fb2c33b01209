package compute

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Removal asks for one thing to be removed.
type Removal struct {
	Thing       Thing        `json:"thing"`
	Credentials []Credential `json:"credentials,omitempty"` // tried in turn; things on hosts need none
	Began       time.Time    `json:"began,omitzero"`        // when the operation did that removes the thing; of what waited, Thing.Since says it
}

// Precedes reports whether the removal was asked for before an operation began, by the
// database's clock: what that has made under the same name is not what is to go, also where
// an attempt acts late.
func (r Removal) Precedes(began time.Time) bool {
	return r.Thing.WaitedBefore(began) || !r.Began.IsZero() && began.After(r.Began)
}

// SeenPage is how many things a page of SeenResult has at most.
const SeenPage = 1000

// SeenInput asks for one page of what exists at a place.
type SeenInput struct {
	Page     string   `json:"page,omitempty"`     // "": the first; else what the page before gave as Next
	Projects []Access `json:"projects,omitempty"` // where a service shows things project by project
	Known    []string `json:"known,omitempty"`    // names to look at one by one, where nothing lists them
}

// SeenResult is one page of what exists at a place, in a stable order.
type SeenResult struct {
	Seen   []Seen   `json:"seen,omitempty"`
	Looked []string `json:"looked,omitempty"` // projects that were looked at to their end; LookedAll: the whole place
	Closed []string `json:"closed,omitempty"` // projects that no credential opens
	Next   string   `json:"next,omitempty"`   // "": this was the last page
}

// LookedAll in SeenResult.Looked says that the whole place was looked at.
const LookedAll = "*"

// Seen is a thing that exists.
type Seen struct {
	Kind ThingKind `json:"kind"`
	Name string    `json:"name"`
}

// AddedKeySlots names the key slots of a disk that an operation adds. The thing's
// reference lists the slots that were there before, "0,1".
func AddedKeySlots(server ServerID, file string, op OperationID) string {
	return server.String() + "/" + file + "#" + string(op)
}

// OldKeySlots names the key slots of a disk that an operation parts with. The thing's
// reference lists them.
func OldKeySlots(server ServerID, file string, op OperationID) string {
	return AddedKeySlots(server, file, op) + oldSlots
}

const oldSlots = "/old"

// KeySlotsOf reads a name that AddedKeySlots or OldKeySlots gave.
func KeySlotsOf(name string) (server ServerID, file string, old, ok bool) {
	disk, op, found := strings.Cut(name, "#")
	folder, file, inFolder := strings.Cut(disk, "/")
	id, err := uuid.Parse(folder)
	return ServerID{UUID: id}, file, strings.HasSuffix(op, oldSlots), found && inFolder && err == nil
}
