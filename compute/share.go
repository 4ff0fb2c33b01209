package compute

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/google/uuid"
)

// ShareID names a share of the shared file systems service (Manila).
type ShareID struct{ uuid.UUID }

// The kinds of an attachment of a share and of its end, by Nova's names of them.
const (
	OpShareAttach OperationKind = "share_attach"
	OpShareDetach OperationKind = "share_detach"
)

// ShareAttach lets a server that is off have a share from its next start on (SH-03, SH-04), and one that
// runs from now on.
var ShareAttach = declare(Action[ShareArguments]{Facts: Facts{
	Kind: OpShareAttach, Word: "create share",
	ReadsNoKey:    true,
	Transition:    Transition{Task: TaskAttachingShare, From: []VMState{VMStopped}},
	Notifications: notifications("share_attach"),
}, Variant: func(in ShareArguments) Transition { return in.whileItRuns(TaskAttachingShare, VMStopped) }})

// ShareDetach takes a share from a server that is off, or in ERROR (SH-16), or from a guest that runs.
var ShareDetach = declare(Action[ShareArguments]{Facts: Facts{
	Kind: OpShareDetach, Word: "delete share",
	ReadsNoKey:    true,
	Transition:    Transition{Task: TaskDetachingShare, From: []VMState{VMStopped, VMError}},
	Notifications: notifications("share_detach"),
}, Variant: func(in ShareArguments) Transition { return in.whileItRuns(TaskDetachingShare, VMStopped, VMError) }})

// ShareArguments are the arguments of an attachment and of its end. Where the share is
// exported stands nowhere in them (SH-25).
type ShareArguments struct {
	Share ShareID `json:"share_id"`
	// Address is the host's, which an export by address lets in. Of an end it is empty.
	Address string `json:"address,omitempty"`
	// Live: the server runs, and its guest is given the share, or gives it back, at once.
	Live bool `json:"live,omitempty"`
}

func (in ShareArguments) whileItRuns(task TaskState, off ...VMState) Transition {
	if in.Live {
		off = []VMState{VMActive}
	}
	return Transition{Task: task, From: off}
}

// ShareMapping is a share that a server has (SH-27). Where the share is exported is in its
// row, sealed.
type ShareMapping struct {
	ID       uuid.UUID   `json:"id"` // of the attachment
	Share    ShareID     `json:"share_id"`
	Status   ShareStatus `json:"status"`
	Tag      string      `json:"tag"` // by which the guest mounts it
	Protocol string      `json:"share_proto"`
	// Address is the host's, which a share of NFS lets in. Of others it is empty.
	Address string `json:"address,omitempty"`
}

// HasRule reports whether the storage lets the host in by a rule that its owner may have taken away.
func (m ShareMapping) HasRule() bool { return m.Protocol != LocalShare }

// The protocols of the shares that hosts mount (SH-18).
const (
	LocalShare  = "LOCAL" // a folder of the host itself
	CephFSShare = "CEPHFS"
	NFSShare    = "NFS" // 4.1 or newer
)

// ShareStatus is how far a share is with its server.
type ShareStatus string

// The five statuses (SH-27).
const (
	ShareAttaching ShareStatus = "attaching"
	ShareInactive  ShareStatus = "inactive" // the server is off
	ShareActive    ShareStatus = "active"   // mounted on the host, for a server that runs
	ShareError     ShareStatus = "error"
	ShareDetaching ShareStatus = "detaching"
)

// ShareEvent is what becomes of a share.
type ShareEvent string

// The events of the status chart.
const (
	ShareGranted    ShareEvent = "granted"     // the host may mount it
	ShareAdded      ShareEvent = "added"       // and the guest that runs has it
	ShareRefused    ShareEvent = "refused"     // the host may not
	ShareMounted    ShareEvent = "mounted"     // and its server runs
	ShareNotMounted ShareEvent = "not mounted" // the mount failed
	ShareUnmounted  ShareEvent = "unmounted"
	ShareStuck      ShareEvent = "stuck"        // the mount could not be ended
	ShareUnwanted   ShareEvent = "unwanted"     // its owner detaches it
	ShareKept       ShareEvent = "not detached" // the detach failed
	ShareTaken      ShareEvent = "taken away"   // it, or the host's access to it, is not there any more
)

// shareChart is the status chart of the shares document. An event that says what is so
// already changes nothing. A share is detached whatever its status is: one that an
// administrator's reset of the server's state cut off is attaching, or detaching, until its operation is undone.
var shareChart = map[ShareEvent]map[ShareStatus]ShareStatus{
	ShareGranted:    {ShareAttaching: ShareInactive},
	ShareAdded:      {ShareAttaching: ShareActive}, // beyond the document
	ShareRefused:    {ShareAttaching: ShareError},
	ShareMounted:    {ShareInactive: ShareActive, ShareError: ShareActive},
	ShareNotMounted: {ShareInactive: ShareError, ShareActive: ShareError},
	ShareUnmounted:  {ShareActive: ShareInactive},
	ShareStuck:      {ShareActive: ShareError, ShareInactive: ShareError},
	ShareUnwanted:   {ShareAttaching: ShareDetaching, ShareInactive: ShareDetaching, ShareActive: ShareDetaching, ShareError: ShareDetaching},
	ShareKept:       {ShareDetaching: ShareError},
	ShareTaken:      {ShareActive: ShareError, ShareInactive: ShareError}, // what a stop or a start would find
}

// After gives the status after an event.
func (s ShareStatus) After(e ShareEvent) ShareStatus {
	if next, ok := shareChart[e][s]; ok {
		return next
	}
	return s
}

// CheckMountable refuses to start a server with a share that attaches or detaches (SH-13).
// A share in error is mounted again (SH-33).
func (m ShareMapping) CheckMountable() error {
	if m.Status == ShareAttaching || m.Status == ShareDetaching {
		return Errorf(Conflict, "Share %s is in '%s' instead of 'inactive' status: wait until that is done, or detach it, before the server is started.", m.Share, m.Status)
	}
	return nil
}

// ShareLoss is why a share that a server had is in error, though no operation failed for it.
type ShareLoss string

// What can be taken away (SH-09).
const (
	ShareGone          ShareLoss = "the share is not there any more"
	ShareAccessGone    ShareLoss = "the access rule of its host is not there any more"
	ShareAccessRefused ShareLoss = "the storage does not obey the access rule of its host any more"
)

// HeldShares is what an operator is to look at when too many shares are missed at once.
const HeldShares = "it is missed with many others at once: is shares.endpoint the right Manila, has its database all shares, " +
	"and does strongroom's role in the projects, or who else looks, still see them?"

// Message says it of a server's share.
func (l ShareLoss) Message(share ShareID, server ServerID) string {
	return fmt.Sprintf("Share %s of server %s: %s.", share, server, l)
}

// The traits of a host whose servers can have shares.
const (
	TraitVirtioFS   = "COMPUTE_STORAGE_VIRTIO_FS"
	TraitMemoryFile = "COMPUTE_MEM_BACKING_FILE"
	TraitNFSShares  = "CUSTOM_STRONGROOM_SHARES_NFS"  // its kernel mounts NFS, and it has an address for that
	TraitLiveShares = "CUSTOM_STRONGROOM_SHARES_LIVE" // it gives shares to guests that run, too
)

// CheckShareProtocol refuses a share that a host with these traits does not mount (SH-18).
func CheckShareProtocol(protocol string, traits []string) error {
	if protocol != NFSShare || slices.Contains(traits, TraitNFSShares) {
		return nil
	}
	return Errorf(Conflict, "Share protocol %s is not supported.", protocol)
}

// CheckSharesOn refuses a server that can have no share on a host with these traits (SH-05):
// virtiofs needs the guest's memory to be shared with the program that serves the files.
func (s Server) CheckSharesOn(traits []string) error {
	_, huge := s.HugePages()
	if slices.Contains(traits, TraitVirtioFS) && (slices.Contains(traits, TraitMemoryFile) || huge) {
		return nil
	}
	return Errorf(Conflict, "Feature not supported because either compute or instance are not configured correctly.")
}

// TakesSharesLive reports whether the server's flavor or image requires a host that gives shares to guests that run:
// then the memory of its guest can be shared from its start on.
func (s Server) TakesSharesLive() bool {
	traits, err := TraitsOf(s.Flavor, s.Image, Encryption{}, nil)
	return err == nil && slices.Contains(traits.Required, TraitLiveShares)
}

// SharesMemory reports whether a guest of the server that is started now has memory that other programs can share.
func (s Server) SharesMemory() bool { return len(s.Shares) > 0 || s.TakesSharesLive() }

// CanShareLive reports whether a share may be given to the server's guest while that runs, on a host with these
// traits: its memory must be shared already, as that of a guest is which runs with a share.
func (s Server) CanShareLive(traits []string) bool {
	runsWithOne := slices.ContainsFunc(s.Shares, func(m ShareMapping) bool { return m.Status == ShareActive })
	return slices.Contains(traits, TraitLiveShares) && (runsWithOne || s.TakesSharesLive())
}

// CanDetachLive reports whether the server's guest may be asked for a share while it runs, on a host with these traits.
func (s Server) CanDetachLive(traits []string) bool { return slices.Contains(traits, TraitLiveShares) }

// CheckHasNoShares refuses what cannot be done with a server that has shares (SH-22).
func CheckHasNoShares(shares int) error {
	if shares == 0 {
		return nil
	}
	return Errorf(Conflict, "Feature not supported with instances that have shares.")
}

// MostShares is how many shares a server may have: more than a guest has addresses for devices, and so few that what a server has goes through Temporal (K15).
const MostShares = 64

// longestShareTag is what QEMU's virtiofs device takes. The documents allow more.
const longestShareTag = 36

var shareTag = regexp.MustCompile(`\A[a-zA-Z0-9-]+\z`)

// CheckShareTag refuses, with Invalid, a tag that no guest could mount by (SH-06).
func CheckShareTag(tag string) error {
	switch {
	case !shareTag.MatchString(tag):
		return Errorf(Invalid, "A share's tag has letters, digits and '-' only.")
	case len(tag) > longestShareTag:
		return Errorf(Invalid, "The tag '%s' has %d characters: virtiofs takes %d at most.", tag, len(tag), longestShareTag)
	}
	return nil
}

// ShareUse names what a server has of a share: its use of the host's mount, and its part
// in the access rule.
func ShareUse(share ShareID, server ServerID) string { return share.String() + "/" + server.String() }

// ParseShareUse reads a name that ShareUse gave.
func ParseShareUse(name string) (share ShareID, server ServerID, err error) {
	const length = len("00000000-0000-0000-0000-000000000000")
	if len(name) == 2*length+1 && name[length] == '/' {
		one, badShare := uuid.Parse(name[:length])
		two, badServer := uuid.Parse(name[length+1:])
		share, server = ShareID{one}, ServerID{two}
		if badShare == nil && badServer == nil && name == ShareUse(share, server) {
			return share, server, nil
		}
	}
	return ShareID{}, ServerID{}, Errorf(Invalid, "%q is no server's use of a share", name)
}

// shareUses lists the ledger's names of what a server has of its shares.
func (s Server) shareUses() []string {
	var out []string
	for _, m := range s.Shares {
		out = append(out, ShareUse(m.Share, s.ID))
	}
	return out
}
