package domain

import (
	"context"
	"errors"
	"slices"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// KeptKeys keeps the passphrases of guests that run, in memory that a restart of the worker does not
// lose: a host to which such a guest goes can have them of this one, whoever asks for the move
// (TPM-20). What is kept goes with the guest's end. It has no row of the ledger of its own: those of the
// domain are written before it, and whoever stops or removes that domain forgets its keys.
type KeptKeys interface {
	Keep(server compute.ServerID, part compute.KeyPart, id compute.SecretID, p *secret.Passphrase) error
	// Forget ensures that nothing of a server is kept.
	Forget(server compute.ServerID) error
	// Kept gives the secrets of each server of which some are kept.
	Kept() (map[compute.ServerID][]compute.SecretID, error)
}

// KeepsInput asks whether a host keeps keys of a server's guest.
type KeepsInput struct {
	Server  compute.ServerID   `json:"server"`
	Part    compute.KeyPart    `json:"part"`
	Secrets []compute.SecretID `json:"secrets"` // all of that part
}

// Keeps is the activity domain.Keeps: it ensures that this host keeps a part of the keys of a server's guest, and that another one can have
// them of it. compute.NotKept: it does not, or not all of them.
func (a *Activities) Keeps(ctx context.Context, in KeepsInput) error {
	kept, err := a.KeptOf(ctx, in.Server)
	if err != nil {
		return err
	}
	for _, id := range in.Secrets {
		if !slices.Contains(kept, id) {
			return compute.NotKept(in.Server, in.Part, id)
		}
	}
	return nil
}

// KeptOf gives the secrets of a server that this host keeps, but for those of which another host could not tell whether this one hands on the right
// value: it would take none (H1).
func (a *Activities) KeptOf(ctx context.Context, server compute.ServerID) ([]compute.SecretID, error) {
	if a.Kept == nil {
		return nil, nil
	}
	all, err := a.Kept.Kept()
	if err != nil || len(all[server]) == 0 {
		return nil, err
	}
	return a.Comparable(ctx, server, all[server])
}

// keep keeps the passphrases of a guest that is about to run, in place of older ones: that of its vTPM, and those of its disks
// where the host is to keep these, too (EE-30). Where that fails the guest runs all the same: it is moved by those who may
// read its keys. One that cannot move while it runs needs none.
func (a *Activities) keep(ctx context.Context, s compute.Server, needs []loan, passphrases []*secret.Passphrase) {
	if a.Kept == nil {
		return
	}
	err := a.Kept.Forget(s.ID)
	moves := s.CheckNotRescued() == nil && !slices.ContainsFunc(s.Disks, compute.Disk.OnDevice)
	for i, n := range needs {
		part := n.part()
		if err == nil && moves && (part == compute.KeyOfTPM || a.KeepsDisks) {
			err = a.Kept.Keep(s.ID, part, n.id, passphrases[i])
		}
	}
	if err != nil {
		a.Logger.WarnContext(ctx, "the keys of a running server are not kept: only who may read them can move it while it runs", "server", s.ID, "error", err)
	}
}

// letGo leaves nothing of what the host has open and keeps for a server whose machine is off.
func (a *Activities) letGo(ctx context.Context, id compute.ServerID) error {
	err := a.Devices.CloseDevices(ctx, id)
	if a.Kept != nil {
		err = errors.Join(err, a.Kept.Forget(id))
	}
	return err
}

// forgetIfOff keeps nothing of a server that did not start.
func (a *Activities) forgetIfOff(ctx context.Context, id compute.ServerID) error {
	if a.Kept == nil {
		return nil
	}
	off, err := a.isOff(ctx, id)
	if err != nil || !off {
		return err
	}
	return a.Kept.Forget(id)
}

// keptIdle gives the servers whose keys are kept and whose machines do not run.
func (a *Activities) keptIdle(ctx context.Context) (idle []compute.ServerID, err error) {
	if a.Kept == nil {
		return nil, nil
	}
	kept, err := a.Kept.Kept()
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	on, err := a.PowerStates(ctx)
	for id := range kept {
		if _, runs := on[id]; err == nil && !runs {
			idle = append(idle, id)
		}
	}
	return idle, err
}
