package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"strongroom/api/fault"
	"strongroom/api/validation"
)

// createRequest is the body of POST /servers, below "server".
type createRequest struct {
	Name             string                  `json:"name"`
	ImageRef         string                  `json:"imageRef"`
	FlavorRef        validation.TextOrNumber `json:"flavorRef"`
	AdminPass        string                  `json:"adminPass"`
	Metadata         map[string]string       `json:"metadata"`
	Networks         json.RawMessage         `json:"networks"`
	DiskConfig       string                  `json:"OS-DCF:diskConfig"`
	AccessIPv4       string                  `json:"accessIPv4"`
	AccessIPv6       string                  `json:"accessIPv6"`
	AvailabilityZone string                  `json:"availability_zone"`
	LegacyDevices    []json.RawMessage       `json:"block_device_mapping"`
	Devices          []requestedDevice       `json:"block_device_mapping_v2"`
	ConfigDrive      validation.Boolean      `json:"config_drive"`
	KeyName          *string                 `json:"key_name"`
	MinCount         *validation.Integer     `json:"min_count"`
	MaxCount         *validation.Integer     `json:"max_count"`
	ReservationOnly  validation.Boolean      `json:"return_reservation_id"`
	SecurityGroups   []struct{ Name string } `json:"security_groups"`
	UserData         *string                 `json:"user_data"`
	Description      *string                 `json:"description"`
	Tags             []string                `json:"tags"`
	Personality      []json.RawMessage       `json:"personality"`
	TrustedCerts     []string                `json:"trusted_image_certificates"`
	Host             *string                 `json:"host"`
	Hypervisor       *string                 `json:"hypervisor_hostname"`
	Hostname         string                  `json:"hostname"`

	hints requestedHints
}

// readCreate reads the body of a create and refuses what is not offered: it is
// better to say so than to make another server than the one that was asked for.
func readCreate(r *Request) (createRequest, error) {
	var body struct {
		Server createRequest   `json:"server"`
		Hints  json.RawMessage `json:"os:scheduler_hints"`
		Older  json.RawMessage `json:"OS-SCH-HNT:scheduler_hints"`
	}
	if err := r.Decode(&body); err != nil {
		return createRequest{}, err
	}
	in := body.Server
	if body.Hints == nil {
		body.Hints = body.Older
	}
	var err error
	if in.hints, err = readHints(body.Hints); err != nil {
		return in, err
	}
	switch {
	case len(in.Personality) > 0:
		return in, noPersonality()
	case len(in.TrustedCerts) > 0:
		return in, noCertificates()
	case len(in.LegacyDevices) > 0 && len(in.Devices) > 0:
		return in, fault.BadRequest("Using different block_device_mapping syntaxes is not allowed in the same request.")
	case len(in.LegacyDevices) > 0:
		return in, noVolumes()
	case len(in.Metadata) > maxMetadata:
		return in, tooMuchMetadata(maxMetadata)
	}
	return in, nil
}

// counts are how many servers are asked for.
func (in createRequest) counts() (least, most int, err error) {
	least, most = 1, 1
	if in.MinCount != nil {
		least, most = int(*in.MinCount), int(*in.MinCount)
	}
	if in.MaxCount != nil {
		most = int(*in.MaxCount)
	}
	switch {
	case least < 1 || most < 1: // the schema has said so
		return 0, 0, fault.BadRequest("min_count and max_count must be 1 or more")
	case least > most:
		return 0, 0, fault.BadRequest("min_count must be <= max_count")
	case least > maxServers:
		return 0, 0, fault.Forbidden("Quota exceeded for instances: Requested %d, but at most %d can be created at once", least, maxServers)
	}
	return least, min(most, maxServers), nil
}

func noPersonality() error {
	return fault.BadRequest("personality is not supported: files are not injected into servers. Use user_data.")
}

func noCertificates() error {
	return fault.BadRequest("trusted_image_certificates are not supported: image signatures are not verified.")
}

func tooMuchMetadata(most int64) error {
	return fault.Forbidden("Maximum number of metadata items exceeds %d", most)
}

// names gives the name and hostname of the i-th of n servers.
func (in createRequest) names(i, n int, id string) (name, host string) {
	name, host = in.Name, in.Hostname
	if n > 1 {
		name = fmt.Sprintf("%s-%d", name, i+1)
		if host != "" {
			first, domain, dotted := strings.Cut(host, ".")
			host = fmt.Sprintf("%s-%d", first, i+1)
			if dotted {
				host += "." + domain
			}
		}
	}
	if host == "" {
		host = hostname(name, "Server-"+id)
	}
	return name, host
}

// hostname makes a host name of a server's name: what cannot stand in one is
// left out. instead is taken when nothing is left.
func hostname(name, instead string) string {
	host := strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '_' || r == '.': // a name is no domain
			return '-'
		case r == '-' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	if len(host) > maxHostname {
		host = host[:maxHostname]
	}
	if host = strings.Trim(host, ".-"); host == "" {
		return instead
	}
	return host
}

const maxHostname = 63
