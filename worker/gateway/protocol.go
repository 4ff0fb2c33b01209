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

// purpose says for which server a host asks, and with which credential.
type purpose struct {
	Server     compute.ServerID   `json:"server"`
	Credential compute.Credential `json:"credential"`
}

type passphraseRequest struct {
	purpose
	Secret compute.SecretID `json:"secret"`
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

// headerPurpose carries a purpose, as JSON, where the body is an image.
const headerPurpose = "Strongroom-Purpose"

// trailerEnd says how a stream ended: endWhole, or an error as JSON. A stream without it
// was cut off.
const (
	trailerEnd = "Strongroom-End"
	endWhole   = "whole"
)

// failure is an error on its way to a host.
type failure struct {
	Kind    compute.Kind `json:"kind"`
	Message string       `json:"message"`
}

// err gives the error as the gateway had it: one without a kind is a bug, and must not be
// tried for ever.
func (f failure) err() error {
	if f.Kind == "" {
		return errors.New("gateway: " + f.Message)
	}
	return compute.Errorf(f.Kind, "%s", f.Message)
}

// failureOf keeps the kind and the message of an error.
func failureOf(err error) failure { return failure{Kind: compute.KindOf(err), Message: err.Error()} }

var statuses = map[compute.Kind]int{
	compute.Invalid: http.StatusBadRequest, compute.Conflict: http.StatusConflict, compute.NotFound: http.StatusNotFound,
	compute.Forbidden: http.StatusForbidden, compute.Corrupt: http.StatusUnprocessableEntity, compute.NoHost: http.StatusInsufficientStorage,
	compute.Unavailable: http.StatusServiceUnavailable,
}

// The paths.
const (
	pathEnroll     = "/v1/enroll"
	pathRenew      = "/v1/renew"
	pathHost       = "/v1/host"
	pathSeen       = "/v1/host/seen"
	pathPower      = "/v1/host/power"
	pathPassphrase = "/v1/passphrase"
	pathServers    = "/v1/servers/"
	pathImages     = "/v1/images/"
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
