package answertest

import "strings"

// volumeType is a type as a show has it; the default policy decides who sees which key.
func volumeType(caller string, qos, access bool) Schema {
	k := Keys{
		"id": UUID, "name": Text, "description": OrNull(Text), "is_public": Boolean,
		"extra_specs": Map(OrNull(Text)), "os-volume-type-access:is_public": Boolean, "qos_specs_id": Null,
	}
	if !qos {
		delete(k, "qos_specs_id")
	}
	if caller == "reader" { // whether a reader sees it is the policy's, which VT-07 is about
		k["os-volume-type-access:is_public"] = Optional(Boolean)
	}
	if !access {
		delete(k, "os-volume-type-access:is_public")
	}
	return Object(k)
}

func volumeQuotas(of Schema) Keys {
	k := Keys{"id": Text}
	for _, name := range strings.Fields("volumes snapshots gigabytes per_volume_gigabytes backups backup_gigabytes groups") {
		k[name] = of
	}
	return k
}

func volumeLimits() Schema {
	k := Keys{}
	for _, name := range strings.Fields("maxTotalVolumes maxTotalVolumeGigabytes maxTotalSnapshots maxTotalBackups maxTotalBackupGigabytes " +
		"totalVolumesUsed totalGigabytesUsed totalSnapshotsUsed totalBackupsUsed totalBackupGigabytesUsed") {
		k[name] = Integer
	}
	return One("limits", Object(Keys{"rate": Empty, "absolute": Object(k)}))
}

var (
	pair       = Schema{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": OrNull(Text)}
	specs      = One("extra_specs", Map(OrNull(Text)))
	encryption = Keys{
		"volume_type_id": UUID, "encryption_id": UUID, "provider": Text, "control_location": Enum("front-end", "back-end"),
		"cipher": OrNull(Text), "key_size": OrNull(Integer),
	}
	quotaSet = Either(One("quota_set", Object(volumeQuotas(Integer))), One("quota_set", Object(func() Keys {
		k := volumeQuotas(Object(Keys{"limit": Integer, "in_use": Integer, "reserved": Integer}))
		k["id"] = Text
		return k
	}())))
)

// VolumeAnswers have the schema of the answers of each route of the volume types API to the tests' callers, derived from Cinder's,
// which are the same from 3.0 to 3.71. nil: there is no body.
var VolumeAnswers = map[string]func(caller string) Schema{
	"GET /qos-specs": func(string) Schema { return One("qos_specs", Empty) },
	"GET /types": func(caller string) Schema {
		return Object(Keys{"volume_types": List(volumeType(caller, true, true)), "volume_type_links": Optional(Links("next"))})
	},
	"GET /types/:id":    func(caller string) Schema { return One("volume_type", volumeType(caller, true, true)) },
	"POST /types":       func(caller string) Schema { return One("volume_type", volumeType(caller, false, true)) },
	"PUT /types/:id":    func(caller string) Schema { return One("volume_type", volumeType(caller, false, false)) },
	"DELETE /types/:id": nothing,

	"GET /types/:id/extra_specs":         always(specs),
	"POST /types/:id/extra_specs":        always(specs),
	"GET /types/:id/extra_specs/:key":    always(pair),
	"PUT /types/:id/extra_specs/:key":    always(pair),
	"DELETE /types/:id/extra_specs/:key": nothing,

	"GET /types/:id/os-volume-type-access": always(One("volume_type_access", List(Object(Keys{"volume_type_id": UUID, "project_id": Text})))),
	"POST /types/:id/action":               nothing,

	"GET /types/:id/encryption": func(string) Schema {
		k := Keys{"deleted": Enum(false), "deleted_at": Null, "created_at": Micros, "updated_at": OrNull(Micros)}
		for name, s := range encryption {
			k[name] = s
		}
		return Either(Object(k), Object(Keys{})) // of a type without encryption
	},
	"POST /types/:id/encryption":     always(One("encryption", Object(encryption))),
	"GET /types/:id/encryption/:key": always(Schema{"type": "object", "minProperties": 1, "maxProperties": 1}),
	"PUT /types/:id/encryption/:key": always(One("encryption", Object(Keys{ // what was sent
		"provider": Optional(Text), "control_location": Optional(Text), "cipher": Optional(OrNull(Text)), "key_size": Optional(Any),
	}))),
	"DELETE /types/:id/encryption/:key": nothing,

	"GET /limits":                     always(volumeLimits()),
	"GET /os-quota-sets/:id":          always(quotaSet),
	"GET /os-quota-sets/:id/defaults": always(quotaSet),
	"PUT /os-quota-sets/:id":          always(quotaSet),
	"DELETE /os-quota-sets/:id":       nothing,
	"GET /os-quota-class-sets/:id":    always(One("quota_class_set", Object(volumeQuotas(Integer)))),
	"PUT /os-quota-class-sets/:id":    always(One("quota_class_set", Object(volumeQuotas(Integer)))),

	"GET /types/:id/changes": always(One("changes", List(Object(Keys{
		"action": Text, "name": Text, "before": Map(Any), "after": Map(Any), "request_id": Request, "user_id": Text, "project_id": Text, "made_at": Text,
	})))),
}

func nothing(string) Schema { return nil }

func always(s Schema) func(string) Schema { return func(string) Schema { return s } }
