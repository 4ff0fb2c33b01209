package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"strongroom/compute"
)

// HostReport is what a host says of itself; its fields are those of its row. Which host it
// is says its certificate.
type HostReport struct {
	ID                compute.HostID `json:"-"`
	Name              string         `json:"-"`
	Address           string         `json:"address"`
	AgentURL          string         `json:"agent_url"`
	Traits            []string       `json:"traits"`
	Networks          []string       `json:"networks"`
	VCPUs             int32          `json:"vcpus"`
	MemoryMB          int32          `json:"memory_mb"`
	DiskGB            int32          `json:"disk_gb"`
	VCPURatio         float64        `json:"vcpu_ratio"`
	MemoryRatio       float64        `json:"memory_ratio"`
	DiskRatio         float64        `json:"disk_ratio"`
	ReservedMemoryMB  int32          `json:"reserved_memory_mb"`
	HypervisorType    string         `json:"hypervisor_type"`
	HypervisorVersion int64          `json:"hypervisor_version"`
	CPUInfo           []byte         `json:"cpu_info"`
	AvailabilityZone  string         `json:"availability_zone"`
	Uptime            string         `json:"uptime"`
	Release           string         `json:"release"`

	NetworkProjects map[string][]string `json:"network_projects"` // of networks that not all projects may use

	BootID       string `json:"boot_id"`       // another one each time that the host is booted
	ResumeGuests bool   `json:"resume_guests"` // start guests again that ran when it went down
	TPMStorage   string `json:"tpm_storage"`   // the id of the storage with the states of vTPMs; "": the host has none
	FenceAfter   int32  `json:"fence_after"`   // the timeout of its lease: without contact for so many seconds it stops its guests; 0: it has none

	DefaultFormat compute.DiskFormat `json:"default_format"` // of disks for which nobody asks for one; "": a worker that does not say, which makes luks (EE-41)
	ReportNumber  int64              `json:"report_number"`  // ascends within a boot; 0: a worker that does not number its reports (EE-41)

	ShareAddress string `json:"share_address"`      // by which shares of NFS let it in; "": it mounts none
	GroupMB      *int64 `json:"group_mb,omitempty"` // what its volume group has for servers' disks; nil: it has none, or its worker does not say

	DiskStorage string `json:"disk_storage"` // the id of the storage with servers' folders; "": its worker does not say
}

// AtRest is a server on which no operation works, as the record has it.
type AtRest struct {
	Server     compute.ServerID   `json:"server"`
	VMState    compute.VMState    `json:"vm_state"`
	PowerState compute.PowerState `json:"power_state"`
	UpdatedAt  *time.Time         `json:"updated_at"`
}

// FoundPower is what the hypervisor shows of a server that was at rest.
type FoundPower struct {
	AtRest
	Found compute.PowerState `json:"found"`
}

// EnrollRequest asks for a host's first certificate, with a token, or for a newer one,
// with the one that it has.
type EnrollRequest struct {
	Token      string         `json:"token,omitempty"`
	Host       compute.HostID `json:"host,omitzero"`
	PublicKey  []byte         `json:"public_key"`  // PKIX
	SealingKey []byte         `json:"sealing_key"` // pki.Seal's
}

// EnrollAnswer has the certificate.
type EnrollAnswer struct {
	Name        string `json:"name"`        // of the host, as the token says
	Certificate []byte `json:"certificate"` // DER
}

// purpose says for which server a host asks, or for which of its own volumes, and with which credential.
type purpose struct {
	Server     compute.ServerID   `json:"server"`
	Volume     compute.VolumeID   `json:"volume,omitzero"`
	Credential compute.Credential `json:"credential"`
}

type passphraseRequest struct {
	purpose
	Secret compute.SecretID `json:"secret"`
}

// blobRequest names a blob, or for a list what the names of blobs begin with.
type blobRequest struct {
	purpose
	Blob  string `json:"blob"`
	After string `json:"after,omitempty"` // the name before the first of a list
}

type passphraseAnswer struct {
	Sealed []byte `json:"sealed"`
}

// sealContext binds a sealed passphrase to what was asked for.
func sealContext(host compute.HostID, secret compute.SecretID) string {
	return "strongroom passphrase " + host.String() + " " + secret.String()
}

type progressReport struct {
	Percent int `json:"percent"`
}

// headerPurpose carries a purpose or a blobRequest, as JSON, of what has no body or a stream.
const headerPurpose = "Strongroom-Purpose"

// trailerEnd says how a stream ended: endWhole, or an error as JSON. A stream without it
// was cut off.
const (
	trailerEnd = "Strongroom-End"
	endWhole   = "whole"
)

// failure is an error on its way to a host.
type failure struct {
	Kind       compute.Kind  `json:"kind"`
	Message    string        `json:"message"`
	Public     string        `json:"public,omitempty"`      // "": what is general of the kind
	RetryAfter time.Duration `json:"retry_after,omitempty"` // that the service asked for
}

// failureOf keeps of an error what its users are shown and when it is tried again.
func failureOf(err error) failure {
	f := failure{Kind: compute.KindOf(err), Message: err.Error()}
	var known interface{ PublicText() string }
	if errors.As(err, &known) {
		f.Public = known.PublicText()
	}
	var busy interface{ RetryAfter() time.Duration }
	if errors.As(err, &busy) {
		f.RetryAfter = busy.RetryAfter()
	}
	return f
}

// err gives the error as the gateway had it. One without a kind is a bug, and stays
// without.
func (f failure) err() error {
	told := error(compute.Told(f.Kind, f.Message, f.Public))
	if f.Kind == "" && f.Public == "" {
		told = errors.New(f.Message)
	}
	if f.RetryAfter == 0 {
		return told
	}
	return asked{told, f.RetryAfter}
}

// asked is an error of a service that asked to be left alone for a while.
type asked struct {
	error
	after time.Duration
}

// RetryAfter becomes the retry delay (durable.Boundary).
func (a asked) RetryAfter() time.Duration { return a.after }

func (a asked) Unwrap() error { return a.error }

var statuses = map[compute.Kind]int{
	compute.Invalid: http.StatusBadRequest, compute.Conflict: http.StatusConflict, compute.NotFound: http.StatusNotFound,
	compute.Forbidden: http.StatusForbidden, compute.Corrupt: http.StatusUnprocessableEntity, compute.NoHost: http.StatusInsufficientStorage,
	compute.Unavailable: http.StatusServiceUnavailable,
}

// The paths.
const (
	pathEnroll     = "/v1/enroll"
	pathRenew      = "/v1/renew"
	pathRevoked    = "/v1/revoked" // strongroom-temporal asks for it, too
	pathHost       = "/v1/host"
	pathSeen       = "/v1/host/seen"
	pathPower      = "/v1/host/power"
	pathEvacuated  = "/v1/host/evacuated"
	pathVolume     = "/v1/host/volume"
	pathPassphrase = "/v1/passphrase"
	pathShare      = "/v1/share"

	pathEndorsement = "/v1/endorsement"

	pathTemporalKey = "/v1/host/temporal-key"
	pathTransfer    = "/v1/transfer"
	pathArrival     = "/v1/arrival"
	pathDeparture   = "/v1/departure"
	pathHanded      = "/v1/handed"
	pathHandedFrom  = "/v1/handed/from"
	pathComparable  = "/v1/handed/comparable"
	pathAccepts     = "/v1/accepts"
	pathServers     = "/v1/servers/"
	pathImages      = "/v1/images/"
	pathObjects     = "/v1/objects"
	pathObjectSize  = "/v1/objects/size"
	pathObjectNames = "/v1/objects/names"
)

func pathProgress(id compute.ServerID) string { return pathServers + id.String() + "/progress" }

func pathMetadata(id compute.ServerID) string { return pathServers + id.String() + "/metadata" }

func pathImage(id compute.ImageID) string { return pathImages + id.String() }

func pathImageFile(id compute.ImageID) string { return pathImage(id) + "/file" }

func parseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, compute.Errorf(compute.Invalid, "%q is no id", text)
	}
	return id, nil
}

func marshal(value any) []byte {
	text, _ := json.Marshal(value) // of types that have no other outcome
	return text
}
