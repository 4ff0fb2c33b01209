package domain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// Start is the activity domain.Start. A domain that runs is left alone; a paused
// one is resumed. Whatever comes of it, also when ctx is cancelled, libvirt is
// left with no secret of the server (EE-36, TPM-11); should libvirtd not answer
// to that, the error is Unavailable and the next attempt, or ForgetSecrets, does it.
//
// Where the image under a disk may have changed, the domain is not started, and the result
// names the disk: to read all of an image is no short work (M5).
//
// Conflict: a suspended guest was to go on, and its memory is not there; Invalid: libvirt
// refuses the machine; Corrupt: a passphrase does not open its disk or TPM state, or a disk is
// not there; NotFound: no such network on this host; NoHost: QEMU does not run the machine
// here; otherwise as the key manager says.
func (a *Activities) Start(ctx context.Context, in StartInput) (PowerResult, error) {
	s := in.Server
	unlock, err := a.lock(ctx, s.ID)
	if err != nil {
		return PowerResult{}, err
	}
	defer unlock()
	if err := a.Devices.NoteBoot(ctx, s.ID, in.Began); err != nil {
		return PowerResult{}, err
	}
	state, err := a.Client.Power(ctx, s.ID)
	if err != nil {
		return PowerResult{}, err
	}
	switch state {
	case compute.PowerRunning:
	case compute.PowerPaused:
		err = a.resume(ctx, in)
	default:
		err = a.boot(ctx, in)
	}
	var images unchecked
	if errors.As(err, &images) {
		return PowerResult{PowerState: compute.PowerShutdown, Unchecked: images}, nil
	}
	if err != nil {
		return PowerResult{}, err
	}
	by := starter{in.Operation, in.Began}
	if in.Suspended { // its memory is used up: what is left of it is of a start that was cut off
		by.began = time.Time{}
		if err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error { return discardSaved(l, s.ID) }); err != nil {
			return PowerResult{}, err
		}
	}
	if err := a.mark(ctx, s.ID, by); err != nil {
		return PowerResult{}, err
	}
	if err := a.takeBack(ctx, s.ID, ids(loans(s, in.Keys))); err != nil {
		return PowerResult{}, err
	}
	state, err = a.Client.Power(ctx, s.ID)
	if err == nil && state != compute.PowerRunning && state != compute.PowerPaused {
		err = compute.Errorf(compute.NoHost, "server %s: its machine stopped as soon as it was started", s.ID)
	}
	return PowerResult{PowerState: state}, err
}

// resume resumes the domain. One that was being started when libvirtd was restarted
// shows as paused, until libvirtd gives it up: it is started.
func (a *Activities) resume(ctx context.Context, in StartInput) error {
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		return l.DomainResume(libvirt.Domain{UUID: libvirt.UUID(in.Server.ID.UUID)})
	})
	if !isCode(err, libvirt.ErrOperationInvalid) {
		return err
	}
	switch state, unknown := a.Client.Power(ctx, in.Server.ID); {
	case unknown != nil, state == compute.PowerRunning, state == compute.PowerPaused:
		return err
	}
	return a.boot(ctx, in)
}

// boot opens the disks that the host decrypts, and starts the domain. They are closed
// again where it does not start, and its keys forgotten.
func (a *Activities) boot(ctx context.Context, in StartInput) error {
	if err := a.checkSuspended(ctx, in); err != nil { // before keys are read for it: whoever asks may not have them
		return err
	}
	devices, err := a.Devices.OpenDevices(ctx, in.Keys.Disks, in.Server)
	if err != nil {
		return err
	}
	if err = a.bootOn(ctx, in, devices); err == nil {
		return nil
	}
	aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	var left error
	if len(devices) > 0 {
		left = a.Devices.CloseDevices(aside, in.Server.ID)
	}
	if left = errors.Join(left, a.forgetIfOff(aside, in.Server.ID)); left != nil {
		a.Logger.WarnContext(ctx, "disks of a server that did not start may be open, or its keys kept", "server", in.Server.ID, "error", left)
	}
	return err
}

// bootOn defines the domain and starts it with its secrets on loan.
func (a *Activities) bootOn(ctx context.Context, in StartInput, devices map[compute.DiskID]string) error {
	s := in.Server
	pool, err := a.Devices.PoolImages(ctx, s)
	if err != nil {
		return err
	}
	if err := a.checkDataFiles(s, pool); err != nil {
		return err
	}
	doc, err := a.document(ctx, in, devices, pool)
	if err != nil {
		return err
	}
	for _, m := range s.Shares {
		if err := a.checkMounted(ctx, s.ID, m.Share); err != nil {
			return err
		}
	}
	if err := trimConsole(filepath.Join(a.InstancesDir, s.ID.String(), consoleLog)); err != nil {
		return compute.Errorf(compute.Unavailable, "server %s: console log: %w", s.ID, err)
	}
	if err := a.makeScreenFolder(s.ID); err != nil {
		return compute.Errorf(compute.Unavailable, "server %s: its screen: %w", s.ID, err)
	}
	needs := loans(leaningOnNothing(s, pool), in.Keys)
	passphrases, err := a.read(ctx, needs)
	defer wipe(passphrases)
	if err != nil {
		return err
	}
	if err := a.makeNewTPM(ctx, in, needs, passphrases); err != nil {
		return err
	}
	if len(pool) > 0 {
		if err := a.lendCluster(ctx); err != nil {
			return err
		}
	}
	begin := time.Now()
	defer func() {
		if err := a.takeBack(ctx, s.ID, ids(needs)); err != nil {
			a.Logger.WarnContext(ctx, "libvirt may still know secrets of a server", "server", s.ID, "error", err)
		}
	}()
	err = a.Client.Finish(ctx, func(l *libvirt.Libvirt) error {
		if !in.Suspended { // else libvirt has the document that the guest runs with
			if _, err := l.DomainDefineXML(doc); err != nil {
				return err
			}
		}
		for i, n := range needs {
			if err := a.Client.lend(ctx, l, n, passphrases[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(pool) == 0 {
		a.keep(ctx, s, needs, passphrases) // before it runs: a worker that dies now has them kept
	}
	wipe(passphrases)
	if err != nil {
		return err
	}
	how := libvirt.DomainStartForceBoot // without the memory that it was suspended with, if it was
	if in.Suspended {
		how = libvirt.DomainNone
	}
	for attempt := 1; ; attempt++ {
		if err := a.checkSuspended(ctx, in); err != nil {
			return err
		}
		if s.TPM != nil && a.TPMs != nil {
			if err := a.TPMs.Check(ctx, s.ID, s.TPM.Version, in.NewTPM); err != nil {
				return err
			}
		}
		err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
			_, err := l.DomainCreateWithFlags(libvirt.Domain{UUID: libvirt.UUID(s.ID.UUID)}, uint32(how))
			return err
		})
		switch {
		case err == nil:
			a.Logger.InfoContext(ctx, "started domain", "server", s.ID, "secrets", len(needs), "after", time.Since(begin).Round(time.Millisecond))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isCode(err, libvirt.ErrOperationInvalid): // it runs: an attempt before was cut off while libvirt went on
			return nil
		case attempt == startAttempts, !isCode(err, libvirt.ErrInternalError), isFinal(err, attempt, in.NewTPM):
			return a.withoutFolders(s.Shares, startFailure(s.ID, err))
		case refused(err) == tpmClosed && attempt == tpmAttempts:
			if err := a.renewTPM(ctx, s.ID, doc); err != nil {
				return err
			}
			if err := a.makeAgain(ctx, in, needs); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(attempt) * time.Second):
		}
	}
}

// tpmAttempts is how often a start is tried that fails on the state of the TPM: the
// setup of a start that was cut off may still be at it.
const tpmAttempts = 3

// isFinal reports whether no other attempt can change a failure.
func isFinal(err error, attempt int, newTPM bool) bool {
	why := refused(err)
	if why == tpmClosed {
		return attempt >= tpmAttempts && !newTPM
	}
	return why != ""
}

// renewTPM defines a domain anew, without the state that its vTPM has.
func (a *Activities) renewTPM(ctx context.Context, server compute.ServerID, doc string) error {
	a.Logger.WarnContext(ctx, "the state of a new TPM was left half made, and is made anew", "server", server)
	return a.Client.Finish(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, server)
		if err == nil && found {
			err = gone(l.DomainUndefineFlags(dom, libvirt.DomainUndefineTpm|libvirt.DomainUndefineKeepNvram))
		}
		if err == nil {
			_, err = l.DomainDefineXML(doc)
		}
		return err
	})
}

// makeNewTPM makes the state of a new TPM, with the passphrase of its loan, or marks the state that the domain's first start is about to
// make.
func (a *Activities) makeNewTPM(ctx context.Context, in StartInput, needs []loan, passphrases []*secret.Passphrase) error {
	i := slices.IndexFunc(needs, func(n loan) bool { return n.usage == libvirt.SecretUsageTypeVtpm })
	if !in.NewTPM || a.TPMs == nil || i < 0 {
		return nil
	}
	of := compute.FreshTPM{Server: in.Server.ID, Version: in.Server.TPM.Version, Operation: in.Operation, Began: in.Began}
	return a.TPMs.Make(ctx, of, passphrases[i])
}

// makeAgain is makeNewTPM once the passphrases are wiped.
func (a *Activities) makeAgain(ctx context.Context, in StartInput, needs []loan) error {
	passphrases, err := a.read(ctx, needs)
	defer wipe(passphrases)
	if err != nil {
		return err
	}
	return a.makeNewTPM(ctx, in, needs, passphrases)
}

// startAttempts is how often, in some ten seconds, a start is tried that fails
// for no known reason: a busy host makes QEMU and swtpm late, and libvirt gives
// up on them.
const startAttempts = 5

// unchecked are the disks on whose images no domain may run before disk.CheckImage has looked
// at them.
type unchecked []compute.DiskID

func (u unchecked) Error() string {
	return fmt.Sprintf("the images of disks %v are not checked", []compute.DiskID(u))
}

// document gives the server's domain on this host, or fails with unchecked.
func (a *Activities) document(ctx context.Context, in StartInput, devices, pool map[compute.DiskID]string) (string, error) {
	s := in.Server
	h := Shape{
		Filter:    a.Filter,
		Operation: in.Operation,
		Began:     in.Began,
		VirtType:  a.VirtType,
		Machine:   a.firmware().MachineOf(s.MachineType()),
		Cache:     a.cache,
		Dir:       filepath.Join(a.InstancesDir, s.ID.String()),
		Socket:    a.socket(s.ID),
		Screen:    a.screen(s.ID),
		Devices:   devices,
		Pool:      pool,
		Ceph:      a.Ceph,
		Backing:   map[compute.DiskID]string{},
		Shares:    map[compute.ShareID]string{},
	}
	if compute.MachineFamily(h.Machine) == compute.MachineQ35 { // others have slots
		h.SparePorts = a.SparePorts
		if s.SharesMemory() {
			h.SparePorts += portsForShares
		}
	}
	for _, m := range s.Shares {
		if a.Shares == nil {
			return "", compute.Errorf(compute.Invalid, "server %s: this host has no shares", s.ID)
		}
		h.Shares[m.Share] = a.Shares.Path(m.Share)
	}
	var err error
	if h.UEFI, err = a.uefi(s); err != nil {
		return "", err
	}
	var toCheck unchecked
	for _, d := range s.Disks {
		if img := s.SourceOf(d); img != nil && !d.OnDevice() && pool[d.ID] == "" {
			path, ok, err := a.Images.CheckedImage(s.ProjectID, *img)
			if err != nil {
				return "", err
			}
			if h.Backing[d.ID] = path; !ok {
				toCheck = append(toCheck, d.ID)
			}
		}
	}
	if len(toCheck) > 0 {
		return "", toCheck
	}
	if h.Interfaces, err = a.plugs(ctx, s); err != nil {
		return "", err
	}
	return XML(s, h)
}

// plugs finds what the server's interfaces are plugged into.
func (a *Activities) plugs(ctx context.Context, s compute.Server) ([]Network, error) {
	var plugs []Network
	for _, n := range s.Networks {
		if n.Port != nil {
			if err := a.bridge(ctx, n); err != nil {
				return nil, compute.Errorf(kind(err), "server %s: network %s: %w", s.ID, n.UUID, err)
			}
			plugs = append(plugs, Network{Bridge: n.Port.Bridge})
			continue
		}
		if plug, ok := a.Networks[n.UUID]; ok {
			plugs = append(plugs, plug)
			continue
		}
		plug, err := a.Client.network(ctx, n.UUID)
		if err != nil {
			return nil, compute.Errorf(kind(err), "server %s: network %s: %w", s.ID, n.UUID, err)
		}
		plugs = append(plugs, plug)
	}
	return plugs, nil
}

// read reads the passphrases of loans, all at once. Those that were read must be
// wiped, also when it fails.
func (a *Activities) read(ctx context.Context, needs []loan) ([]*secret.Passphrase, error) {
	got := make([]*secret.Passphrase, len(needs))
	reading, ctx := errgroup.WithContext(ctx)
	for i, n := range needs {
		reading.Go(func() (err error) {
			got[i], err = a.Keys.Passphrase(ctx, n.cred, n.id)
			return err
		})
	}
	err := reading.Wait()
	return got, err
}

func wipe(all []*secret.Passphrase) {
	for _, p := range all {
		p.Wipe()
	}
}

func ids(all []loan) []compute.SecretID {
	var ids []compute.SecretID
	for _, n := range all {
		ids = append(ids, n.id)
	}
	return ids
}

// tpmClosed is what QEMU says when swtpm cannot take up its state: another swtpm has
// it, or it does not open with the passphrase, or is damaged.
const tpmClosed = "TPM result for CMD_INIT"

// refusals are texts of failures that no retry changes.
var refusals = []struct {
	text string
	kind compute.Kind
	why  string
}{
	{"Invalid password, cannot unlock any keyslot", compute.Corrupt, "a passphrase does not open its disk"},
	{tpmClosed, compute.Corrupt, "the state of the TPM is damaged, or its passphrase does not open it: put it back, or move it away and rebuild the server"},
	{"Cannot access storage file", compute.Corrupt, "a disk is missing"},
	{consoleLog + "': No such file or directory", compute.Corrupt, "its folder is missing"},
	{"Could not open backing file", compute.Corrupt, "the image under a disk is missing"},
	{"cannot set up guest memory", compute.NoHost, "the host has not enough memory"},
}

func refused(err error) string {
	for _, r := range refusals {
		if strings.Contains(err.Error(), r.text) {
			return r.text
		}
	}
	return ""
}

// startFailure gives a failed start its kind. What QEMU says by itself when it
// ends is libvirt's internal error: here it counts as the host's failure.
func startFailure(id compute.ServerID, err error) error {
	for _, r := range refusals {
		if strings.Contains(err.Error(), r.text) {
			return compute.Errorf(r.kind, "server %s: %s: %w", id, r.why, err)
		}
	}
	k := kind(err)
	switch {
	case isCode(err, libvirt.ErrInternalError):
		k = compute.NoHost
	case isCode(err, libvirt.ErrNoSecret): // somebody took it back under us
		k = compute.Unavailable
	}
	return compute.Errorf(k, "server %s: start of its machine: %w", id, err)
}
