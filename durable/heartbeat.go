//go:build !faultpoints

package durable

import "time"

// HeartbeatTimeout is how long a killed worker goes unnoticed.
const HeartbeatTimeout = 10 * time.Second

// Lateness is how long a service may still be at something after whoever asked for
// it got no answer: longer than anybody waits for one.
const Lateness = 150 * time.Second
