package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"strongroom/activities/disk"
	"strongroom/activities/object"
	"strongroom/activities/share"
	"strongroom/compute"
	"strongroom/durable"
)

// world is everything that activities touch, in memory: the record, the key
// manager and the hosts. It does what the real ones promise, and fails on demand.
type world struct {
	mu sync.Mutex
	// The record.
	row        row
	operations map[compute.OperationID]*compute.Operation
	kind       compute.OperationKind // of all operations, "": their own
	tooLarge   string                // why no server's record goes through Temporal
	events     map[string]string     // by eventKey: "" while open, else the result
	claims     map[compute.OperationID]compute.HostID
	tpmOf      *compute.HostID // of the last claim
	waitsPeers bool            // a host that took no work has the state of the vTPM, and others have not
	ledger     map[compute.Sighting]compute.Thing
	released   []compute.Thing
	handedOver []compute.Thing
	down       map[compute.HostID]bool // hosts that are down, as the record says
	stale      map[compute.HostID]bool // hosts that have not reported themselves lately
	later      []uuid.UUID             // things that were tried since the janitor's last watch: their time has not come
	forced     map[compute.HostID]bool // hosts that were forced down: what waits for one holds no key back
	fencedOff  map[compute.HostID]bool // hosts that are down and fenced, as their operator says: servers may be evacuated
	backsUp    bool                    // the state of vTPMs is backed up
	imageGone  bool                    // the image store gives the image to nobody
	doomed     doomed
	delegated  string // the trust that the server's delegated credential stands for
	// The world proper.
	secrets map[string]compute.SecretID // by name
	used    []compute.SecretID          // those that images were made with because somebody named them
	files   map[string]bool             // "<host> <server>/<file>"
	drive   compute.DiskID              // the root disk whose secret opens the config drive
	domains map[string]compute.PowerState
	runs    compute.ImageID             // what the domain that was started last is made of
	booted  map[string]compute.DiskRole // what a machine last booted from, by its key in domains
	runsOn  map[string][]string         // the files that it runs from, by its key in domains
	// startedBy is the operation that a domain runs because of, by its key in domains.
	startedBy  map[string]compute.OperationID
	lent       map[string]bool   // libvirt's secrets: "<host> <uuid>"
	tpms       map[string]bool   // "<host> <server>"
	trusts     map[string]string // by name
	images     map[string]*storedImage
	objects    []string
	stored     map[string]string // what objects have, by name
	states     map[string]string // what TPM states are, by their key in tpms
	marks      map[string]mark   // of TPM states, by their key in tpms
	adopted    disk.AdoptInput   // the volumes of an import
	clock      time.Duration     // the database's: how much of it is gone
	began      map[compute.OperationID]time.Time
	exports    map[string]bool                         // "<host> <server>/<folder>"
	uses       map[string]bool                         // of encrypted images: "<host> <project>/<copy>/<server>.<file>"
	pool       bool                                    // hosts keep disks in a pool, where they are copies of their images
	expected   string                                  // the host from which a running server is expected
	encrypts   bool                                    // hosts encrypt the memory of guests that are suspended
	suspended  map[string]bool                         // guests whose memory is on disk, by their key in domains
	halted     map[string]bool                         // guests that were paused to go on elsewhere, by their key in domains
	lost       bool                                    // guests that leave do not come
	notThere   map[compute.HostID]bool                 // hosts that stop the guest when they come back: it was said that it does not run there
	unreadable bool                                    // whoever asks may read no key
	checked    map[compute.SecretID]compute.Credential // with which each key was looked at last
	private    bool                                    // the newest key that was made is its maker's alone
	unread     map[compute.SecretID]bool               // which keys whoever asks may not read
	keeps      []compute.KeyPart                       // which keys of guests that run hosts keep
	expectedBy compute.Keyring                         // with which the keys were read of the guest that was expected last
	madeWith   []compute.Credential                    // disks were made with, each once
	shown      map[string]compute.OperationID          // what is noted beside TPM states, by their key in tpms
	// sharedTPMs: all hosts have the TPM states on one storage; sayShared: they only say so.
	sharedTPMs, sayShared bool
	// sharedDisks: all hosts have servers' folders on one storage; saysSharedDisks: a claim says that they do.
	sharedDisks, saysSharedDisks bool
	backing                      string          // what the root disk's header names, where hosts share it
	disksOf                      *compute.HostID // of the last claim
	// refuses says whom the cloud's services refuse: nobody, unless a test says so.
	refuses       func(compute.Credential) bool
	offers        []compute.Credential // what passing requests offered
	owned         map[string]bool      // secrets and images that are their owner's, and no more ours
	slots         keySlots
	mounts        map[string]bool   // "<host> <share>/<server>"
	plugged       map[string]bool   // what a guest that runs has, as mounts
	shareProtocol share.Protocol    // of all shares; "": LOCAL
	access        map[string]bool   // "<share>/<server>"
	ports         map[string]string // where each is plugged, by its name on the ledger: "<host's name> <zone>"; "": nowhere
	portNames     map[compute.PortID]string
	prepared      map[string]map[string]bool // the hosts' names at which each has an inactive binding
	unpluggable   string                     // the name of a host that can plug none
	interfaces    map[string]bool            // ids of the ports that the domain has
	clings        bool                       // its guest gives no device up
	// plugWait is how long creates wait for their ports, plugOptional: they go on without; inactive is how often these are looked
	// at before they are active.
	plugWait     time.Duration
	plugOptional bool
	inactive     int
	portFailed   bool // the network service gave up the first of them
	stuck        bool // what is mounted cannot be unmounted
	holdsOn      bool // a guest that runs gives no share back
	audited      notes
	locks        map[string][]compute.SecretID // what is needed to open a file, TPM state or running domain, by its key

	nvram map[string]string // what the files with UEFI variables have, by their keys

	touched int // how often the image under a server changes before it is started

	broken []string // promises that were broken on the way

	hosts   []compute.HostID
	room    map[compute.HostID]int64              // the bytes that hosts have for disks, where that is little
	other   map[compute.HostID]bool               // hosts whose firmware has variables of another size
	formats map[compute.HostID]compute.DiskFormat // their default ones, where they say one
	calls   []call
	ids     map[string]int          // which call an activity id is
	plain   map[compute.HostID]bool // those that have no volume with their own state
	cut     map[string]bool         // the calls that were cancelled before they did anything
	fault   func(call) fault
	// repeats are local activities that run twice.
	repeats repeats
	// cancelRunning is what makes room for a delete.
	cancelRunning func(context.Context, compute.ServerID) error
}

// row is the server's row with what is beside it.
type row struct {
	server   compute.Server
	current  compute.OperationID
	fault    *compute.Fault
	deleted  bool
	launched bool
}

// call is one call of an activity. nth counts the calls of that name from 1;
// attempt the tries of one call.
type call struct {
	name    string
	nth     int
	attempt int
	local   bool
	detail  string // what it is about
}

func (c call) String() string { return fmt.Sprintf("%s#%d", c.name, c.nth) }

// fault is what happens to a call before it does its work and after. An error
// of before keeps it from doing anything.
type fault struct {
	before, after func() error
	block         func(context.Context) error // before, with the call's context
}

func newWorld(encrypted bool) *world {
	w := &world{
		operations: map[compute.OperationID]*compute.Operation{}, events: map[string]string{},
		claims: map[compute.OperationID]compute.HostID{}, down: map[compute.HostID]bool{}, stale: map[compute.HostID]bool{}, forced: map[compute.HostID]bool{}, fencedOff: map[compute.HostID]bool{}, shown: map[string]compute.OperationID{}, ledger: map[compute.Sighting]compute.Thing{},
		secrets: map[string]compute.SecretID{}, files: map[string]bool{}, domains: map[string]compute.PowerState{}, suspended: map[string]bool{},
		cancelRunning: func(context.Context, compute.ServerID) error { return nil },
		booted:        map[string]compute.DiskRole{},
		runsOn:        map[string][]string{},
		startedBy:     map[string]compute.OperationID{},
		lent:          map[string]bool{}, tpms: map[string]bool{}, ids: map[string]int{}, cut: map[string]bool{}, trusts: map[string]string{},
		images: map[string]*storedImage{}, exports: map[string]bool{}, uses: map[string]bool{}, owned: map[string]bool{},
		mounts: map[string]bool{}, plugged: map[string]bool{}, interfaces: map[string]bool{}, access: map[string]bool{}, ports: map[string]string{},
		portNames: map[compute.PortID]string{}, prepared: map[string]map[string]bool{},
		locks: map[string][]compute.SecretID{}, nvram: map[string]string{}, slots: keySlots{}, stored: map[string]string{}, states: map[string]string{},
		halted: map[string]bool{}, notThere: map[compute.HostID]bool{}, marks: map[string]mark{}, began: map[compute.OperationID]time.Time{},
		refuses: func(compute.Credential) bool { return false }, checked: map[compute.SecretID]compute.Credential{},
		hosts: []compute.HostID{{UUID: uuid.New()}, {UUID: uuid.New()}},
		room:  map[compute.HostID]int64{},
	}
	id := compute.ServerID{UUID: uuid.New()}
	w.row.server = compute.Server{
		ID: id, ProjectID: project, UserID: "u1", Name: "vm", Hostname: "vm", VMState: compute.VMBuilding, TaskState: compute.TaskScheduling,
		Flavor: compute.Flavor{ID: "1", Name: "small", VCPUs: 1, MemoryMB: 512, RootGB: 1, EphemeralGB: 1, SwapMB: 512},
		Image:  compute.Image{ID: compute.ImageID{UUID: uuid.New()}, Name: "guest", Status: "active", DiskFormat: "qcow2"},

		ConfigDrive: encrypted,
	}
	for i, role := range []compute.DiskRole{compute.RootDisk, compute.EphemeralDisk, compute.SwapDisk} {
		d := compute.Disk{
			ID: compute.DiskID{UUID: uuid.New()}, Role: role, DeviceName: "/dev/vd" + string(rune('a'+i)), Bus: "virtio", SizeMB: 512,
			BootIndex: -1, Encrypted: encrypted,
		}
		if encrypted {
			d.Format = compute.FormatLUKS
		}
		if role == compute.RootDisk {
			d.Image = &w.row.server.Image.ID
		}
		w.row.server.Disks = append(w.row.server.Disks, d)
	}
	if encrypted {
		w.row.server.TPM = &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser}
	}
	return w
}

const project = "11111111111111111111111111111111"

// accept does what the API does with a request: the operation's row, and the
// server handed to it.
func (w *world) accept(kind compute.OperationKind, task compute.TaskState, arguments any) durable.OperationInput {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(err)
	}
	op := &compute.Operation{
		ID: compute.NewOperationID(), ServerID: w.row.server.ID, Kind: kind, State: compute.OperationAccepted, Arguments: text,
		Credential: compute.Credential{ID: uuid.New(), ProjectID: project, UserID: "u1"}, AcceptedAt: time.Now(),
	}
	w.operations[op.ID] = op
	w.row.current, w.row.server.TaskState = op.ID, task
	return durable.OperationInput{Operation: op.ID, Server: w.row.server.ID}
}

// enter counts a call and gives what is to happen to it.
func (w *world) enter(ctx context.Context, name, detail string) fault {
	w.mu.Lock()
	info := activity.GetInfo(ctx)
	key := fmt.Sprint(info.WorkflowExecution.RunID, info.ActivityID, info.IsLocalActivity) // a server counts local ones for themselves
	if _, known := w.ids[key]; !known {
		w.ids[key] = 1 + w.count(name)
	}
	c := call{name: name, nth: w.ids[key], attempt: int(info.Attempt), local: info.IsLocalActivity, detail: detail}
	w.calls = append(w.calls, c)
	decide := w.fault
	w.mu.Unlock()
	if decide == nil {
		return fault{}
	}
	return decide(c)
}

func (w *world) count(name string) int {
	n := 0
	for _, c := range w.calls {
		if c.name == name && c.attempt == 1 {
			n++
		}
	}
	return n
}

// act makes an activity of what it does to the world.
func act[I, O any](w *world, name string, do func(ctx context.Context, in I) (O, error)) func(context.Context, I) (O, error) {
	return func(ctx context.Context, in I) (O, error) {
		var none O
		f := w.enter(ctx, nameOf(name, in), detailOf(in))
		if f.block != nil {
			if err := f.block(ctx); err != nil {
				return none, err
			}
		}
		if f.before != nil {
			if err := f.before(); err != nil {
				return none, brokenAt(name, err)
			}
		}
		w.mu.Lock()
		var out O
		err := context.Canceled
		info := activity.GetInfo(ctx)
		if !info.IsLocalActivity {
			w.workflowTask()
		}
		if !w.cut[info.WorkflowExecution.RunID+info.ActivityID] {
			out, err = do(ctx, in)
		}
		if info.IsLocalActivity {
			repeated(ctx, w, name, do, in, out, err)
		}
		w.mu.Unlock()
		if err == nil && f.after != nil {
			err = brokenAt(name, f.after())
		}
		if err != nil {
			return none, err
		}
		return out, nil
	}
}

// brokenAt is what breaks a call on purpose, as one that ends the operation: an object that is
// Corrupt is told from a call that fails.
func brokenAt(name string, err error) error {
	if errors.Is(err, errBroken) && name == object.Verify.Name {
		return compute.Errorf(compute.Forbidden, "%s", errBroken.Message)
	}
	return err
}

// nameOf names a removal by the kind of what is removed.
func nameOf(name string, in any) string {
	if r, ok := in.(compute.Removal); ok {
		return removal(r.Thing.Kind)
	}
	return name
}

// removal is the name of the calls that remove things of a kind.
func removal(kind compute.ThingKind) string { return "remove " + string(kind) }

func detailOf(in any) string {
	text, _ := json.Marshal(in)
	return string(text)
}

// made notes something that was made without a row on the ledger before it.
func (w *world) made(kind compute.ThingKind, place, name string) {
	if kind == compute.ThingDiskFile {
		place = w.diskPlace(place, name)
	}
	if _, known := w.ledger[compute.Sighting{Kind: kind, Place: place, Name: name}]; !known {
		w.broken = append(w.broken, fmt.Sprintf("%s %s was made with no row on the ledger", kind, name))
	}
}

// checkDependents notes that something went while disks, TPM state or a domain depended on
// it that do not wait to be removed.
func (w *world) checkDependents(what string) {
	here := slices.DeleteFunc(w.things(), func(s compute.Sighting) bool {
		kinds := []compute.ThingKind{compute.ThingDiskFile, compute.ThingTPMState, compute.ThingDomain}
		return w.ledger[s].State == compute.ThingWaiting || !slices.Contains(kinds, s.Kind)
	})
	if len(here) > 0 {
		w.broken = append(w.broken, what+" went before the disks, the TPM state and the domain")
	}
}

// unused notes that the host's copy of an image went while a disk depended on it.
func (w *world) unused(host, use string) {
	_, server, _ := strings.Cut(use[strings.LastIndex(use, "/"):], "/")
	server, file, _ := strings.Cut(server, ".")
	if w.files[host+" "+server+"/"+file] {
		w.broken = append(w.broken, "an image's copy went before the disk that depends on it")
	}
}

// givenUp reports whether something is on a host that was forced down.
func (w *world) givenUp(key string) bool {
	host, _, _ := strings.Cut(key, " ")
	id, err := uuid.Parse(host)
	return err == nil && w.forced[compute.HostID{UUID: id}]
}

// locked notes that a secret went while a disk, TPM state or domain that it opens
// was there.
func (w *world) locked(name string) {
	for key, opened := range w.locks {
		if !slices.Contains(opened, w.secrets[name]) || w.givenUp(key) {
			continue
		}
		if _, runs := w.domains[key]; w.files[key] || w.tpms[key] || runs {
			w.broken = append(w.broken, name+" went before what it opens: "+key)
		}
	}
}

// checkImage notes that an image's key went while the image, or the copy that was
// to become its data, still depended on it.
func (w *world) checkImage(name string) {
	for id := range w.images {
		if !w.owned[id] {
			w.broken = append(w.broken, "an image's key went before the image")
		}
	}
	op := compute.OperationID(name[strings.LastIndex(name, " ")+1:])
	for file := range w.exports {
		if strings.HasSuffix(file, "/"+compute.ExportFolder(op)) && !w.givenUp(file) {
			w.broken = append(w.broken, "an image's key went before the copy")
		}
	}
}

// things gives what is there as the audit would see it, libvirt's lent secrets
// included.
func (w *world) things() []compute.Sighting {
	var out []compute.Sighting
	onHost := func(kind compute.ThingKind, key string) {
		var host, name string
		_, _ = fmt.Sscan(key, &host, &name)
		out = append(out, compute.Sighting{Kind: kind, Place: host, Name: name})
	}
	for name := range w.secrets {
		if w.owned[name] {
			continue
		}
		out = append(out, compute.Sighting{Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: name})
	}
	for name := range w.trusts {
		out = append(out, compute.Sighting{Kind: compute.ThingTrust, Place: compute.PlaceIdentity, Name: name})
	}
	for id := range w.images {
		if !w.owned[id] {
			out = append(out, compute.Sighting{Kind: compute.ThingImage, Place: compute.PlaceImageStore, Name: id})
		}
	}
	for name := range w.stored {
		out = append(out, compute.Sighting{Kind: compute.ThingObject, Place: compute.PlaceObjects, Name: name})
	}
	for key := range w.exports {
		onHost(compute.ThingDiskFile, key)
	}
	for key := range w.mounts {
		onHost(compute.ThingShareMount, key)
	}
	for name := range w.access {
		out = append(out, compute.Sighting{Kind: compute.ThingShareAccess, Place: compute.PlaceShares, Name: name})
	}
	for name := range w.ports {
		out = append(out, compute.Sighting{Kind: compute.ThingPort, Place: compute.PlaceNetworks, Name: name})
	}
	for key := range w.uses {
		onHost(compute.ThingCachedImage, key)
	}
	for key := range w.files {
		host, name, _ := strings.Cut(key, " ")
		onHost(compute.ThingDiskFile, w.diskPlace(host, name)+" "+name)
	}
	for key := range w.domains {
		onHost(compute.ThingDomain, key)
	}
	for key := range w.lent {
		onHost(compute.ThingHypervisorSecret, key)
	}
	for key := range w.tpms {
		host, name, _ := strings.Cut(key, " ")
		onHost(compute.ThingTPMState, w.tpmPlace(host, name)+" "+name)
	}
	return out
}

// audit compares the ledger with what exists; no finding: all is well.
func (w *world) audit() []compute.Finding {
	var rows []compute.LedgerEntry
	looked := map[string]bool{compute.PlaceKeyManager: true, compute.PlaceIdentity: true, compute.PlaceImageStore: true, compute.PlaceObjects: true, compute.PlaceShares: true, compute.PlaceNetworks: true}
	for _, h := range w.hosts {
		looked[h.String()] = true
	}
	for _, t := range w.ledger {
		rows = append(rows, compute.LedgerEntry{Thing: t, OwnerDeleted: w.row.deleted})
	}
	return compareLedger(rows, w.things(), looked)
}

// names lists the calls made so far, without repetition of attempts.
func (w *world) names() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(c call) bool { return c.attempt > 1 })
}

// forget empties the list of calls, for what comes next.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.ids, w.fault = nil, map[string]int{}, nil
}

// snapshot is the server's row as text.
func (r row) snapshot() string {
	return fmt.Sprint(detailOf(r.server), r.current, detailOf(r.fault), r.deleted, r.launched)
}

func (w *world) power() []compute.PowerState { return slices.Collect(maps.Values(w.domains)) }

func consoleLog(server compute.ServerID) string { return server.String() + "/" + disk.ConsoleLog }
