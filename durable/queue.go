package durable

import (
	"strings"

	"strongroom/compute"
)

// Queue is the task queue of an activity.
type Queue = string

// The task queues. Hosts run activities only, so a host can be upgraded at any
// time without a word to the workflows.
const (
	ControlQueue Queue = "control" // workflows, and what looks after operations
	CloudQueue   Queue = "cloud"   // key manager, image store, object store, shares
	// RecordQueue is no queue: the activity is a local one of the control worker. While the
	// database is away, ControlQueue has it.
	RecordQueue Queue = "record"
)

// HostQueue is the queue of one host's quick work.
func HostQueue(id compute.HostID) Queue { return "host/" + id.String() }

// HostBulkQueue is the queue of one host's copies, downloads and conversions.
func HostBulkQueue(id compute.HostID) Queue { return HostQueue(id) + bulk }

// HostStateQueue is the queue of what is about the volume that has a host's own state. A host takes it also while the
// volume is closed, and nothing else then.
func HostStateQueue(id compute.HostID) Queue { return HostQueue(id) + state }

const (
	bulk  = "/bulk"
	state = "/state"
)

func isHostQueue(q Queue) bool { return strings.HasPrefix(q, "host/") }

func isBulkQueue(q Queue) bool { return isHostQueue(q) && strings.HasSuffix(q, bulk) }
