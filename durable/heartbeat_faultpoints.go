//go:build faultpoints

package durable

import "time"

// HeartbeatTimeout is shorter where workers are killed all the time.
const HeartbeatTimeout = 4 * time.Second

// Lateness is shorter for the same reason.
const Lateness = 3 * time.Second
