package compute

import "slices"

// Keyring says with which credentials a server's keys are made and read.
type Keyring struct {
	Disks Credential `json:"disks"`
	TPM   Credential `json:"tpm"`
	// Rescue reads the key of the image that the server is rescued with: whoever
	// boots from an image must be allowed to.
	Rescue Credential `json:"rescue"`
}

// Keyring gives the credentials for a server's keys in an operation that asked
// began: the asker's own ("user"), what the owner delegated ("host"), or
// strongroom's own ("deployment"). Whose keys they are is the flavor's word.
func (s Server) Keyring(asked Credential) Keyring {
	of := func(security SecretSecurity) Credential {
		switch security {
		case SecurityHost:
			return s.Delegated()
		case SecurityDeployment:
			return DeploymentCredential()
		}
		return asked
	}
	ring := Keyring{Disks: of(s.diskSecurity()), TPM: asked, Rescue: asked}
	if s.TPM != nil {
		ring.TPM = of(s.TPM.Security)
	}
	return ring
}

// Of is the credential for one of the server's keys.
func (k Keyring) Of(s Server, id SecretID) Credential {
	if s.TPM != nil && s.TPM.Secret != nil && *s.TPM.Secret == id {
		return k.TPM
	}
	for _, d := range s.Disks {
		if d.Secret != nil && *d.Secret == id || d.BackingSecret != nil && *d.BackingSecret == id {
			return k.OfDisk(d)
		}
	}
	return k.Disks
}

// OfDisk is the credential for the keys of one disk.
func (k Keyring) OfDisk(d Disk) Credential {
	if d.Role == RescueDisk {
		return k.Rescue
	}
	return k.Disks
}

// KeyCredential is the credential for a key, by the first server that has it: what one is to be, say, and what it was.
func KeyCredential(id SecretID, asked Credential, of ...Server) Credential {
	for _, s := range of {
		if slices.Contains(s.Secrets(), id) {
			return s.Keyring(asked).Of(s, id)
		}
	}
	return of[0].Keyring(asked).Disks
}

// Delegates reports whether the server's owner delegates the use of its keys.
func (s Server) Delegates() bool {
	if s.TPM != nil && s.TPM.Security == SecurityHost {
		return true
	}
	for _, d := range s.Disks {
		if d.Encrypted && d.Role != RescueDisk {
			return s.diskSecurity() == SecurityHost
		}
	}
	return false
}

// Delegated is what the server's owner delegates, if he does.
func (s Server) Delegated() Credential { return DelegatedCredential(s.ID, s.ProjectID, s.UserID) }

// diskSecurity was checked before the flavor was frozen into the server.
func (s Server) diskSecurity() SecretSecurity {
	security, _ := DiskSecurity(s.Flavor)
	return security
}

// WithKept has the keys of one part read from the host that a running server comes from, which keeps them.
func (k Keyring) WithKept(part KeyPart) Keyring {
	if part == KeyOfTPM {
		k.TPM = KeptCredential()
	} else {
		k.Disks, k.Rescue = KeptCredential(), KeptCredential()
	}
	return k
}
