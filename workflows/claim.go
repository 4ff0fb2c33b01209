package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// unclaimLast registers the undo of every claim that comes: it goes after all that is made
// on the host.
func (s *switchover) unclaimLast() {
	s.saga.Defer(durable.Undo{Step: "claim_host", Last: true, Run: func(ctx workflow.Context) error {
		return placement.Unclaim.Do(ctx, s.OperationInput)
	}})
}

// claim claims a host for the new machine.
func (s *switchover) claim(ctx workflow.Context, in placement.ClaimInput) error {
	return s.take(ctx, step{event: "claim_host", do: func(ctx workflow.Context) error {
		in.OperationInput, in.Plan = s.OperationInput, s.to.server
		got, err := placement.Claim.Run(ctx, in)
		s.to.host = durable.Host{ID: got.Host, Name: got.Name}
		s.to.server.Host = &got.Host
		if err != nil {
			return err
		}
		s.zone, s.claimedDisks = got.Zone, got.Disks
		s.settleFormat(got.Format)
		return durable.DescribeHosts(ctx, got.Name)
	}})
}

// settleFormat decides, by the default of the host that was claimed, on the format of disks for
// which nobody asked for one, and has it recorded before anything is made (EE-03).
func (s *switchover) settleFormat(host compute.DiskFormat) {
	for _, d := range s.to.server.Disks {
		if d.IsOpen() {
			s.unwritten.Options = append(s.unwritten.Options, record.Option{Disk: d.ID, Format: host})
		}
	}
	s.to.server = s.to.server.InFormat(host)
}

// reachHost sees that a host takes work, and has none of files that are to come, before anything is made there.
func (s *switchover) reachHost(host durable.Host, task compute.TaskState, absent []string) step {
	return step{event: "reach_host", host: &host, task: task, do: func(ctx workflow.Context) error {
		return disk.Ping.On(host).TakenWithin(durable.HostSilence).Do(ctx, disk.PingInput{Server: s.Server, Absent: absent})
	}}
}

// checkRoom sees that a host takes work, and has room for disks that exist already, before
// anything is made there.
func (s *switchover) checkRoom(host durable.Host, task compute.TaskState, in disk.CheckRoomInput) step {
	in.Server = s.Server
	return step{event: "check_room", host: &host, task: task, do: func(ctx workflow.Context) error {
		return disk.CheckRoom.On(host).TakenWithin(durable.HostSilence).Do(ctx, in)
	}}
}

// lacksRoom reports whether a host refused what was to come, which another one may have room for.
func lacksRoom(failure error) bool {
	return failure != nil && durable.FromTemporal(failure).Kind == compute.NoHost
}

// giveUpHost closes the first step on a host that does not answer, before another host
// is claimed. A host that never took the work has made nothing. One that took it may have
// a part of the image: that waits for the host on the ledger, and nothing waits for it.
func (s *switchover) giveUpHost(first step, took bool) {
	end := first.ended()
	end.Error = "the host did not take the work"
	if took {
		end.Error = reasonHostDown
		for _, t := range first.makes {
			s.wait(&end, t.Waits(compute.BlockedByHost, reasonHostDown))
		}
	} else {
		end.Released = first.makes
	}
	s.unwritten.Close = &end
	if len(first.makes) > 0 {
		s.saga.Drop() // the ledger has what is left
	}
}
