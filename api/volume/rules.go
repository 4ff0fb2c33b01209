package volume

import "strongroom/api/policy"

// The policy rules, with the block storage API's names.
const (
	ruleList          = "volume_extension:type_get_all"
	ruleShow          = "volume_extension:type_get"
	ruleCreate        = "volume_extension:type_create"
	ruleUpdate        = "volume_extension:type_update"
	ruleDelete        = "volume_extension:type_delete"
	ruleShowSpecs     = "volume_extension:access_types_extra_specs" // extra_specs in the view of a type
	ruleListSpecs     = "volume_extension:types_extra_specs:index"
	ruleShowSpec      = "volume_extension:types_extra_specs:show"
	ruleReadSensitive = "volume_extension:types_extra_specs:read_sensitive"
	ruleCreateSpecs   = "volume_extension:types_extra_specs:create"
	ruleUpdateSpec    = "volume_extension:types_extra_specs:update"
	ruleDeleteSpec    = "volume_extension:types_extra_specs:delete"
	ruleShowIsPublic  = "volume_extension:volume_type_access" // os-volume-type-access:is_public in the view of a type
	ruleListAccess    = "volume_extension:volume_type_access:get_all_for_type"
	ruleAddAccess     = "volume_extension:volume_type_access:addProjectAccess"
	ruleRemoveAccess  = "volume_extension:volume_type_access:removeProjectAccess"
	ruleCreateCrypt   = "volume_extension:volume_type_encryption:create"
	ruleShowCrypt     = "volume_extension:volume_type_encryption:get"
	ruleUpdateCrypt   = "volume_extension:volume_type_encryption:update"
	ruleDeleteCrypt   = "volume_extension:volume_type_encryption:delete"
	ruleLimits        = "limits_extension:used_limits"
	ruleShowQuotas    = "volume_extension:quotas:show"
	ruleUpdateQuotas  = "volume_extension:quotas:update"
	ruleDeleteQuotas  = "volume_extension:quotas:delete"
	ruleQuotaClasses  = "volume_extension:quota_classes"
	ruleListQoS       = "volume_extension:qos_specs_manage:get_all"
	ruleChanges       = "strongroom:volume_types:changes"
	ruleIsAdmin       = "context_is_admin"
)

// Rules are the defaults: any authorised user sees types and the user visible extra
// specs, whatever his role is, also one that means nothing here; all else is for
// administrators (VT-07, VT-10).
var Rules = policy.Rules{
	ruleList: policy.Anyone, ruleShow: policy.Anyone,
	ruleCreate: policy.Admin, ruleUpdate: policy.Admin, ruleDelete: policy.Admin,
	ruleShowSpecs: policy.Anyone, ruleListSpecs: policy.Anyone, ruleShowSpec: policy.Anyone,
	ruleReadSensitive: policy.Admin,
	ruleCreateSpecs:   policy.Admin, ruleUpdateSpec: policy.Admin, ruleDeleteSpec: policy.Admin,
	ruleShowIsPublic: policy.Anyone,
	ruleListAccess:   policy.Admin, ruleAddAccess: policy.Admin, ruleRemoveAccess: policy.Admin,
	ruleCreateCrypt: policy.Admin, ruleShowCrypt: policy.Admin, ruleUpdateCrypt: policy.Admin, ruleDeleteCrypt: policy.Admin,
	ruleLimits: policy.ProjectReaderOrAdmin, ruleShowQuotas: policy.ProjectReaderOrAdmin,
	ruleUpdateQuotas: policy.Admin, ruleDeleteQuotas: policy.Admin, ruleQuotaClasses: policy.Admin,
	ruleListQoS: policy.Admin, ruleChanges: policy.Admin,
}
