package compute

import (
	"cmp"
	"slices"
	"strings"
)

// The traits that hosts report and servers require, as os-traits names them.
const (
	TraitEncryption       = "COMPUTE_EPHEMERAL_ENCRYPTION"
	TraitEncryptionLUKS   = "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"
	TraitEncryptionLUKSv2 = "COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2"
	TraitEncryptionPlain  = "COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN"
	TraitTPM12            = "COMPUTE_SECURITY_TPM_1_2"
	TraitTPM20            = "COMPUTE_SECURITY_TPM_2_0"
	TraitTPMTIS           = "COMPUTE_SECURITY_TPM_TIS"
	TraitTPMCRB           = "COMPUTE_SECURITY_TPM_CRB"
	TraitTPMUser          = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
	TraitTPMHost          = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST"
	TraitTPMDeployment    = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT"
)

var formatTraits = map[DiskFormat]string{
	FormatLUKS: TraitEncryptionLUKS, FormatLUKSv2: TraitEncryptionLUKSv2, FormatPlain: TraitEncryptionPlain,
}

var tpmTraits = map[string]string{
	string(TPM12): TraitTPM12, string(TPM20): TraitTPM20,
	string(TPMTIS): TraitTPMTIS, string(TPMCRB): TraitTPMCRB,
	string(SecurityUser): TraitTPMUser, string(SecurityHost): TraitTPMHost, string(SecurityDeployment): TraitTPMDeployment,
}

// Traits is what a host must have and must not have. Both are sorted.
type Traits struct {
	Required  []string
	Forbidden []string
}

// TraitsOf gives the traits that a server needs: those of its encryption
// (EE-05), of its vTPM (TPM-04), and every trait:NAME of the flavor's extra specs
// and the image's properties that says "required" or "forbidden". A host here
// is one provider, so a numbered group (trait1:NAME) counts like no group.
//
// Invalid: another word than these two. Conflict: a trait both required and
// forbidden, which no host can satisfy.
func TraitsOf(f Flavor, img Image, enc Encryption, tpm *TPM) (Traits, error) {
	required, forbidden := map[string]bool{}, map[string]bool{}
	for _, source := range []map[string]string{f.ExtraSpecs, img.Properties} {
		for _, key := range sorted(source) {
			word := source[key]
			name, isTrait := traitName(key)
			if !isTrait {
				continue
			}
			switch word {
			case "required":
				required[name] = true
			case "forbidden":
				forbidden[name] = true
			default:
				return Traits{}, Errorf(Invalid, "Trait %s is neither required nor forbidden but '%s'.", name, word)
			}
		}
	}
	if enc.Enabled {
		required[TraitEncryption] = true
		if enc.FormatRequested {
			required[formatTraits[enc.Format]] = true
		}
		if enc.SourceSecret != nil { // the host reads the image as it is
			required[formatTraits[cmp.Or(enc.SourceFormat, FormatLUKS)]] = true
		}
	}
	if tpm != nil {
		required[tpmTraits[string(tpm.Version)]] = true
		required[tpmTraits[string(tpm.Model)]] = true
		required[tpmTraits[string(tpm.Security)]] = true
	}
	traits := Traits{Required: sorted(required), Forbidden: sorted(forbidden)}
	for _, name := range traits.Forbidden {
		if required[name] {
			return Traits{}, Errorf(Conflict, "Trait %s is both required and forbidden by flavor %s and image %s.", name, f.Name, img.Name)
		}
	}
	return traits, nil
}

// Unmet says what keeps a host with these traits from taking the server, "" if
// nothing does.
func (t Traits) Unmet(has []string) string {
	if missing := without(t.Required, has); len(missing) > 0 {
		return "lacks trait " + strings.Join(missing, ", ")
	}
	if has := within(t.Forbidden, has); len(has) > 0 {
		return "has forbidden trait " + strings.Join(has, ", ")
	}
	return ""
}

// traitName gives NAME of trait:NAME and trait<group>:NAME.
func traitName(key string) (string, bool) {
	namespace, name, found := strings.Cut(key, ":")
	return name, found && traitKey.MatchString(namespace)
}

// sorted gives the keys of a map. It is never nil.
func sorted[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	//workflowcheck:ignore
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
