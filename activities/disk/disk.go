// Package disk makes and removes a server's local disks on a compute host:
// the image cache, qcow2 overlays and raw files, LUKS by qemu-img.
package disk

import (
	"strconv"
	"time"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities on a host's queues.
var (
	CacheImage = durable.HostActivity[CacheImageInput, durable.None]{Name: "disk.CacheImage", Bulk: true,
		Summary: func(in CacheImageInput) string { return "cache image " + in.Image.ID.String() }}
	CheckImage = durable.HostActivity[CheckImageInput, durable.None]{Name: "disk.CheckImage", Bulk: true,
		Summary: func(in CheckImageInput) string { return "check the host's copy of image " + in.Image.ID.String() }}
	// Create is for disks of which little is written. It may still have to copy an image,
	// where the host alone knows that it must.
	Create = durable.HostActivity[CreateInput, CreateResult]{Name: "disk.Create", Attempt: 6 * time.Hour,
		Summary: createSummary}
	// CreateCopy is Create for disks that all of an image is copied to.
	CreateCopy = durable.HostActivity[CreateInput, CreateResult]{Name: "disk.CreateCopy", Bulk: true,
		Summary: createSummary}
	// Adopt makes volumes that Nova made a server's disks.
	Adopt = durable.HostActivity[AdoptInput, durable.None]{Name: "disk.Adopt",
		Summary: func(in AdoptInput) string { return "adopt " + strconv.Itoa(len(in.Disks)) + " volumes" }}
	CreateNVRAM = durable.HostActivity[NVRAMInput, durable.None]{Name: "disk.CreateNVRAM",
		Summary: func(NVRAMInput) string { return "create UEFI variables" }}
	ReceiveNVRAM = durable.HostActivity[ReceiveNVRAMInput, durable.None]{Name: "disk.ReceiveNVRAM",
		Summary: func(in ReceiveNVRAMInput) string { return "receive UEFI variables from " + in.From.Name }}
	SaveNVRAM = durable.HostActivity[SaveNVRAMInput, SaveNVRAMResult]{Name: "disk.SaveNVRAM",
		Summary: func(SaveNVRAMInput) string { return "store UEFI variables" }}
	RestoreNVRAM = durable.HostActivity[RestoreNVRAMInput, durable.None]{Name: "disk.RestoreNVRAM",
		Summary: func(RestoreNVRAMInput) string { return "restore UEFI variables" }}
	CreateConfigDrive = durable.HostActivity[ConfigDriveInput, durable.None]{Name: "disk.CreateConfigDrive",
		Summary: func(ConfigDriveInput) string { return "create config drive" }}
	Export = durable.HostActivity[ExportInput, compute.Export]{Name: "disk.Export", Bulk: true,
		Summary: func(in ExportInput) string { return "export disk " + in.Disk.Label() }}
	Restore = durable.HostActivity[RestoreInput, durable.None]{Name: "disk.Restore", Bulk: true,
		Summary: func(in RestoreInput) string { return "restore disk " + in.Disk.Label() }}
	CheckMove = durable.HostActivity[CheckMoveInput, CheckMoveResult]{Name: "disk.CheckMove",
		Summary: func(in CheckMoveInput) string {
			return "see whether " + strconv.Itoa(len(in.Disks)) + " disks can be moved"
		}}
	CheckRoom = durable.HostActivity[CheckRoomInput, durable.None]{Name: "disk.CheckRoom", Attempt: time.Minute,
		Summary: func(in CheckRoomInput) string {
			return "see whether there is room for " + strconv.Itoa(in.Disks) + " disks"
		}}
	CheckExport = durable.HostActivity[CheckExportInput, durable.None]{Name: "disk.CheckExport",
		Summary: func(in CheckExportInput) string {
			return "see whether " + strconv.Itoa(len(in.Copies)) + " disks can be exported"
		}}
	Resize = durable.HostActivity[ResizeInput, durable.None]{Name: "disk.Resize", Bulk: true,
		Summary: func(in ResizeInput) string { return "resize disk " + in.Disk.Label() }}
	Receive = durable.HostActivity[ReceiveInput, durable.None]{Name: "disk.Receive", Bulk: true,
		Summary: func(in ReceiveInput) string { return "receive disk " + in.Disk.Label() + " from " + in.From.Name }}
	KeySlots = durable.HostActivity[KeySlotsInput, KeySlotsResult]{Name: "disk.KeySlots",
		Summary: func(in KeySlotsInput) string { return "read key slots of " + strconv.Itoa(len(in.Disks)) + " disks" }}
	AddKey = durable.HostActivity[AddKeyInput, AddKeyResult]{Name: "disk.AddKey",
		Summary: func(in AddKeyInput) string { return "add key to disk " + in.Disk.Label() }}
	Remove = durable.HostActivity[compute.Removal, durable.None]{Name: "disk.Remove", Summary: compute.Removal.String}
	Seen   = durable.HostActivity[compute.SeenInput, compute.SeenResult]{Name: "disk.Seen",
		Summary: func(compute.SeenInput) string { return "list disk files and cached images" }}
	// Ping sees that a host takes work.
	Ping = durable.HostActivity[PingInput, durable.None]{Name: "disk.Ping", Attempt: 10 * time.Second,
		Summary: func(PingInput) string { return "see whether the host takes work" }}
	// Find and TakeOver are for disks that stay where they are while their server leaves a host.
	Find = durable.HostActivity[FindInput, FindResult]{Name: "disk.Find", Attempt: time.Minute,
		Summary: func(in FindInput) string {
			return "look for " + strconv.Itoa(len(in.Files)) + " files on shared storage"
		}}
	TakeOver = durable.HostActivity[TakeOverInput, durable.None]{Name: "disk.TakeOver",
		Summary: func(in TakeOverInput) string { return "take over " + strconv.Itoa(len(in.Disks)) + " disks" }}
)

func createSummary(in CreateInput) string { return "create disk " + in.Disk.Label() }

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	CacheImage.Register(r, durable.NoResult(a.CacheImage))
	CheckImage.Register(r, durable.NoResult(a.CheckImage))
	Create.Register(r, a.Create)
	CreateCopy.Register(r, a.Create)
	Adopt.Register(r, durable.NoResult(a.Adopt))
	CreateConfigDrive.Register(r, durable.NoResult(a.CreateConfigDrive))
	CreateNVRAM.Register(r, durable.NoResult(a.CreateNVRAM))
	ReceiveNVRAM.Register(r, durable.NoResult(a.ReceiveNVRAM))
	SaveNVRAM.Register(r, a.SaveNVRAM)
	RestoreNVRAM.Register(r, durable.NoResult(a.RestoreNVRAM))
	Export.Register(r, a.Export)
	Restore.Register(r, durable.NoResult(a.Restore))
	CheckMove.Register(r, a.CheckMove)
	CheckRoom.Register(r, durable.NoResult(a.CheckRoom))
	CheckExport.Register(r, durable.NoResult(a.CheckExport))
	Resize.Register(r, durable.NoResult(a.Resize))
	Receive.Register(r, durable.NoResult(a.Receive))
	KeySlots.Register(r, a.KeySlots)
	AddKey.Register(r, a.AddKey)
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
	Ping.Register(r, durable.NoResult(a.Ping))
	Find.Register(r, a.Find)
	TakeOver.Register(r, durable.NoResult(a.TakeOver))
}

// CacheImageInput asks that the host's image cache holds an image. A plain image is
// anybody's and stays. An encrypted one is kept, as it came, for one project and for
// as long as disks lean on it: Use says for which (compute.Image.CacheUse).
type CacheImageInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.Image      `json:"image"`
	Use        string             `json:"use,omitempty"`
	Former     *FormerHost        `json:"former,omitempty"`
}

// FormerHost is the host that a server leaves. It has a copy of the server's image, which counts
// where the image store gives none: to whoever moves the server, or because it was deleted there.
type FormerHost struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"` // that moves the server
	Agent     compute.Agent       `json:"agent"`
}

// CheckImageInput names an image on which disks of a server lie. A copy of an encrypted one
// is the project's.
type CheckImageInput struct {
	Project string        `json:"project"`
	Image   compute.Image `json:"image"`
}

// CreateInput asks for one disk of a server. Disk.Secret names the passphrase
// when Disk.Encrypted. Image is the cached source of a root or rescue disk;
// Project, the server's, says whose copy of it when it is encrypted, and
// Disk.BackingSecret opens that. NotFound: the cache has lost it since.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	Project    string             `json:"project,omitempty"`
	Disk       compute.Disk       `json:"disk"`
	Image      *compute.Image     `json:"image,omitempty"`
	// Elsewhere says that the server had the disk on another host, which may still have it
	// when it is back.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Whole is that a root disk leans on no image: what is written into it is all that it has.
	Whole bool `json:"whole,omitempty"`
}

// CreateResult tells what was really used to encrypt (EE-08), and where the image's data are.
type CreateResult struct {
	EncryptionOptions map[string]string `json:"encryption_options,omitempty"`
	Whole             bool              `json:"whole,omitempty"` // it is no overlay: it has all of its image's data in itself
}

// ConsoleLog is the file in a server's folder that keeps its serial output.
const ConsoleLog = compute.ConsoleLogFile
