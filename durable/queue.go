package durable

import "strongroom/compute"

// The task queues. Hosts run activities only, so a host can be upgraded at any
// time without a word to the workflows.
const (
	ControlQueue = "control" // workflows and what they record
	CloudQueue   = "cloud"   // key manager, image store, object store, shares
)

// HostQueue is the queue of one host's quick work.
func HostQueue(id compute.HostID) string { return "host/" + id.String() }

// HostBulkQueue is the queue of one host's copies, downloads and conversions.
func HostBulkQueue(id compute.HostID) string { return HostQueue(id) + "/bulk" }
