package compute

import (
	"strings"
	"time"
)

// TPMOf reads the vTPM that flavor and image together ask for: hw:tpm_version,
// hw:tpm_model, their image properties, and the flavor's hw:tpm_secret_security
// (TPM-03 … TPM-07, decision 4). nil: none. A trait alone makes no device.
//
// Invalid: an unknown value, a model without a version, CRB with version 1.2.
// Conflict: flavor and image disagree.
func TPMOf(f Flavor, img Image) (*TPM, error) {
	version, err := agreed(f, img, "tpm_version", ParseTPMVersion)
	if err != nil {
		return nil, err
	}
	model, err := agreed(f, img, "tpm_model", ParseTPMModel)
	if err != nil {
		return nil, err
	}
	security := SecurityUser
	if text := f.ExtraSpecs["hw:tpm_secret_security"]; text != "" {
		if security, err = ParseSecretSecurity(text); err != nil {
			return nil, Errorf(Invalid, "Flavor %s has an invalid hw:tpm_secret_security extra spec. %w", f.Name, err)
		}
	}
	switch {
	case version == nil && model == nil:
		return nil, nil
	case version == nil:
		return nil, Errorf(Invalid, "TPM model %s is requested without a TPM version. "+
			"Set hw:tpm_version in the flavor or hw_tpm_version in the image.", *model)
	case model == nil:
		return &TPM{Version: *version, Model: TPMTIS, Security: security}, nil
	case *model == TPMCRB && *version != TPM20:
		return nil, Errorf(Invalid, "TPM model CRB is only valid with TPM version 2.0.")
	}
	return &TPM{Version: *version, Model: *model, Security: security}, nil
}

// FreshTPM is a server's vTPM whose state is to be made, by an operation that began then.
type FreshTPM struct {
	Server    ServerID
	Version   TPMVersion
	Operation OperationID
	Began     time.Time
}

// ParseTPMVersion reads a version: 1.2 or 2.0, else Invalid.
func ParseTPMVersion(text string) (TPMVersion, error) {
	switch version := TPMVersion(strings.TrimSpace(text)); version {
	case TPM12, TPM20:
		return version, nil
	}
	return "", Errorf(Invalid, "Invalid TPM version '%s'. Allowed values: 1.2, 2.0.", text)
}

// ParseTPMModel reads a model in the document's or the shipped spelling, in any
// case: TIS, tpm-tis, CRB, tpm-crb; else Invalid.
func ParseTPMModel(text string) (TPMModel, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "tis", "tpm-tis":
		return TPMTIS, nil
	case "crb", "tpm-crb":
		return TPMCRB, nil
	}
	return "", Errorf(Invalid, "Invalid TPM model '%s'. Allowed values: tpm-tis, tpm-crb.", text)
}

// ParseSecretSecurity reads who may open a server's secrets: user, host or
// deployment, else Invalid.
func ParseSecretSecurity(text string) (SecretSecurity, error) {
	switch security := SecretSecurity(strings.TrimSpace(text)); security {
	case SecurityUser, SecurityHost, SecurityDeployment:
		return security, nil
	}
	return "", Errorf(Invalid, "Invalid secret security '%s'. Allowed values: user, host, deployment.", text)
}

// SharedTPMStorage is why a server is not migrated live: swtpm would have its state on both hosts at
// once (TPM-39).
const SharedTPMStorage = "Servers with a vTPM are not migrated live between hosts that share the storage of the states of vTPMs."

// WithoutSecret is the vTPM as a server's row has it: its secret's id is kept in the system
// metadata only. nil: none.
func (tpm *TPM) WithoutSecret() *TPM {
	if tpm == nil {
		return nil
	}
	out := *tpm
	out.Secret = nil
	return &out
}
