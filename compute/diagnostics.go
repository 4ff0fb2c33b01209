package compute

// Diagnostics are what a host counts of a server's machine since it was started.
type Diagnostics struct {
	State      PowerState `json:"state"`
	Hypervisor string     `json:"hypervisor"` // kvm or qemu
	MemoryKB   int64      `json:"memory_kb"`  // that it may have
	UsedKB     int64      `json:"used_kb"`    // that it has
	CPUTimes   []int64    `json:"cpu_times"`  // nanoseconds, by vCPU
	Disks      []DiskUse  `json:"disks"`
	NICs       []NICUse   `json:"nics"`
}

// DiskUse is what the guest asked of a disk.
type DiskUse struct {
	Name          string `json:"name"` // vda
	ReadRequests  int64  `json:"read_requests"`
	ReadBytes     int64  `json:"read_bytes"`
	WriteRequests int64  `json:"write_requests"`
	WriteBytes    int64  `json:"write_bytes"`
}

// NICUse is what went through a network interface, as the host counts it.
type NICUse struct {
	Name string  `json:"name"` // vnet0
	MAC  string  `json:"mac"`
	In   Traffic `json:"in"` // rx
	Out  Traffic `json:"out"`
}

// Traffic is one direction of an interface.
type Traffic struct {
	Bytes   int64 `json:"bytes"`
	Packets int64 `json:"packets"`
	Errors  int64 `json:"errors"`
	Dropped int64 `json:"dropped"`
}
