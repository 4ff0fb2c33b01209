// Package volume is the encrypted volume of a compute host that has the host's own state: its servers'
// folders, its image cache, the states of vTPMs and the memory of suspended guests. What is on the device, and that it is formatted once, is the
// initializer's (securepv/initializer); the key is read of the key manager for the operation that opens the volume or
// changes its key, and stays nowhere on the host.
package volume

import (
	"time"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities. They have a queue of their own, since they are taken while the volume is closed and the
// host takes nothing else.
var (
	Look = durable.HostActivity[Input, LookResult]{Name: "volume.Look", State: true,
		Summary: func(in Input) string { return "look at the volume " + in.Device }}
	Open = durable.HostActivity[OpenInput, durable.None]{Name: "volume.Open", State: true,
		Summary: func(in OpenInput) string { return "open the volume " + in.Device }}
	Close = durable.HostActivity[Input, durable.None]{Name: "volume.Close", State: true,
		Summary: func(in Input) string { return "close the volume " + in.Device }}
	Rotate = durable.HostActivity[RotateInput, durable.None]{Name: "volume.Rotate", State: true,
		Summary: func(in RotateInput) string { return "change the key of the volume " + in.Device }}
	Remove = durable.HostActivity[compute.Removal, durable.None]{Name: "volume.Remove", State: true, Summary: compute.Removal.String}
	Seen   = durable.HostActivity[compute.SeenInput, compute.SeenResult]{Name: "volume.Seen", State: true,
		Summary: func(compute.SeenInput) string { return "list open volumes" }}
)

// Input names a volume.
type Input struct {
	Volume compute.VolumeID `json:"volume"`
	Device string           `json:"device"` // its path on the host
}

// LookResult is what a volume is.
type LookResult struct {
	New  bool `json:"new,omitempty"`  // nothing is on the device, or a format that was begun
	Open bool `json:"open,omitempty"` // and mounted
}

// OpenInput says how a volume is opened.
type OpenInput struct {
	Input
	Began      time.Time          `json:"began,omitzero"` // when the operation did (compute.Thing.WaitedBefore)
	Credential compute.Credential `json:"credential"`
	Secret     compute.SecretID   `json:"secret"`
	Next       *compute.SecretID  `json:"next,omitempty"` // opens it, if Secret does not: the change of its key was cut off
	// NeverFormat: the volume was in use before. A device that is new is another one, and is refused.
	NeverFormat bool `json:"neverFormat,omitempty"`
}

// RotateInput says how the key of a volume is changed.
type RotateInput struct {
	Input
	Credential compute.Credential `json:"credential"`
	Secret     compute.SecretID   `json:"secret"`
	Next       compute.SecretID   `json:"next"` // opens it alone, in the end
}
