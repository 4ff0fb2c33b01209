//go:build !faultpoints

package durable

import "time"

// HeartbeatTimeout is how long a killed worker goes unnoticed.
const HeartbeatTimeout = 10 * time.Second
