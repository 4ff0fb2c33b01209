package api

import (
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
)

// The limits of what a server may carry.
const (
	maxTags      = 50
	maxMetadata  = 128   // items
	maxUserData  = 65535 // characters of base64
	maxServers   = 100   // of one request
	maxNetworks  = compute.MaxInterfaces
	maxCertNames = 50
)

var (
	diskConfig = validation.Enum("AUTO", "MANUAL")
	ipv4       = validation.Schema{"type": "string", "format": "ipv4"}
	ipv6       = validation.Schema{"type": "string", "format": "ipv6"}
	fixedIP    = validation.Schema{"type": "string", "oneOf": []validation.Schema{{"format": "ipv4"}, {"format": "ipv6"}}}
	tagName    = validation.Schema{"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[^,/]*$"}
	hostPart   = validation.Schema{"type": "string", "minLength": 2, "maxLength": 63, "pattern": "^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$"}
	hostFQDN   = validation.Schema{"type": "string", "minLength": 2, "maxLength": 255, "pattern": "^[a-zA-Z0-9]+[a-zA-Z0-9-.]*[a-zA-Z0-9]+$"}
)

// createSchema is the schema of the body of POST /servers.
func createSchema(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"name": validation.Name,
		"imageRef": {"oneOf": []validation.Schema{
			{"type": "string", "format": "uuid"}, {"type": "string", "maxLength": 0},
		}},
		"flavorRef": {"type": []string{"string", "integer"}, "minLength": 1},
		"adminPass": validation.Text, "metadata": validation.Metadata(), "networks": networksSchema(v),
		"OS-DCF:diskConfig": diskConfig, "accessIPv4": ipv4, "accessIPv6": ipv6, "availability_zone": validation.Name,
		"block_device_mapping":    {"type": "array", "items": validation.Object(nil, legacyDevice())},
		"block_device_mapping_v2": {"type": "array", "items": validation.Object(nil, deviceProperties(v))},
		"config_drive":            validation.BooleanOrText, "key_name": validation.Name,
		"min_count": validation.Positive, "max_count": validation.Positive, "return_reservation_id": validation.BooleanOrText,
		"security_groups": {"type": "array", "items": validation.Object(nil, validation.Properties{"name": validation.Name})},
		"user_data":       {"type": "string", "format": "base64", "maxLength": maxUserData},
	}
	if v >= 19 {
		p["description"] = validation.Description
	}
	if v >= 52 {
		p["tags"] = validation.Schema{"type": "array", "items": tagName, "maxItems": maxTags}
	}
	if v < 57 {
		p["personality"] = personality
	}
	if v >= 63 {
		p["trusted_image_certificates"] = trustedCertificates
	}
	if v >= 74 {
		p["host"], p["hypervisor_hostname"] = validation.DomainName, validation.DomainName
	}
	if v >= 90 {
		p["hostname"] = hostnameSchema(v)
	}
	required := []string{"name", "flavorRef"}
	if v >= 37 {
		required = append(required, "networks")
	}
	return validation.Object([]string{"server"}, validation.Properties{
		"server": validation.Object(required, p), "os:scheduler_hints": hints, "OS-SCH-HNT:scheduler_hints": hints,
	})
}

func hostnameSchema(v microversion.Version) validation.Schema {
	if v >= 94 {
		return hostFQDN
	}
	return hostPart
}

var trustedCertificates = validation.Schema{
	"type": []string{"array", "null"}, "minItems": 1, "maxItems": maxCertNames, "uniqueItems": true,
	"items": validation.Schema{"type": "string", "minLength": 1},
}

var personality = validation.Schema{"type": "array", "items": validation.Object(nil, validation.Properties{
	"path": validation.Text, "contents": {"type": "string", "format": "base64"},
})}

func networksSchema(v microversion.Version) validation.Schema {
	one := validation.Properties{
		"fixed_ip": fixedIP,
		"port":     {"oneOf": []validation.Schema{validation.UUID, validation.Null}},
		"uuid":     validation.UUID,
	}
	if v < 37 {
		one["uuid"] = validation.Text
	}
	// The tags of 2.32 were lost from 2.37 until 2.42.
	if v >= 32 && v < 37 || v >= 42 {
		one["tag"] = tagName
	}
	list := validation.Schema{"type": "array", "items": validation.Object(nil, one)}
	if v < 37 {
		return list
	}
	return validation.Schema{"oneOf": []validation.Schema{list, validation.Enum("none", "auto")}}
}

// legacyDevice are the keys of block_device_mapping.
func legacyDevice() validation.Properties {
	return validation.Properties{
		"virtual_name": {"type": "string", "maxLength": 255}, "volume_id": validation.UUID, "snapshot_id": validation.UUID,
		"volume_size":           {"type": []string{"integer", "string"}, "pattern": "^[0-9]+$", "minimum": 1, "maximum": validation.MaxInt},
		"device_name":           {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._/-]*$"},
		"delete_on_termination": validation.BooleanOrText, "no_device": {}, "connection_info": validation.Text,
	}
}

// deviceProperties are the keys of block_device_mapping_v2.
func deviceProperties(v microversion.Version) validation.Properties {
	p := legacyDevice()
	short := validation.Schema{"type": "string", "maxLength": 255}
	p["source_type"] = validation.Enum("volume", "image", "snapshot", "blank")
	p["destination_type"] = validation.Enum("local", "volume")
	p["uuid"] = validation.Schema{"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"}
	p["image_id"] = validation.UUID
	p["guest_format"], p["device_type"], p["disk_bus"] = short, short, short
	p["boot_index"] = validation.Schema{"type": []string{"integer", "string", "null"}, "pattern": "^-?[0-9]+$"}
	if v == 32 || v >= 42 { // for one version only, and again later
		p["tag"] = tagName
	}
	if v >= 67 {
		p["volume_type"] = validation.Schema{"type": []string{"string", "null"}, "minLength": 0, "maxLength": 255}
	}
	return p
}

// updateSchema is the schema of the body of PUT /servers/{id}.
func updateSchema(v microversion.Version) validation.Schema {
	p := validation.Properties{"name": validation.Name, "OS-DCF:diskConfig": diskConfig, "accessIPv4": ipv4, "accessIPv6": ipv6}
	if v >= 19 {
		p["description"] = validation.Description
	}
	if v >= 90 {
		p["hostname"] = hostnameSchema(v)
	}
	return validation.Object([]string{"server"}, validation.Properties{"server": validation.Object(nil, p)})
}

var (
	createBody = validation.Since(createSchema, 1, 19, 32, 33, 37, 42, 52, 57, 63, 67, 74, 90, 94)
	updateBody = validation.Since(updateSchema, 1, 19, 90, 94)
)
