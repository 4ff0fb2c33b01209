package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/placement"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// errStorage is why a server with a vTPM does not move: what hosts say of their storage and what
// they see there must be the same, or a state would be copied onto itself and removed.
const errStorage = "server %s: the host that it is on and the one that it goes to say of the storage of TPM states what they do not see there: is the file system mounted on both? " +
	"They look again every minute"

// errLostTPM is why a server is not evacuated without the state of its vTPM, or with a damaged one, by which it would not start (K20).
const errLostTPM = "server %s: its TPM state, on storage that both hosts share, is gone or damaged. Put it back as it was; " +
	"or evacuate the server so that it stays off (as it does from microversion 2.95 on), and rebuild it there"

// sharesTPM finds out whether the hosts of both machines have the states of vTPMs on one storage
// (TPM-39): the old host notes the operation beside the state, and the new one looks for that note.
func (s *switchover) sharesTPM(ctx workflow.Context) (bool, error) {
	is, was := s.to.server, s.from.server
	if is.TPM == nil || !was.HasTPMState() || s.to.host.ID == s.from.host.ID {
		return false, nil
	}
	in := tpm.ShowInput{Server: s.Server, Operation: s.Operation}
	if err := s.take(ctx, step{event: "show_tpm", host: &s.from.host, do: func(ctx workflow.Context) error {
		of := in
		if was.VMState != compute.VMStopped && is.SameTPM(was) { // it is to start by it
			of.Version = was.TPM.Version
		}
		return tpm.Show.On(s.from.host).Do(ctx, of)
	}}); err != nil {
		return false, err
	}
	return s.seesTPM(ctx, in, false) // the note says that it is the same
}

// seesTPM asks the new host for the state of the server's vTPM. Conflict: it sees one and shares no
// storage with the old host, as they say, or the other way round; or it is lost, and
// the server is to boot.
func (s *switchover) seesTPM(ctx workflow.Context, in tpm.ShowInput, boots bool) (shared bool, err error) {
	err = s.take(ctx, step{event: "look_for_tpm", host: &s.to.host, do: func(ctx workflow.Context) error {
		peers, err := placement.TPMPeers.Run(ctx, s.from.host.ID)
		if err != nil {
			return err
		}
		got, err := tpm.Shown.On(s.to.host).Run(ctx, in)
		if err != nil {
			return err
		}
		shared = slices.Contains(peers, s.to.host.ID)
		switch lost := shared && !got.Shown && in.Version != ""; { // a host says so where its folder is not mounted
		case lost && boots:
			return compute.Errorf(compute.Conflict, errLostTPM, s.Server)
		case !lost && shared != (got.Shown || got.Damaged):
			return compute.Errorf(compute.Conflict, errStorage, s.Server)
		}
		return nil
	}})
	return shared, err
}
