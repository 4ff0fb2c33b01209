package compute

import "strings"

// reasonBytes is how much is kept and told of why something waits: services' answers can
// be whole pages.
const reasonBytes = 500

// ShortReason cuts a reason that is too long, between two characters.
func ShortReason(text string) string {
	if len(text) <= reasonBytes {
		return text
	}
	return strings.ToValidUTF8(text[:reasonBytes-len("…")], "") + "…"
}
