package compute

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// kind is what audit, reaper, delete and repair know of the things of one kind. How they are removed, and how a service
// is asked for them, is one more row in workflows (things.go): a new kind is these two rows.
type kind struct {
	kind      ThingKind
	goneFirst []ThingKind // GoneFirst
	nameAgain bool        // NamedByServer

	// removal says what the removal of the thing of a name does, for people.
	removal func(name string) string
	// server gives the server that a name names; nil: names of the kind tell none.
	server func(name string) (ServerID, bool)
	// uses reports whether a server is made of a thing that is on its host or at a service; nil: no server is.
	uses func(s Server, t Thing) bool
	// lost says what to do about one that a server is made of and that is gone; nil: nothing makes it anew.
	lost func(name string) string

	// comesLate: ComesLate.
	comesLate bool
	// notAudited: nothing lists them, so that an audit cannot tell whether one is there.
	notAudited bool
	// unlisted: no list of them tells in which project one is.
	unlisted bool
	// proof and body: a server of which each thing with proof is missing, one with a body among them, was deleted.
	proof, body bool
}

// kinds has every kind of thing, in the order of their removal: secrets of the key manager go after every disk that they
// open (EE-27, TPM-31), and trusts go last, since with them the rest can be removed.
var kinds = []kind{
	{
		kind: ThingRunningDomain, nameAgain: true,
		removal:    verb("stop domain "),
		notAudited: true,
	},
	{
		kind: ThingDomain, nameAgain: true,
		removal: verb("delete domain "),
		server:  func(name string) (ServerID, bool) { return serverIn(strings.TrimPrefix(name, instancePrefix)) },
		uses:    func(s Server, t Thing) bool { return t.Name == s.InstanceName() },
		lost:    words("a hard reboot of the server makes it anew"),
		proof:   true, body: true,
	},
	{
		kind:    ThingHypervisorSecret,
		removal: verb("delete libvirt secret "),
	},
	{
		kind: ThingShareMount, nameAgain: true, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain},
		removal: func(name string) string { return "unmount share " + before(name, "/") },
		server:  serverOfShareUse,
		uses:    Server.usesShare,
		lost:    words("a hard reboot of the server makes it anew"),
	},
	{
		kind: ThingDiskFile, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain},
		removal: verb("delete disk file "),
		server:  func(name string) (ServerID, bool) { return serverIn(before(name, "/")) },
		uses:    func(s Server, t Thing) bool { return slices.Contains(s.files(), t.Name) },
		lost:    lostFile,
		proof:   true, body: true,
	},
	{
		kind:       ThingKeySlot,
		removal:    func(name string) string { return "erase key slots of disk " + before(name, "#") },
		notAudited: true,
	},
	{
		kind: ThingCachedImage, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain, ThingDiskFile},
		removal: verb("release cached image "),
		server: func(name string) (ServerID, bool) {
			return serverIn(before(name[strings.LastIndexByte(name, '/')+1:], "."))
		},
		uses: func(s Server, t Thing) bool { return slices.Contains(s.cacheUses(), t.Name) },
	},
	{
		kind: ThingTPMState, nameAgain: true, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain},
		removal: verb("delete TPM state of server "),
		server:  func(name string) (ServerID, bool) { return serverIn(before(name, ".")) }, // of a copy, too (KeptTPM)
		uses:    func(s Server, t Thing) bool { return s.TPM != nil && t.Name == s.ID.String() },
		lost:    words("the server was rebuilt since, or it is lost: rebuild it, or delete it"),
		proof:   true,
	},
	{
		kind: ThingVolumeMount, nameAgain: true,
		removal: verb("unmount volume "),
	},
	{
		kind: ThingVolumeMapping, nameAgain: true, goneFirst: []ThingKind{ThingVolumeMount},
		removal: verb("close volume "),
	},
	{
		kind: ThingPluggedPort, nameAgain: true,
		removal:    func(name string) string { return "unplug port " + before(name, "/") },
		notAudited: true,
	},
	{
		kind: ThingPort, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain, ThingPluggedPort}, // its address may be another server's next
		removal:   removalOfPort,
		server:    serverOfPortUse,
		uses:      Server.usesPort,
		lost:      words("the server has lost its interface: delete it and make another one"),
		comesLate: true,
		unlisted:  true,
	},
	{
		kind: ThingShareAccess, nameAgain: true, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain, ThingShareMount},
		removal:  func(name string) string { return "deny access to share " + before(name, "/") },
		server:   serverOfShareUse,
		uses:     Server.usesShare,
		lost:     words("detach the share, and attach it again"),
		unlisted: true,
	},
	{
		kind:    ThingImage,
		removal: verb("delete image "),
	},
	{
		kind:     ThingObject,
		removal:  verb("delete object "),
		server:   serverOfObject,
		uses:     func(s Server, t Thing) bool { b := s.Backup(); return b != nil && t.Name == b.Object },
		lost:     words("the next backup of the server's vTPM makes it anew"),
		unlisted: true,
	},
	{
		kind: ThingKeySecret, goneFirst: []ThingKind{ThingRunningDomain, ThingDomain, ThingKeySlot, ThingDiskFile, ThingTPMState, ThingImage, ThingObject},
		removal: func(name string) string { return "delete secret for " + SecretUse(name) },
		server:  serverOfSecret,
		uses: func(s Server, t Thing) bool {
			return slices.ContainsFunc(s.Secrets(), func(id SecretID) bool { return id.String() == t.Reference })
		},
		lost:  words("the server was rebuilt since, or it is lost: rebuild it, or delete it"),
		proof: true,
	},
	{
		kind: ThingTrust, goneFirst: []ThingKind{ThingImage, ThingObject, ThingKeySecret, ThingShareAccess, ThingPort},
		removal:  func(name string) string { return "delete " + SecretUse(name) },
		server:   serverOfSecret,
		uses:     func(s Server, _ Thing) bool { return s.Delegates() },
		unlisted: true,
	},
}

// of gives the row of a kind; one that is not known has nothing but its name.
func of(k ThingKind) kind {
	if at := slices.IndexFunc(kinds, func(row kind) bool { return row.kind == k }); at >= 0 {
		return kinds[at]
	}
	return kind{kind: k}
}

// TeardownOrder lists the kinds in the order of their removal.
var TeardownOrder = func() []ThingKind {
	order := make([]ThingKind, len(kinds))
	for i, row := range kinds {
		order[i] = row.kind
	}
	return order
}()

// GoneFirst gives the kinds of which nothing may wait to be removed before a thing of the
// kind is removed: things of the same owner, at the same place or, where the thing is a
// cloud service's, anywhere.
func GoneFirst(k ThingKind) []ThingKind { return of(k).goneFirst }

// NamedByServer reports whether another operation uses the name of a thing of the kind again: of all others but the files
// of each boot (BootFiles), names derive from the operation that makes the thing.
func NamedByServer(k ThingKind) bool { return of(k).nameAgain }

// ComesLate reports whether a service may use a user's own thing of the kind for a server after it was removed from that: it carries
// out late what it was asked before. The audit looks for those, too.
func ComesLate(k ThingKind) bool { return of(k).comesLate }

func verb(does string) func(string) string  { return func(name string) string { return does + name } }
func words(text string) func(string) string { return func(string) string { return text } }

func before(name, sep string) string {
	head, _, _ := strings.Cut(name, sep)
	return head
}

func removalOfPort(name string) string {
	if id, server, err := ParsePortUse(name); err == nil {
		return "unbind port " + id.String() + " of server " + server.String()
	}
	return "delete port " + name
}

func lostFile(name string) string {
	_, file, _ := strings.Cut(name, "/")
	switch {
	case file == ConsoleLogFile, file == ConfigDriveFile:
		return "a hard reboot of the server makes it anew"
	case IsNVRAM(file):
		return "the server was rebuilt since, or its UEFI variables are lost, and its disks are not: docs/firmware.md says how it starts again"
	}
	return "the server was rebuilt since, or its disk is lost: rebuild it, or delete it"
}

func serverIn(text string) (ServerID, bool) {
	id, err := uuid.Parse(text)
	return ServerID{UUID: id}, err == nil && len(text) == len(id.String())
}

func serverOfShareUse(name string) (ServerID, bool) {
	_, server, err := ParseShareUse(name)
	return server, err == nil
}

func serverOfPortUse(name string) (ServerID, bool) {
	_, server, err := ParsePortUse(name)
	return server, err == nil
}

func serverOfSecret(name string) (ServerID, bool) {
	server, _, ok := SecretOwner(name)
	return server, ok
}

func serverOfObject(name string) (ServerID, bool) {
	for _, prefix := range []string{tpmObjectPrefix, tpmBackupPrefix, nvramObjectPrefix} {
		name = strings.TrimPrefix(name, prefix)
	}
	return serverIn(before(name, "/"))
}
