package compute

// Progress is how far a long piece of work on a host is: the heartbeat of its
// activity, and the progress that the API shows of the server meanwhile.
type Progress struct {
	Phase string `json:"phase"` // "download", "copy", "convert", "backup", "upload", "receive", "compare", "migrate", "suspend", PhaseShutdown
	Done  int64  `json:"done"`  // bytes; seconds of a shutdown
	Total int64  `json:"total"`
}

// PhaseShutdown is the one phase that is counted in seconds: those that the guest has had.
const PhaseShutdown = "shutdown"

// Unit is what the progress counts.
func (p Progress) Unit() string {
	if p.Phase == PhaseShutdown {
		return "seconds"
	}
	return "bytes"
}

// Percent is between 0 and 100.
func (p Progress) Percent() int {
	if p.Total <= 0 {
		return 0
	}
	return int(min(max(p.Done, 0), p.Total) * 100 / p.Total)
}
