package ledger

import (
	"strings"

	"strongroom/compute"
)

// PayloadLimit is how many more findings of an audit may go into one payload, and how many
// bytes of them: however much is found, a payload stays within the limits of Temporal.
type PayloadLimit struct{ Findings, Bytes int }

// resultLimit is that of one activity's result.
func resultLimit() PayloadLimit { return PayloadLimit{Findings: 500, Bytes: 128 << 10} }

// Take counts a finding in, if it fits, and reports whether it did.
func (l *PayloadLimit) Take(f compute.Finding) bool {
	size := len(`{"kind":"","place":"","name":"","owner":"","project":"","what":"","why":""},`)
	for _, text := range []string{string(f.Kind), f.Place, f.Name, f.Owner, f.Project, string(f.What), f.Why} {
		size += inJSON(text)
	}
	if l.Findings == 0 || size > l.Bytes {
		return false
	}
	l.Findings--
	l.Bytes -= size
	return true
}

// inJSON is how long a text is in a payload, at most. Workflows ask, and for them
// encoding/json is not known to be deterministic.
func inJSON(text string) int {
	size := len(text)
	for _, c := range []byte(text) {
		if c < ' ' || strings.IndexByte(`"\<>&`, c) >= 0 {
			size += len(`\u003c`) - 1
		}
	}
	return size
}

// short cuts what an earlier version wrote down.
func short(f compute.Finding) compute.Finding {
	f.Why = compute.ShortReason(f.Why)
	return f
}
