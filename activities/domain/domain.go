// Package domain runs servers as libvirt domains on a compute host and keeps
// libvirt's own secrets private, in memory, and short-lived.
package domain

import "strongroom/compute"

// The registered names of the activities; they run on the host's queue.
const (
	Start         = "domain.Start"
	Stop          = "domain.Stop"
	Destroy       = "domain.Destroy"
	ForgetSecrets = "domain.ForgetSecrets"
	Inventory     = "domain.Inventory"
)

// StartInput asks that a server's domain exists and runs. The passphrases of
// its disks and TPM are read with the keyring, lent to libvirt as private
// ephemeral secrets, and taken back before the activity ends, whichever way.
type StartInput struct {
	Keys   compute.Keyring `json:"keys"`
	Server compute.Server  `json:"server"`
	// NewTPM says that no guest has used the vTPM yet: state that does not open is what
	// a setup left that was killed, and is made anew.
	NewTPM bool `json:"new_tpm,omitempty"`
}

// StopInput asks that a server's domain is shut off: by its power button, and
// by force once GraceSeconds have passed. 0 means force at once.
type StopInput struct {
	Server       compute.ServerID `json:"server"`
	GraceSeconds int              `json:"grace_seconds"`
}

// PowerResult is the state in which the domain was left.
type PowerResult struct {
	PowerState compute.PowerState `json:"power_state"`
}

// DestroyInput asks that a server has no domain, running or defined. Its TPM
// state goes with it unless KeepTPM.
type DestroyInput struct {
	Server  compute.ServerID `json:"server"`
	KeepTPM bool             `json:"keep_tpm"`
}

// ForgetSecretsInput asks that libvirt knows none of these secrets any more.
type ForgetSecretsInput struct {
	Server  compute.ServerID   `json:"server"`
	Secrets []compute.SecretID `json:"secrets"`
}

// InventoryResult lists what libvirt has of ours.
type InventoryResult struct {
	Domains []string `json:"domains"` // names "instance-<server uuid>"
	Secrets []string `json:"secrets"` // uuids of libvirt secrets that name one of our servers in their usage
}
