package compute

import "github.com/google/uuid"

// The kinds of operations on the encrypted volume that has a host's own state. They are no Actions,
// which work on a server. Of all three a volume has one at a time.
const (
	OpSecureVolumeOpen      = OperationKind("secureVolumeOpen")
	OpSecureVolumeClose     = OperationKind("secureVolumeClose")
	OpSecureVolumeRotateKey = OperationKind("secureVolumeRotateKey")
)

// VolumeID names an encrypted volume of a host.
type VolumeID struct{ uuid.UUID }

// StateVolume is the volume that has a host's own state: its servers' folders, its image cache and the states of
// vTPMs.
func StateVolume(host HostID) VolumeID {
	return VolumeID{uuid.NewSHA1(host.UUID, []byte("state volume"))}
}

// VolumeOwner is a volume as an owner.
func VolumeOwner(id VolumeID) Owner { return Owner{Kind: OwnerVolume, ID: id.UUID} }

// SecureVolume is an encrypted volume of a host, as its row says.
type SecureVolume struct {
	ID     VolumeID `json:"id"`
	Host   HostID   `json:"host"`
	Device string   `json:"device"` // its path on the host
	Wanted bool     `json:"wanted"` // it is to be open whenever its host's worker runs
	// Secret opens it; nil: it was never opened. While its key is changed, one of Secret and Next does.
	Secret *SecretID `json:"secret,omitempty"`
	Next   *SecretID `json:"next,omitempty"`
}

// SecureVolumeOpenArguments are what who asks for OpSecureVolumeOpen says.
type SecureVolumeOpenArguments struct {
	Device string `json:"device,omitempty"` // its path on the host; "": as it was
}

// VolumeSecret plans the secret of a volume, as an operation on it makes one.
func VolumeSecret(volume VolumeID, op OperationID) SecretPlan {
	return SecretPlan{
		ID:    SecretID{op.Derive("secret/volume/" + volume.String())},
		Name:  SecretNamePrefix + "volume " + volume.String() + " state " + string(op),
		Bytes: DiskPassphraseBytes,
	}
}
