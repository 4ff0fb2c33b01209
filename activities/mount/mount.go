// Package mount mounts shares on a compute host, for the servers that it runs.
//
// A share is mounted once, whichever servers use it, at a path that derives from its id.
// Beside the mount point is a file for each server that uses the mount: it is written before
// the mount is made and removed after it is gone, so that a host that was restarted knows who
// uses what. The mount goes with its last use; of guests that run without such a file libvirt is asked before.
package mount

import (
	"time"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the host's queue.
var (
	Mount = durable.HostActivity[Input, durable.None]{Name: "mount.Mount",
		Summary: func(in Input) string { return "mount share " + in.Share.String() }}
	Remove = durable.HostActivity[compute.Removal, durable.None]{Name: "mount.Remove", Summary: compute.Removal.String}
	Seen   = durable.HostActivity[compute.SeenInput, compute.SeenResult]{Name: "mount.Seen",
		Summary: func(compute.SeenInput) string { return "list mounts of shares" }}
)

// Input asks that a share is mounted for a server. Where it is exported the host asks
// each time (SH-30), and says nowhere (SH-25).
type Input struct {
	Credential compute.Credential  `json:"credential"`
	Share      compute.ShareID     `json:"share_id"`
	Protocol   string              `json:"share_proto"`
	Server     compute.ServerID    `json:"server_id"`
	Operation  compute.OperationID `json:"operation"`
	Began      time.Time           `json:"began,omitzero"` // when the operation did (compute.Thing.WaitedBefore)
}
