package compute

import (
	"regexp"
	"strings"
)

// enum is a set of words in the order in which an error lists them.
type enum []string

// extraSpecs are the extra specs that change something here. Each reads a value and gives
// it as it is to be stored.
var extraSpecs = map[string]func(value string) (string, error){
	"hw:ephemeral_encryption": func(value string) (string, error) {
		if _, err := ParseBool(value); err != nil {
			return "", Errorf(Invalid, "Validation failed; '%s' is not a valid boolean-like value.", value)
		}
		return value, nil
	},
	"hw:ephemeral_encryption_format": func(value string) (string, error) {
		format, err := ParseDiskFormat(value)
		return oneOf(string(format), err, value, enum{"plain", "luks", "luksv2"})
	},
	"hw:tpm_version": func(value string) (string, error) {
		version, err := ParseTPMVersion(value)
		return oneOf(string(version), err, value, enum{"1.2", "2.0"})
	},
	"hw:tpm_model": func(value string) (string, error) {
		model, err := ParseTPMModel(value)
		return oneOf(string(model), err, value, enum{"tpm-tis", "tpm-crb"})
	},
	"hw:tpm_secret_security":                  checkSecretSecurity,
	"hw:ephemeral_encryption_secret_security": checkSecretSecurity,
	"os:secure_boot": func(value string) (string, error) {
		return oneOf(value, nil, value, enum{"disabled", "required"})
	},
	"hw:machine_type": func(value string) (string, error) {
		machine, err := parseMachineType(value)
		if err != nil {
			return "", Errorf(Invalid, "Validation failed; '%s' is not of the format '%s'.", value, machineFormat)
		}
		return machine, nil
	},
	"hw:mem_page_size": func(value string) (string, error) {
		if !pageSize.MatchString(value) {
			return "", Errorf(Invalid, "Validation failed; '%s' is not of the format '%s'.", value, pageSizeFormat)
		}
		if !havePages(value) {
			return "", notHad("hw:mem_page_size", value)
		}
		return value, nil
	},
}

func checkSecretSecurity(value string) (string, error) {
	security, err := ParseSecretSecurity(value)
	return oneOf(string(security), err, value, enum{"user", "host", "deployment"})
}

const pageSizeFormat = `(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)`

var (
	pageSize  = regexp.MustCompile(`\A` + pageSizeFormat + `\z`)
	traitSpec = regexp.MustCompile(`\Atrait[a-zA-Z0-9_-]{0,64}:[A-Z][A-Z0-9_]{0,254}\z`)
	traitKey  = regexp.MustCompile(`\Atrait[a-zA-Z0-9_-]{0,64}\z`)
)

// CheckExtraSpec validates one extra spec as the API does from 2.86 on and gives
// the value to store: the shipped spelling where two are accepted (decisions 4
// and 7). Invalid: a bad value, or an unknown key of Nova's namespaces, with the API's text
// (compute-api A.7), or one that asks for what servers cannot have. Keys of other namespaces
// pass.
func CheckExtraSpec(key, value string) (string, error) {
	if read, known := extraSpecs[key]; known {
		return read(value)
	}
	if traitSpec.MatchString(key) {
		return oneOf(value, nil, value, enum{"required", "forbidden"})
	}
	if spec, ok := known(key); ok {
		return spec.read(key, value)
	}
	if namespace, _, found := strings.Cut(key, ":"); found && knownNamespace.MatchString(namespace) {
		return "", Errorf(Invalid, "Validation failed; extra spec '%s' does not appear to be a valid extra spec.", key)
	}
	return value, nil
}

// oneOf gives read if reading went well and gave one of the words.
func oneOf(read string, err error, value string, words enum) (string, error) {
	if err == nil {
		for _, word := range words {
			if word == read {
				return read, nil
			}
		}
	}
	return "", Errorf(Invalid, "Validation failed; '%s' is not one of: %s.", value, strings.Join(words, ", "))
}
