package domain

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// ExpectInput asks a host to expect a running server from another one. Its disks are there, empty.
type ExpectInput struct {
	Keys      compute.Keyring     `json:"keys"`
	Server    compute.Server      `json:"server"`
	Operation compute.OperationID `json:"operation"`
	Began     time.Time           `json:"began,omitzero"` // when the operation did (compute.Thing.WaitedBefore)
	From      compute.HostID      `json:"from"`
}

// ExpectResult names the disks whose images must be checked before (domain.Start).
type ExpectResult struct {
	Unchecked []compute.DiskID `json:"unchecked,omitempty"`
}

// ArrivedInput asks whether a server that was expected has arrived. Nothing is expected from
// then on.
type ArrivedInput struct {
	Server compute.Server  `json:"server"`
	Keys   compute.Keyring `json:"keys"`
}

// ArrivedResult says whether it has. If not, there is no domain of it here, and none will run.
type ArrivedResult struct {
	Arrived    bool               `json:"arrived"`
	PowerState compute.PowerState `json:"power_state"`
}

// arrivals are the servers that this host expects. A worker that ends expects none, and libvirt
// then ends what was prepared for one: it is told to with the connection.
type arrivals struct {
	mu  sync.Mutex
	all map[compute.ServerID]*arrival
}

// arrival is a running server that is about to come to this host.
type arrival struct {
	ExpectInput
	l        *libvirt.Libvirt // nil until a QEMU waits
	hangUp   func()
	flags    libvirt.DomainMigrateFlags
	doc      string // of the domain, as it is defined once the guest runs
	finished *Outcome
	unknown  error // why nobody knows how it ended; domain.Arrived finds out

	keys   []*secret.Passphrase // of loans, until a QEMU has them
	forget *time.Timer
}

// keysKept is how long a host keeps the passphrases of a server that does not come.
const keysKept = 15 * time.Minute

func (a *arrivals) put(n *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[compute.ServerID]*arrival{}
	}
	a.all[n.Server.ID] = n
}

func (a *arrivals) take(id compute.ServerID) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[id]
	delete(a.all, id)
	return got
}

// of finds what a host may speak of: a server that an operation moves from it to this one.
func (a *arrivals) of(of compute.Arrival, from compute.HostID) (*arrival, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.all[of.Server]; got != nil && got.Operation == of.Operation && got.From == from {
		return got, nil
	}
	return nil, compute.Errorf(compute.Forbidden, "no server %s is expected from host %s by an operation %q", of.Server, from, of.Operation)
}

// keep keeps the passphrases for a while.
func (a *arrivals) keep(n *arrival, keys []*secret.Passphrase) {
	n.keys = keys
	n.forget = time.AfterFunc(keysKept, func() { wipe(a.takeKeys(n)) })
}

// takeKeys gives what is kept of them, to be wiped.
func (a *arrivals) takeKeys(n *arrival) []*secret.Passphrase {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.forget != nil {
		n.forget.Stop()
	}
	keys := n.keys
	n.keys = nil
	return keys
}

// dismiss expects a server no longer.
func (a *arrivals) dismiss(id compute.ServerID) {
	if n := a.take(id); n != nil {
		wipe(a.takeKeys(n))
		n.end()
	}
}

// isOfAnother reports whether a server is expected by another operation than this one.
func (a *arrivals) isOfAnother(id compute.ServerID, op compute.OperationID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.all[id]
	return n != nil && n.Operation != op
}

// end leaves no QEMU that waits for the guest. One that runs goes on.
func (n *arrival) end() {
	if n.l != nil {
		n.hangUp()
		n.l = nil
	}
}

// Expect is the activity domain.Expect: from then on the host lets another one move the server
// here, until domain.Arrived is asked. It has the passphrases by then, in memory, until a QEMU has them.
// Conflict: it has a domain of the server, or a Ceph pool; otherwise as the key manager says.
func (a *Activities) Expect(ctx context.Context, in ExpectInput) (ExpectResult, error) {
	unlock, err := a.lock(ctx, in.Server.ID)
	if err != nil {
		return ExpectResult{}, err
	}
	defer unlock()
	if err := a.Devices.NoteBoot(ctx, in.Server.ID, in.Began); err != nil {
		return ExpectResult{}, err
	}
	switch pool, err := a.Devices.PoolImages(ctx, in.Server); {
	case err != nil:
		return ExpectResult{}, err
	case len(pool) > 0:
		return ExpectResult{}, compute.Errorf(compute.Conflict, "server %s: disks in a Ceph pool do not move with a running guest", in.Server.ID)
	}
	_, err = a.document(ctx, a.startOf(in), nil, nil)
	var images unchecked
	switch {
	case errors.As(err, &images):
		return ExpectResult{Unchecked: images}, nil
	case err != nil:
		return ExpectResult{}, err
	}
	a.arrivals.dismiss(in.Server.ID)
	switch state, err := a.Client.Power(ctx, in.Server.ID); {
	case err != nil:
		return ExpectResult{}, err
	case state != compute.PowerNone:
		return ExpectResult{}, compute.Errorf(compute.Conflict, "server %s: this host has a machine of it already", in.Server.ID)
	}
	passphrases, err := a.read(ctx, loans(in.Server, in.Keys))
	if err != nil {
		wipe(passphrases)
		return ExpectResult{}, err
	}
	n := &arrival{ExpectInput: in}
	a.arrivals.keep(n, passphrases)
	a.arrivals.put(n)
	return ExpectResult{}, nil
}

func (a *Activities) startOf(in ExpectInput) StartInput {
	return StartInput{Keys: in.Keys, Server: in.Server, Operation: in.Operation, Began: in.Began}
}

// PrepareArrival starts a QEMU that waits for a guest, for the host that it comes from. What that
// says of the domain is believed as far as the guest itself can see it (adopt).
func (a *Activities) PrepareArrival(ctx context.Context, of compute.Arrival, from compute.HostID, say Leaving) ([]byte, error) {
	n, err := a.arrivals.of(of, from)
	if err != nil {
		return nil, err
	}
	unlock, err := a.lock(ctx, of.Server)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if now, err := a.arrivals.of(of, from); err != nil || now != n { // nobody expects it any more
		return nil, cmp.Or(err, error(compute.Errorf(compute.Conflict, "server %s: it is expected anew", of.Server)))
	}
	if n.l != nil || n.finished != nil {
		return nil, compute.Errorf(compute.Conflict, "server %s: it was prepared for before", of.Server)
	}
	got, err := a.prepareArrival(context.WithoutCancel(ctx), n, say)
	if err != nil {
		n.end()
		_ = a.removeMoveFolder(of.Server)
		return nil, startFailure(of.Server, err)
	}
	return got, nil
}

func (a *Activities) prepareArrival(ctx context.Context, n *arrival, say Leaving) ([]byte, error) {
	in := a.startOf(n.ExpectInput)
	own, err := a.document(ctx, in, nil, nil)
	if err != nil {
		return nil, err
	}
	if n.doc, err = adopt(own, say.Document); err != nil {
		return nil, err
	}
	n.flags = migrationFlags
	if say.Paused {
		n.flags |= libvirt.MigratePaused
	}
	if in.Server.TPM != nil && a.TPMs != nil {
		if err := a.TPMs.NoteNew(ctx, in.Server.ID, in.Operation, in.Began); err != nil {
			return nil, err
		}
	}
	dir, err := a.makeArrivalFolder(in.Server.ID)
	if err == nil {
		err = a.makeScreenFolder(in.Server.ID)
	}
	if err != nil {
		return nil, err
	}
	needs, passphrases := loans(in.Server, in.Keys), a.arrivals.takeKeys(n)
	defer wipe(passphrases)
	if len(passphrases) != len(needs) {
		return nil, compute.Errorf(compute.Conflict, "its passphrases were kept for too long")
	}
	if n.l, n.hangUp, err = a.Client.hold(ctx); err != nil {
		return nil, err
	}
	defer time.AfterFunc(callPatience, n.hangUp).Stop()
	defer func() {
		if err := a.takeBack(ctx, in.Server.ID, ids(needs)); err != nil {
			a.Logger.WarnContext(ctx, "libvirt may still know secrets of a server", "server", in.Server.ID, "error", err)
		}
	}()
	for i, need := range needs {
		if err := a.Client.lend(ctx, n.l, need, passphrases[i]); err != nil {
			return nil, err
		}
	}
	a.keep(ctx, in.Server, needs, passphrases)
	wipe(passphrases)
	params := append(moveParams(dir), text("destination_xml", n.doc), text("destination_name", in.Server.InstanceName()))
	for attempt := 1; ; attempt++ { // as a start is tried again
		got, _, err := n.l.DomainMigratePrepare3Params(params, say.Cookie, uint32(n.flags))
		if err == nil || attempt == startAttempts || !isCode(err, libvirt.ErrInternalError) || isFinal(err, attempt, false) {
			return got, err
		}
		a.Logger.WarnContext(ctx, "a machine that is to wait for a guest is started again", "server", in.Server.ID, "error", err)
		time.Sleep(time.Duration(attempt) * time.Second)
	}
}

// OpenArrival connects to a socket of the QEMU that waits for a guest. Forbidden: none waits for one from that host; Corrupt: something else is in
// the socket's place; Unavailable: QEMU does not listen.
func (a *Activities) OpenArrival(ctx context.Context, of compute.Arrival, from compute.HostID, stream string) (Stream, error) {
	if _, err := a.arrivals.of(of, from); err != nil {
		return nil, err
	}
	path, ok := sockets(a.moveFolder(of.Server))[stream]
	if !ok {
		return nil, compute.Errorf(compute.Invalid, "there is no stream %q", stream)
	}
	conn, err := a.dialQEMU(ctx, of.Server, path)
	if err != nil {
		return nil, compute.Errorf(cmp.Or(compute.KindOf(err), compute.Unavailable), "server %s: no QEMU that waits: %w", of.Server, err)
	}
	return conn, nil
}

// FinishArrival has the guest run here, or given up, ends the QEMU that waits for it. Once it has
// answered it gives the same answer.
func (a *Activities) FinishArrival(ctx context.Context, of compute.Arrival, from compute.HostID, cookie []byte, givenUp bool) (Outcome, error) {
	n, err := a.arrivals.of(of, from)
	if err != nil {
		return Outcome{}, err
	}
	ctx = context.WithoutCancel(ctx)
	unlock, err := a.lock(ctx, of.Server)
	if err != nil {
		return Outcome{}, err
	}
	defer unlock()
	if n.finished != nil {
		return *n.finished, nil
	}
	if _, err := a.arrivals.of(of, from); err != nil { // domain.Arrived came first
		return Outcome{}, err
	}
	if n.unknown != nil {
		return Outcome{}, n.unknown
	}
	out, err := a.finishArrival(ctx, n, cookie, givenUp)
	n.end()
	if err != nil {
		n.unknown = err
		return Outcome{}, err
	}
	_ = a.removeMoveFolder(of.Server)
	n.finished = &out
	return out, nil
}

// finishArrival ends what was prepared. An error leaves open whether the guest runs.
func (a *Activities) finishArrival(ctx context.Context, n *arrival, cookie []byte, givenUp bool) (out Outcome, err error) {
	if n.l == nil {
		return out, nil
	}
	var cancelled int32
	if givenUp {
		cancelled = 1
	}
	defer time.AfterFunc(callPatience, n.hangUp).Stop()
	params := []libvirt.TypedParam{text("destination_name", n.Server.InstanceName())}
	_, out.Cookie, err = n.l.DomainMigrateFinish3Params(params, cookie, uint32(n.flags), cancelled)
	var said libvirt.Error
	switch {
	case givenUp:
		return out, nil
	case errors.As(err, &said):
		a.Logger.WarnContext(ctx, "a guest did not come", "server", n.Server.ID, "error", err)
		return out, nil
	case err != nil: // libvirt did not get to say it: the host that it leaves must not run it again
		return out, compute.Errorf(compute.Conflict, "server %s: whether it runs is not known: %w", n.Server.ID, err)
	}
	out.Runs = true
	if _, err := n.l.DomainDefineXML(n.doc); err != nil { // domain.Arrived does it again
		a.Logger.WarnContext(ctx, "the domain of a server that has come is not defined", "server", n.Server.ID, "error", err)
	}
	return out, nil
}

// unexpect leaves nothing of what was prepared for a server that an operation was to bring here:
// it did not leave.
func (a *Activities) unexpect(id compute.ServerID, op compute.OperationID) error {
	if a.arrivals.isOfAnother(id, op) {
		return nil
	}
	a.arrivals.dismiss(id)
	if err := a.removeMoveFolder(id); err != nil {
		return compute.Errorf(compute.Unavailable, "server %s: %w", id, err)
	}
	return nil
}

// Arrived is the activity domain.Arrived: it tells whether a server that was expected runs here, or
// is paused as it was. If not, it never will: nothing is left of what was prepared.
func (a *Activities) Arrived(ctx context.Context, in ArrivedInput) (out ArrivedResult, err error) {
	unlock, err := a.lock(ctx, in.Server.ID)
	if err != nil {
		return out, err
	}
	defer unlock()
	a.arrivals.dismiss(in.Server.ID)
	if err := a.removeMoveFolder(in.Server.ID); err != nil {
		return out, compute.Errorf(compute.Unavailable, "server %s: %w", in.Server.ID, err)
	}
	if err := a.takeBack(ctx, in.Server.ID, ids(loans(in.Server, in.Keys))); err != nil {
		return out, err
	}
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, in.Server.ID)
		if err != nil || !found {
			return err
		}
		state, reason, err := l.DomainGetState(dom, 0)
		if err != nil {
			return gone(err)
		}
		waits := libvirt.DomainState(state) == libvirt.DomainPaused &&
			(libvirt.DomainPausedReason(reason) == libvirt.DomainPausedMigration || libvirt.DomainPausedReason(reason) == libvirt.DomainPausedStartingUp)
		if out.Arrived = !waits; waits {
			return nil
		}
		if out.PowerState, err = power(l, dom); err != nil {
			return gone(err)
		}
		return persist(l, dom)
	})
	if err != nil || out.Arrived {
		return out, err
	}
	return out, a.undefine(ctx, in.Server.ID) // and keeps none of its keys
}

// persist defines a domain that runs, as it runs.
func persist(l *libvirt.Libvirt, dom libvirt.Domain) error {
	if persistent, err := l.DomainIsPersistent(dom); err != nil || persistent != 0 {
		return gone(err)
	}
	doc, err := l.DomainGetXMLDesc(dom, libvirt.DomainXMLSecure|libvirt.DomainXMLMigratable)
	if err != nil {
		return gone(err)
	}
	_, err = l.DomainDefineXML(doc)
	return err
}

// adopt gives the domain's document, which is this host's, with the machine type that the guest has
// on the host that it comes from. What it has seen of its processor is in libvirt's cookie; where
// its devices are stays so, for QEMU refuses a guest that has them elsewhere.
// Nothing that names something of this host is taken from there.
func adopt(own, theirs string) (string, error) {
	var is, was libvirtxml.Domain
	if err := is.Unmarshal(own); err != nil {
		return "", err
	}
	if err := was.Unmarshal(theirs); err != nil {
		return "", compute.Errorf(compute.Invalid, "what the other host says of the machine cannot be read")
	}
	if isSecure(is) != isSecure(was) { // QEMU would refuse what comes, without saying why
		return "", compute.Errorf(compute.Conflict, "its firmware has Secure Boot on one host and not on the other: it is optional for the server, and does not change while it runs")
	}
	if was.OS != nil && was.OS.Type != nil && machineType(was.OS.Type.Machine) {
		is.OS.Type.Machine = was.OS.Type.Machine
	}
	if was.OS == nil || was.OS.SMBios == nil { // it runs since before strongroom said what it is (addSMBIOS)
		is.OS.SMBios, is.SysInfo = nil, nil
	}
	adoptPlaces(is.Devices, was.Devices)
	return is.Marshal()
}

func machineType(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return name != ""
}
