package disk

import "time"

// busyAgain is how soon an activity is tried again that found another at the same work.
const busyAgain = 5 * time.Second

// busy is an error about work that another activity is at: to wait for it here would hold
// a slot of the host.
type busy struct{ error }

func (b busy) Unwrap() error { return b.error }

// RetryAfter becomes the retry delay (durable.Boundary).
func (busy) RetryAfter() time.Duration { return busyAgain }
