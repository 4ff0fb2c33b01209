package compute

import "time"

// VMState is what a server is, as Nova names it.
type VMState string

// The vm_states (reference compute-api A.4).
const (
	VMActive           VMState = "active"
	VMBuilding         VMState = "building"
	VMPaused           VMState = "paused"
	VMSuspended        VMState = "suspended"
	VMStopped          VMState = "stopped"
	VMRescued          VMState = "rescued"
	VMResized          VMState = "resized"
	VMSoftDelete       VMState = "soft-delete"
	VMDeleted          VMState = "deleted"
	VMError            VMState = "error"
	VMShelved          VMState = "shelved"
	VMShelvedOffloaded VMState = "shelved_offloaded"
)

// TaskState is what is being done to a server; TaskNone means nothing.
type TaskState string

// The task_states that operations set (reference compute-api A.4).
const (
	TaskNone              TaskState = ""
	TaskScheduling        TaskState = "scheduling"
	TaskNetworking        TaskState = "networking"
	TaskBlockDevice       TaskState = "block_device_mapping"
	TaskSpawning          TaskState = "spawning"
	TaskPoweringOff       TaskState = "powering-off"
	TaskPoweringOn        TaskState = "powering-on"
	TaskRebooting         TaskState = "rebooting"
	TaskRebootPending     TaskState = "reboot_pending"
	TaskRebootStarted     TaskState = "reboot_started"
	TaskRebootingHard     TaskState = "rebooting_hard"
	TaskRebootPendingHard TaskState = "reboot_pending_hard"
	TaskRebootStartedHard TaskState = "reboot_started_hard"
	TaskDeleting          TaskState = "deleting"

	TaskPausing    TaskState = "pausing"
	TaskUnpausing  TaskState = "unpausing"
	TaskSuspending TaskState = "suspending"
	TaskResuming   TaskState = "resuming"

	TaskSnapshotPending TaskState = "image_snapshot_pending"
	TaskSnapshot        TaskState = "image_snapshot"
	TaskBackup          TaskState = "image_backup"
	TaskPendingUpload   TaskState = "image_pending_upload"
	TaskUploading       TaskState = "image_uploading"

	TaskRebuilding      TaskState = "rebuilding"
	TaskRebuildDevices  TaskState = "rebuild_block_device_mapping"
	TaskRebuildSpawning TaskState = "rebuild_spawning"

	TaskRotatingKeys TaskState = "rotating_keys" // strongroom's own

	TaskAttachingShare TaskState = "attaching_share" // strongroom's own: Nova's attach races with a start
	TaskDetachingShare TaskState = "detaching_share"
	// strongroom's own, too: Nova holds a lock of the host's meanwhile.
	TaskAttachingInterface TaskState = "attaching_interface"
	TaskDetachingInterface TaskState = "detaching_interface"

	TaskBackingUpTPM TaskState = "backing_up_tpm" // strongroom's own

	TaskCrashDump TaskState = "triggering_crash_dump" // strongroom's own: in Nova nothing else waits for it

	TaskRescuing   TaskState = "rescuing"
	TaskUnrescuing TaskState = "unrescuing"

	TaskMigrating        TaskState = "migrating"
	TaskResizePrep       TaskState = "resize_prep"
	TaskResizeMigrating  TaskState = "resize_migrating"
	TaskResizeMigrated   TaskState = "resize_migrated"
	TaskResizeFinish     TaskState = "resize_finish"
	TaskResizeConfirming TaskState = "resize_confirming"
	TaskResizeReverting  TaskState = "resize_reverting"

	TaskShelving           TaskState = "shelving"
	TaskShelvingPending    TaskState = "shelving_image_pending_upload"
	TaskShelvingUploading  TaskState = "shelving_image_uploading"
	TaskShelvingOffloading TaskState = "shelving_offloading"
	TaskUnshelving         TaskState = "unshelving"
)

// PowerState is the hypervisor's view, with the API's numbers.
type PowerState int

// The power states of the API.
const (
	PowerNone      PowerState = 0
	PowerRunning   PowerState = 1
	PowerPaused    PowerState = 3
	PowerShutdown  PowerState = 4
	PowerCrashed   PowerState = 6
	PowerSuspended PowerState = 7
)

// Word is Nova's word for the power state.
func (p PowerState) Word() string {
	switch p {
	case PowerRunning:
		return "running"
	case PowerPaused:
		return "paused"
	case PowerShutdown:
		return "shutdown"
	case PowerCrashed:
		return "crashed"
	case PowerSuspended:
		return "suspended"
	default:
		return "pending"
	}
}

// Keys of a server's system metadata.
const (
	// SystemTPMSecret keeps the id of the vTPM's secret (TPM-10, decision 3).
	SystemTPMSecret = "tpm_secret_uuid"
	// SystemPinnedZone keeps the availability zone that the server was created
	// in by its owner's wish: no host of another zone may take it.
	SystemPinnedZone = "pinned_availability_zone"
	// SystemTPMObject and SystemTPMObjectSHA256 keep where the state of the vTPM of a
	// shelved server is, and what it is (TPM-22). They are no image's (TPM-38).
	SystemTPMObject       = "tpm_object_id"
	SystemTPMObjectSHA256 = "tpm_object_sha256"
	// SystemNVRAMObject and SystemNVRAMObjectSHA256 keep where the variables of the UEFI of a shelved server
	// are, and what they are.
	SystemNVRAMObject       = "nvram_object_id"
	SystemNVRAMObjectSHA256 = "nvram_object_sha256"
)

// Fault is why a server is in ERROR, as the API shows it.
type Fault struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Details string    `json:"details,omitempty"`
	Created time.Time `json:"created"`
}

// Server is what an operation must know of a server to act on it. The API has
// its own, wider view of the row.
type Server struct {
	ID         ServerID          `json:"id"`
	ProjectID  string            `json:"project_id"`
	UserID     string            `json:"user_id"`
	Name       string            `json:"name"`
	Hostname   string            `json:"hostname"`
	VMState    VMState           `json:"vm_state"`
	TaskState  TaskState         `json:"task_state"`
	PowerState PowerState        `json:"power_state"`
	Host       *HostID           `json:"host,omitempty"`
	Flavor     Flavor            `json:"flavor"`
	Image      Image             `json:"image"`
	Networks   []Network         `json:"networks,omitempty"`
	Disks      []Disk            `json:"disks"`
	TPM        *TPM              `json:"tpm,omitempty"`
	TPMBackup  *TPMBackup        `json:"tpm_backup,omitempty"` // the last one
	System     map[string]string `json:"system,omitempty"`
	Traits     []string          `json:"traits,omitempty"`           // what its host must have
	Forbidden  []string          `json:"forbidden_traits,omitempty"` // what its host must not have

	Shares []ShareMapping `json:"shares,omitempty"` // in the order in which they were attached

	Former *Former `json:"former,omitempty"` // what it can be reverted to

	ConfigDrive bool `json:"config_drive,omitempty"` // it has a CD-ROM with its metadata
}

// InstanceName is the server's name at the hypervisor.
func (s Server) InstanceName() string { return InstanceName(s.ID) }

// InstanceName is the libvirt domain name of a server.
func InstanceName(id ServerID) string { return instancePrefix + id.String() }

const instancePrefix = "instance-"

// Network is one interface that the user asked for.
type Network struct {
	UUID string `json:"uuid"`
	MAC  string `json:"mac,omitempty"`
	Tag  string `json:"tag,omitempty"`
	Port *Port  `json:"port,omitempty"` // nil: the network is the hosts' own
}

// Flavor is the size of a server, frozen into it at create time.
type Flavor struct {
	ID          string            `json:"id"` // the API's flavor id, often a number or a name
	Name        string            `json:"name"`
	VCPUs       int               `json:"vcpus"`
	MemoryMB    int               `json:"memory_mb"`
	RootGB      int               `json:"root_gb"`
	EphemeralGB int               `json:"ephemeral_gb"`
	SwapMB      int               `json:"swap_mb"`
	ExtraSpecs  map[string]string `json:"extra_specs,omitempty"`
}

// Image is an image of the image store, as its record says.
type Image struct {
	ID              ImageID           `json:"id"`
	Name            string            `json:"name"`
	Status          string            `json:"status"`           // queued, saving, active, …
	DiskFormat      string            `json:"disk_format"`      // qcow2, raw, luks
	ContainerFormat string            `json:"container_format"` // bare
	SizeBytes       int64             `json:"size_bytes"`
	VirtualBytes    int64             `json:"virtual_bytes"`
	SHA256          string            `json:"sha256"`           // hex, of the stored bytes
	SHA512          string            `json:"sha512,omitempty"` // the same, where the store knows this one and SHA256 is empty
	MinDiskGB       int               `json:"min_disk_gb"`
	MinRAMMB        int               `json:"min_ram_mb"`
	Owner           string            `json:"owner"`
	Visibility      string            `json:"visibility"` // public, private, shared, community
	Protected       bool              `json:"protected"`
	Tags            []string          `json:"tags,omitempty"`
	Properties      map[string]string `json:"properties,omitempty"`
	// Devices says that the server has the devices that the image and its flavor ask for (Hardware). One that an earlier release made has not,
	// nor has one that was imported.
	Devices bool `json:"devices,omitempty"`
	// Pages says the same of the pages of its memory (OnHugePages), which came later.
	Pages     bool      `json:"pages,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}
