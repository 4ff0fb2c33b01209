package compute

import "time"

// How long a host's watchdog may wait for an answer before it stops the host's guests. A host
// reports itself every ten seconds: a few reports that are late must not stop guests.
const (
	LeastFenceAfter = 60 * time.Second
	MostFenceAfter  = 24 * time.Hour
)

// FenceMargin is added to what a watchdog waits, before its host counts as fenced: for the grace of one that was just
// started, for its next look, for what it takes to stop guests, and for clocks that do not go at the same speed.
const FenceMargin = time.Minute

// CheckFenceAfter refuses, with Invalid, a time that is no watchdog's.
func CheckFenceAfter(seconds int) error {
	if after := time.Duration(seconds) * time.Second; seconds != 0 && (after < LeastFenceAfter || after > MostFenceAfter) {
		return Errorf(Invalid, "%d seconds: it must be 0 (guests go on while their host is cut off), or %.0f to %.0f",
			seconds, LeastFenceAfter.Seconds(), MostFenceAfter.Seconds())
	}
	return nil
}

// Fencing is what is known of whether the guests of a host may still run.
type Fencing struct {
	ForcedDown bool          // its operator's word
	Silent     time.Duration // since it was heard last
	After      time.Duration // the timeout of the lease that it had when it was heard: silent for so long it stops its guests itself; 0: it had none
}

// Check refuses, with Invalid and the API's text, to evacuate servers from a host that may still run
// them. It is not enough that the host is silent: guests go on without their worker. Either its operator has said
// that it is fenced, or its watchdog has had the time to stop them.
func (f Fencing) Check(host string) error {
	down := f.Silent >= HostTimeout
	switch due := f.After + FenceMargin; {
	case !down && f.ForcedDown:
		return Errorf(Invalid, "Compute service of %s is still in use. It is forced down and still reports itself: stop it and its guests first.", host)
	case !down:
		return Errorf(Invalid, "Compute service of %s is still in use.", host)
	case f.ForcedDown, f.After > 0 && f.Silent >= due:
		return nil
	case f.After > 0:
		return Errorf(Invalid, "Compute service of %s is still in use. It does not report itself, and its watchdog stops its guests: "+
			"ask again in %.0f seconds, or fence the host and then force its service down.", host, (due - f.Silent + time.Second - 1).Truncate(time.Second).Seconds())
	}
	return Errorf(Invalid, "Compute service of %s is still in use. It does not report itself, and its guests may run nevertheless: "+
		"fence the host, that is, see to it that it has no power or no disks, and then force its service down.", host)
}
