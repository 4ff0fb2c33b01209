package compute

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Damage is a difference between an older database that was restored and the world, with
// what mends it.
type Damage struct {
	What    DamageKind `json:"what"`
	Server  ServerID   `json:"server_id,omitzero"`
	Name    string     `json:"name"`             // what it is about, for people
	Remedy  Remedy     `json:"remedy,omitempty"` // "": people decide
	Why     string     `json:"why,omitempty"`    // how it is known, or why nothing is done
	Applied bool       `json:"applied"`
	Things  []Thing    `json:"things,omitempty"`
	Key     *KeyRepair `json:"-"` // of NameKey
}

// DamageKind says what is wrong.
type DamageKind string

// The kinds of damage.
const (
	DamagedExecution DamageKind = "execution"      // an execution in Temporal whose operation the database does not have
	DamagedOperation DamageKind = "operation"      // an operation on record whose execution ended or is gone
	DamagedKey       DamageKind = "key"            // a disk whose secret was replaced
	DamagedServer    DamageKind = "server"         // a server on record of which nothing is left
	DamagedRow       DamageKind = "row"            // a row of the ledger whose thing is gone
	DamagedThing     DamageKind = "thing"          // a thing without a row
	UnknownServer    DamageKind = "unknown server" // what exists of a server that is not on record, or as deleted
)

// Remedy is what mends damage.
type Remedy string

// The remedies.
const (
	TerminateExecution Remedy = "terminate the execution"
	SettleOperation    Remedy = "settle the operation"
	NameKey            Remedy = "name the new secret"
	DeleteServer       Remedy = "delete the server"
	ReleaseRow         Remedy = "release the row"
	RestoreRow         Remedy = "restore the row"
	UndoRotation       Remedy = "undo the rotation"
	RemoveUnknown      Remedy = "remove it all" // only of servers that were named
)

// KnownServer is what the database says of a server.
type KnownServer struct {
	Server  Server
	Deleted bool
	Busy    bool        // an operation has it
	Made    OperationID // the operation that made it, as far as that is known
	Has     []Thing     // on the ledger
}

// RepairInput is what the world and an older database say.
type RepairInput struct {
	Findings []Finding // of an audit
	Known    map[ServerID]KnownServer
	Secrets  map[string]OwnedSecret // by name
	Keys     []KeyRepair            // what is found there is not found twice
	// Incomplete says that the audit found more than it told.
	Incomplete bool
	Remove     []ServerID // servers that are not on record and whose things are to go
}

// OwnedSecret is a secret with the project that it is in.
type OwnedSecret struct {
	StoredSecret
	Project string `json:"project"`
}

// FindDamage says what of an audit's findings a restored database explains, and how it is
// mended. What waits on the ledger to be removed is none: it goes by itself.
func FindDamage(in RepairInput) []Damage {
	r := repairer{RepairInput: in, missing: map[ServerID][]Thing{}, unowned: map[ServerID][]Finding{}}
	for _, f := range in.Findings {
		switch f.What {
		case Missing:
			r.addMissing(f)
		case Unowned:
			r.addUnowned(f)
		case Unsure:
			r.unsure(f)
		case Failing:
			r.keptRotation(f)
		case Leftover, Waiting, Stranded, Late, Behind:
		}
	}
	for server, things := range r.missing {
		r.gone(in.Known[server], things)
	}
	for server, findings := range r.unowned {
		if known, ok := in.Known[server]; ok && !known.Deleted {
			r.untracked(known, findings)
		} else {
			r.unknown(server, findings)
		}
	}
	slices.SortStableFunc(r.out, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Server.String(), b.Server.String()), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return r.out
}

type repairer struct {
	RepairInput
	missing map[ServerID][]Thing
	unowned map[ServerID][]Finding
	out     []Damage
}

func (r *repairer) add(d Damage) { r.out = append(r.out, d) }

// describe names a thing for people.
func describe(kind ThingKind, name string) string { return string(kind) + " " + name }

func (r *repairer) addMissing(f Finding) {
	server, ok := ownerServer(f.Owner)
	known := r.Known[server]
	at := slices.IndexFunc(known.Has, func(t Thing) bool { return t.Kind == f.Kind && t.Place == f.Place && t.Name == f.Name })
	if !ok || at < 0 {
		r.add(Damage{What: DamagedRow, Name: describe(f.Kind, f.Name), Why: "it belongs to " + cmp.Or(f.Owner, "nobody")})
		return
	}
	r.missing[server] = append(r.missing[server], known.Has[at])
}

func (r *repairer) addUnowned(f Finding) {
	server, ok := f.Server()
	switch {
	case ok && r.isNewKey(f):
	case ok:
		r.unowned[server] = append(r.unowned[server], f)
	default:
		r.add(Damage{What: DamagedThing, Name: describe(f.Kind, f.Name), Why: "its name says no server: look at it, and remove or keep it"})
	}
}

func (r *repairer) unsure(f Finding) {
	server, _ := ownerServer(f.Owner)
	s := r.Known[server]
	d := Damage{What: DamagedRow, Server: server, Name: describe(f.Kind, f.Name),
		Why: "an operation was making it when the backup was made: delete the server, which removes it"}
	at := slices.IndexFunc(s.Has, func(t Thing) bool { return t.Kind == f.Kind && t.Place == f.Place && t.Name == f.Name })
	switch {
	case s.Busy:
		d.Why = whyBusy
	case f.Kind != ThingKeySecret || at < 0 || r.isNewKey(f):
	default:
		r.cutRotation(&d, s, s.Has[at])
	}
	if !r.isNewKey(f) {
		r.add(d)
	}
}

// isNewKey reports whether a secret is the one that a disk's repair found.
func (r *repairer) isNewKey(f Finding) bool {
	return f.Kind == ThingKeySecret && slices.ContainsFunc(r.Keys, func(k KeyRepair) bool { return k.Now != nil && k.Now.Name == f.Name })
}

// isOldKey reports whether a thing is the secret in whose place a disk's repair found another.
func (r *repairer) isOldKey(t Thing) bool {
	return t.Kind == ThingKeySecret && slices.ContainsFunc(r.Keys, func(k KeyRepair) bool { return k.Now != nil && k.Was.String() == t.Reference })
}

const whyBusy = "an operation is at work on the server: ask again when it has ended"

// gone judges rows of a server whose things are gone.
func (r *repairer) gone(s KnownServer, missing []Thing) {
	if s.allGone(missing) && r.surelyDeleted(s) {
		d := Damage{What: DamagedServer, Server: s.Server.ID, Name: s.Server.Name, Remedy: DeleteServer, Things: missing,
			Why: fmt.Sprintf("all %d things of it are gone: it was deleted", len(missing))}
		if s.Busy {
			d.Remedy, d.Why = "", whyBusy
		}
		r.add(d)
		return
	}
	for _, t := range missing {
		if r.isOldKey(t) {
			continue
		}
		d := Damage{What: DamagedRow, Server: s.Server.ID, Name: describe(t.Kind, t.Name), Things: []Thing{t}}
		moved := r.whyMoved(s, t, missing)
		switch {
		case s.Busy:
			d.Why = whyBusy
		case moved != "":
			d.Why = moved
		case s.Server.Host != nil && s.Server.Uses(*s.Server.Host, t):
			d.Why = whyUsed(t)
			for _, k := range r.Keys {
				if t.Kind == ThingKeySecret && k.Was.String() == t.Reference {
					d.Why = k.Why + ": " + d.Why
				}
			}
		default:
			d.Remedy, d.Why = ReleaseRow, "the server does not use it any more"
		}
		r.add(d)
	}
}

// surelyDeleted reports whether nothing else than a delete explains that all of a server is
// gone. One that is shelved, or was since, has its body elsewhere; one whose keys were
// rotated lives; and one without a key tells a delete from a host that lost its disks by
// nothing.
func (r *repairer) surelyDeleted(s KnownServer) bool {
	shelved := s.Server.Host == nil || s.Server.VMState == VMShelved || s.Server.VMState == VMShelvedOffloaded
	hasKey := slices.ContainsFunc(s.Has, func(t Thing) bool { return t.Kind == ThingKeySecret })
	rotated := slices.ContainsFunc(r.Keys, func(k KeyRepair) bool { return k.Server == s.Server.ID && (k.Now != nil || k.Several) })
	return !shelved && hasKey && !rotated && len(r.unowned[s.Server.ID]) == 0 && !r.Incomplete
}

// allGone reports whether everything of a server that is listed anywhere is missing, its
// disks or its domain among it. Its secrets count, so that a host that lost its disks alone
// is not taken for a delete, which removes keys last.
func (s KnownServer) allGone(missing []Thing) bool {
	isMissing := func(t Thing) bool { return slices.ContainsFunc(missing, func(m Thing) bool { return m.ID == t.ID }) }
	body := false
	for _, t := range s.Has {
		if k := of(t.Kind); k.proof {
			if !isMissing(t) {
				return false
			}
			body = body || k.body
		}
	}
	return body
}

// whyUsed says what to do about a thing that a server is made of and that is gone.
func whyUsed(t Thing) string {
	if says := of(t.Kind).lost; says != nil {
		return says(t.Name)
	}
	return "nothing makes it anew: delete the server"
}

// untracked judges things of a server on record that have no row.
func (r *repairer) untracked(s KnownServer, found []Finding) {
	for _, f := range found {
		t, project := r.thing(s.Server.ID, f)
		if t.Operation == "" {
			t.Operation = s.Made
		}
		t = Operation{ID: t.Operation, ServerID: s.Server.ID, Credential: t.Credential}.Thing(t.Kind, t.Place, t.Name).with(t.Reference)
		if t.Credential.ProjectID == "" {
			t.Credential.ProjectID = s.Server.ProjectID
		}
		t.Credential.UserID = s.Server.UserID
		d := Damage{What: DamagedThing, Server: s.Server.ID, Name: describe(f.Kind, f.Name), Things: []Thing{t}, Remedy: RestoreRow}
		moved := r.whyFound(s, f)
		switch {
		case s.Busy:
			d.Remedy, d.Why = "", whyBusy
		case moved != "":
			d.Remedy, d.Why = "", moved
		case !project:
			d.Remedy, d.Why = "", "nobody could tell in which project it is"
		case s.Server.Host != nil && s.Server.Uses(*s.Server.Host, t):
			d.Why = "the server is made of it"
		default:
			d.Why = "the server does not use it: it goes when the server is deleted"
		}
		r.add(d)
	}
}

func (t Thing) with(reference string) Thing {
	t.Reference = reference
	return t
}

// thing makes a row's thing of a name. projectKnown is false for a secret that nobody saw
// with its project.
func (r *repairer) thing(server ServerID, f Finding) (t Thing, projectKnown bool) {
	t = Thing{Kind: f.Kind, Place: f.Place, Name: f.Name, Owner: ServerOwner(server)}
	if _, op, ours := SecretOwner(f.Name); ours {
		t.Operation = op
	}
	if f.Kind != ThingKeySecret {
		return t, !of(f.Kind).unlisted
	}
	stored, ok := r.Secrets[f.Name]
	t.Reference = stored.ID.String()
	t.Credential = MemberCredential(stored.Project)
	return t, ok && stored.Project != ""
}

// unknown judges what exists of a server that the database does not know, or as deleted.
func (r *repairer) unknown(server ServerID, found []Finding) {
	d := Damage{What: UnknownServer, Server: server}
	kinds := map[ThingKind]int{}
	hidden := 0
	for _, f := range found {
		kinds[f.Kind]++
		t, project := r.thing(server, f)
		if !project {
			hidden++
			continue
		}
		if t.Operation == "" {
			t.Operation = OperationID("req-" + server.String())
		}
		d.Things = append(d.Things, Operation{ID: t.Operation, ServerID: server, Credential: t.Credential}.Thing(t.Kind, t.Place, t.Name).with(t.Reference))
	}
	var parts []string
	for _, kind := range TeardownOrder {
		if n := kinds[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	d.Name = strings.Join(parts, ", ")
	d.Why = "it was created since: copy its data out, and then name it with --remove-unknown"
	if _, deleted := r.Known[server]; deleted {
		d.Why = "it is on record as deleted: name it with --remove-unknown"
	}
	if slices.Contains(r.Remove, server) {
		d.Remedy, d.Why = RemoveUnknown, "it was named with --remove-unknown"
	}
	if hidden > 0 {
		d.Why += fmt.Sprintf("; in which projects %d of its secrets, trusts and objects are, nobody could tell: they stay", hidden)
	}
	r.add(d)
}

// Server gives the server that the name of a thing names. Names of images and libvirt
// secrets name none.
func (f Finding) Server() (ServerID, bool) {
	if server := of(f.Kind).server; server != nil {
		return server(f.Name)
	}
	return ServerID{}, false
}

// ownerServer reads what Owner.String writes of a server.
func ownerServer(owner string) (ServerID, bool) {
	text, ok := strings.CutPrefix(owner, string(OwnerServer)+" ")
	id, err := uuid.Parse(text)
	return ServerID{UUID: id}, ok && err == nil
}

// Servers lists the servers that findings are about.
func Servers(findings []Finding) []ServerID {
	var out []ServerID
	for _, f := range findings {
		for _, of := range []func() (ServerID, bool){f.Server, func() (ServerID, bool) { return ownerServer(f.Owner) }} {
			if id, ok := of(); ok && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}
