package api

import (
	"context"
	"fmt"
	"net/http"

	"strongroom/api/fault"
	"strongroom/compute"
)

// Checker reports whether a credential may use a service for what servers need of
// it. Forbidden, NotFound: it may not; Conflict: a quota is used up; Unavailable: there is
// no such service in the catalog, or it does not answer in the time that a user waits.
type Checker interface {
	Check(ctx context.Context, cred compute.Credential) error
}

// KeyManager is a key manager as the api asks it.
type KeyManager interface {
	Checker
	// Look reports whether the credential may read a secret. NotFound, Forbidden: it
	// may not; Invalid: what it holds opens no disk; otherwise as Check.
	Look(ctx context.Context, cred compute.Credential, id compute.SecretID) error
}

// ObjectStore is an object store as the api asks it.
type ObjectStore interface {
	Checker
	// Has reports whether an object is there as it was stored; otherwise as for a read of it.
	Has(ctx context.Context, cred compute.Credential, stored compute.StoredTPM) error
}

const mayNotStore = "Your token may not store secrets in the key manager in this project (there the role is usually called creator). "

// probe tries what a server is going to need of the cloud with the credentials
// that it is going to use: what would fail later is refused now (EE-10, TPM-08).
func (a *API) probe(r *Request, p *serverPlan) error {
	for _, security := range p.securities() {
		cred := r.Credential()
		switch security {
		case compute.SecurityDeployment:
			cred = compute.DeploymentCredential()
		case compute.SecurityHost:
			if p.delegated {
				continue
			}
			if r.Token.ApplicationCredentialID() != "" {
				return fault.BadRequest("Flavor %s delegates the use of the server's keys (secret security \"host\"), "+
					"and a token of an application credential cannot delegate. Log in with a password or single sign-on.", p.flavor.Name)
			}
		}
		if err := a.config.Keys.Check(r.Context(), cred); err != nil {
			return refusal(err, mayNotStore+"Encrypted disks and vTPMs need that.",
				"The key manager is not available: encrypted disks and vTPMs cannot be made now.")
		}
	}
	if err := a.probeImage(r, p); err != nil {
		return err
	}
	if p.tpm == nil {
		return nil
	}
	if err := a.config.Objects.Check(r.Context(), r.Credential()); err != nil {
		if compute.Is(err, compute.Conflict) { // as Nova answers a quota
			return &fault.Fault{Code: http.StatusForbidden, Message: "The object store of this project has no room left: its quota is used up. " +
				"Servers with a vTPM need some to be shelved.", Cause: err}
		}
		return refusal(err, "There is no object store that your token may use in this project: servers with a vTPM need one to be shelved.",
			"The object store is not available: servers with a vTPM need one to be shelved.")
	}
	return nil
}

// probeImage sees that the caller may read what opens an encrypted image, whoever's
// it is (EE-15).
func (a *API) probeImage(r *Request, p *serverPlan) error {
	source := p.encryption.SourceSecret
	if source == nil {
		return nil
	}
	err := a.config.Keys.Look(r.Context(), r.Credential(), *source)
	if compute.Is(err, compute.Invalid) || compute.Is(err, compute.Corrupt) {
		return fault.BadRequest("Image %s is encrypted, and what secret %s holds is no passphrase.", p.image.ID, source)
	}
	if compute.Is(err, compute.NotFound) {
		return &fault.Fault{Code: http.StatusForbidden, Cause: err, Message: fmt.Sprintf("Image %s is encrypted, and the key manager does not have secret %s, "+
			"which opens it: somebody deleted it. Until its operator restores it no server can be made of this image. Servers and other images "+
			"have secrets of their own.", p.image.ID, source)}
	}
	return refusal(err, fmt.Sprintf("Image %s is encrypted, and your token may not read secret %s, which opens it. "+
		"Its owner can let you, with an ACL in the key manager.", p.image.ID, source),
		"The key manager is not available: servers cannot be made of encrypted images now.")
}

// securities are the modes of the keys that a server is going to have, each once.
func (p *serverPlan) securities() []compute.SecretSecurity {
	var out []compute.SecretSecurity
	if p.encryption.Enabled {
		out = append(out, p.diskSecurity)
	}
	if p.tpm != nil && (len(out) == 0 || out[0] != p.tpm.Security) {
		out = append(out, p.tpm.Security)
	}
	return out
}

// refusal is the fault of a check that failed.
func refusal(err error, forbidden, away string) error {
	switch {
	case compute.Is(err, compute.Forbidden), compute.Is(err, compute.NotFound):
		return &fault.Fault{Code: http.StatusForbidden, Message: forbidden, Cause: err}
	case compute.Is(err, compute.Unavailable):
		return &fault.Fault{Code: http.StatusServiceUnavailable, Message: away, RetryAfter: fault.RetryAfter, Cause: err}
	}
	return err
}
