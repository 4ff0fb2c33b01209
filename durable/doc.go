// Package durable is all that is Temporal and not a workflow: queues, option
// profiles, the saga, and the one place where failures cross between Go errors
// and Temporal's.
package durable
