package compute

// Agent is how another host reaches the agent of one.
type Agent struct {
	Host HostID `json:"host"`
	Name string `json:"name"`
	URL  string `json:"url"` // https
}

// Transfer is what a host reads of another one: a thing that an operation is about to make on
// it, of the thing of the same name that the other one has. The row of the ledger is its
// ticket: the other one asks a gateway for it, and it is good while the row is intended and the
// operation runs. The copy of a server's image has no row of its own everywhere: its ticket is the
// claim that such an operation has on the host.
type Transfer struct {
	Server    ServerID    `json:"server"`
	Operation OperationID `json:"operation"`
	Kind      ThingKind   `json:"kind"` // ThingDiskFile, ThingTPMState or ThingCachedImage
	Name      string      `json:"name"` // of an image Image.CacheName
}
