package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/object"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

const (
	// errNoTPM is why a server is not shelved whose vTPM has lost its state.
	errNoTPM = "server %s: its TPM state is not on its host, or is damaged. Put it back as it was, or rebuild the server"
	// errOtherTPM is why a server is not shelved with a state that may be none of its own.
	errOtherTPM = "server %s: its TPM state is not the one that was backed up when it was stopped. Start it: if it starts, the state is its own, and it can be shelved. " +
		"If not, put the state back as it was, or rebuild the server, whose TPM is then as its backup has it"
)

// lookForTPM asks the machine's host for the state of its vTPM, and has judge decide within the step. lost: there is none by which the guest could start.
// another: the server is off, and the state is not the one that was backed up when it was stopped. It may be another server's (K20).
func (m *machine) lookForTPM(ctx workflow.Context, judge func(lost, another bool) error) error {
	return m.take(ctx, step{event: "look_for_tpm", host: &m.host, do: func(ctx workflow.Context) error {
		got, err := tpm.Shown.On(m.host).Run(ctx, tpm.ShowInput{Server: m.Server, Version: m.server.TPM.Version})
		if err != nil {
			return err
		}
		same := true
		if got.Shown && m.server.VMState == compute.VMStopped {
			if same, err = m.isFinal(ctx); err != nil {
				return err
			}
		}
		return judge(!got.Shown, !same)
	}})
}

// backupOwner returns the credential for the backup of the server's vTPM.
func (s *switchover) backupOwner() compute.Credential {
	return s.server.BackupCredential(s.asked.Credential)
}

// checkBackup checks that the backup of the vTPM's state is there. Without it the new machine's vTPM is a new one. A backup
// that the requester may not read does not count as lost.
func (s *switchover) checkBackup(ctx workflow.Context) error {
	b := s.to.server.Backup()
	if b == nil {
		return nil
	}
	return s.take(ctx, step{event: "check_tpm_backup", do: func(ctx workflow.Context) error {
		is, err := isStored(ctx, object.Verify, s.backupOwner(), *b)
		if err == nil && !is {
			s.to.server = s.to.server.WithTPMLost()
		}
		return err
	}})
}

// restoreTPM lays down the state that the backup of the vTPM has, if there is one.
func (s *switchover) restoreTPM(ctx workflow.Context, makes ...compute.Thing) error {
	b := s.to.server.Backup()
	if b == nil {
		return nil
	}
	return s.take(ctx, step{event: "restore_tpm", host: &s.to.host, undoLast: true, makes: makes, do: func(ctx workflow.Context) error {
		in := tpm.RestoreInput{Credential: s.backupOwner(), Server: s.Server, Operation: s.Operation, Began: s.asked.Began, Stored: b.StoredTPM}
		return tpm.Restore.On(s.to.host).Do(ctx, in)
	}})
}

// tellOfLostTPM notes in the trail what took the place of the vTPM's state, and returns that text; "" where the vTPM had none. how says what
// became of the state.
func (s *switchover) tellOfLostTPM(ctx workflow.Context, how string) (string, error) {
	event, lost := "tpm_state_lost", s.from.server.TPMLost(how)
	if b := s.to.server.Backup(); b != nil {
		event, lost = "tpm_state_restored", s.to.server.TPMRestored(*b)
	}
	if lost == "" {
		return "", nil
	}
	return lost, s.runAfterCommit(ctx, step{event: event}, func(_ workflow.Context, _ bool, end *record.Close) error {
		end.Error = lost
		return nil
	})
}

// removeKept removes, after the point of no return, the copy that keepTPM made.
func (s *switchover) removeKept(ctx workflow.Context) error {
	has, err := s.things(ctx)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(has, func(t compute.Thing) bool {
		return t.Kind != compute.ThingTPMState || t.Name == s.Server.String() || t.Place != s.to.host.ID.String()
	})
	return s.removeAfterCommit(ctx, "remove_kept_tpm", kept)
}
