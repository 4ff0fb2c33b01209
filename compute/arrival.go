package compute

// Arrival names the move of a running server to a host, as the two hosts speak of it. The host
// that the server comes to knows from an order of the control plane that it comes, and from
// where.
type Arrival struct {
	Server    ServerID    `json:"server"`
	Operation OperationID `json:"operation"`
}

// What a running server's hosts say to each other goes on streams of these names: QEMU's
// state of the guest, and what its disks have.
const (
	StreamState = "state"
	StreamDisks = "disks"
)

// MigrationBytes are how far a live migration is.
type MigrationBytes struct {
	MemoryTotal     int64 `json:"memory_total"`
	MemoryRemaining int64 `json:"memory_remaining"`
	MemoryProcessed int64 `json:"memory_processed"`
	DiskTotal       int64 `json:"disk_total"`
	DiskRemaining   int64 `json:"disk_remaining"`
	DiskProcessed   int64 `json:"disk_processed"`
}

// Wish is what whoever asked for a live migration wishes while it is under way.
type Wish string

// The wishes.
const (
	WishNothing  Wish = ""
	WishComplete Wish = "force_complete" // the guest may stand still for as long as what is left takes
	WishAbort    Wish = "abort"
)
