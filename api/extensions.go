package api

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
)

// extensions is the list of extensions of the API's old days. Some clients ask
// for it before they use a part of the API.
func (a *API) extensions() Resource {
	const rule = "os_compute_api:extensions"
	return Resource{
		Rules: policy.Rules{rule: policy.Anyone},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/extensions", Rule: rule, Handle: listExtensions},
			{Method: http.MethodGet, Path: "/extensions/:alias", Rule: rule, Handle: showExtension},
		},
	}
}

type extension struct {
	Name        string `json:"name"`
	Alias       string `json:"alias"`
	Description string `json:"description"`
	Links       []Link `json:"links"`
	Updated     string `json:"updated"`
	Namespace   string `json:"namespace"`
}

// spoken are the extensions whose parts of the API are here.
var spoken = []extension{
	describe("DiskConfig", "OS-DCF", "Disk Management Extension."),
	describe("ExtendedAvailabilityZone", "OS-EXT-AZ", "Extended Availability Zone support."),
	describe("ImageSize", "OS-EXT-IMG-SIZE", "Adds image size to image listings."),
	describe("ExtendedIps", "OS-EXT-IPS", "Adds type parameter to the ip list."),
	describe("ExtendedIpsMac", "OS-EXT-IPS-MAC", "Adds mac address parameter to the ip list."),
	describe("ExtendedServerAttributes", "OS-EXT-SRV-ATTR", "Extended Server Attributes support."),
	describe("ExtendedStatus", "OS-EXT-STS", "Extended Status support."),
	describe("FlavorDisabled", "OS-FLV-DISABLED", "Support to show the disabled status of a flavor."),
	describe("FlavorExtraData", "OS-FLV-EXT-DATA", "Provide additional data for flavors."),
	describe("SchedulerHints", "OS-SCH-HNT", "Pass arbitrary key/value pairs to the scheduler."),
	describe("ServerUsage", "OS-SRV-USG", "Adds launched_at and terminated_at on Servers."),
	describe("AdminActions", "os-admin-actions", "Enable admin-only server actions."),
	describe("Aggregates", "os-aggregates", "Admin-only aggregate administration."),
	describe("AttachInterfaces", "os-attach-interfaces", "Attach interface support."),
	describe("AvailabilityZone", "os-availability-zone", "Availability zones."),
	describe("BlockDeviceMappingV2Boot", "os-block-device-mapping-v2-boot", "Allow boot with the new BDM data format."),
	describe("ConfigDrive", "os-config-drive", "Config Drive Extension."),
	describe("ConsoleAuthTokens", "os-console-auth-tokens", "Console token authentication support."),
	describe("ConsoleOutput", "os-console-output", "Console log output support."),
	describe("CreateBackup", "os-create-backup", "Create a backup of a server."),
	describe("DeferredDelete", "os-deferred-delete", "Instance deferred delete."),
	describe("Evacuate", "os-evacuate", "Enables server evacuation."),
	describe("ExtendedEvacuateFindHost", "os-extended-evacuate-find-host", "Enables server evacuation without target host."),
	describe("ExtendedHypervisors", "os-extended-hypervisors", "Extended hypervisors support."),
	describe("ExtendedRescueWithImage", "os-extended-rescue-with-image", "Allow the user to specify the image to use for rescue."),
	describe("ExtendedServices", "os-extended-services", "Extended services support."),
	describe("ExtendedServicesDelete", "os-extended-services-delete", "Extended services deletion support."),
	describe("ExtendedVolumes", "os-extended-volumes", "Extended Volumes support."),
	describe("FlavorAccess", "os-flavor-access", "Flavor access support."),
	describe("FlavorExtraSpecs", "os-flavor-extra-specs", "Flavor extra specs support."),
	describe("FlavorManage", "os-flavor-manage", "Flavor create/delete API support."),
	describe("FlavorRxtx", "os-flavor-rxtx", "Support to show the rxtx status of a flavor."),
	describe("FlavorSwap", "os-flavor-swap", "Support to show the swap status of a flavor."),
	describe("Hosts", "os-hosts", "Admin-only host administration."),
	describe("HypervisorStatus", "os-hypervisor-status", "Show hypervisor status."),
	describe("Hypervisors", "os-hypervisors", "Admin-only hypervisor administration."),
	describe("InstanceActions", "os-instance-actions", "View a log of actions and events taken on an instance."),
	describe("OSInstanceUsageAuditLog", "os-instance-usage-audit-log", "Admin-only Task Log Monitoring."),
	describe("Keypairs", "os-keypairs", "Keypair Support."),
	describe("LockServer", "os-lock-server", "Enable lock/unlock server actions."),
	describe("MigrateServer", "os-migrate-server", "Enable migrate and live-migrate server actions."),
	describe("Migrations", "os-migrations", "Provide data on migrations."),
	describe("MultipleCreate", "os-multiple-create", "Allow multiple create in the Create Server v2.1 API."),
	describe("Networks", "os-networks", "Admin-only Network Management Extension."),
	describe("PauseServer", "os-pause-server", "Enable pause/unpause server actions."),
	describe("PreserveEphemeralOnRebuild", "os-preserve-ephemeral-rebuild", "Allow preservation of the ephemeral partition on rebuild."),
	describe("QuotaClasses", "os-quota-class-sets", "Quota classes management support."),
	describe("Quotas", "os-quota-sets", "Quotas management support."),
	describe("Consoles", "os-consoles", "Interactive Console support."), // the name of the same in the first version of the API
	describe("Consoles", "os-remote-consoles", "Interactive Console support."),
	describe("Rescue", "os-rescue", "Instance rescue mode."),
	describe("SecurityGroups", "os-security-groups", "Security group support."),
	describe("ServerDiagnostics", "os-server-diagnostics", "Allow Admins to view server diagnostics through server action."),
	describe("ServerExternalEvents", "os-server-external-events", "Server External Event Triggers."),
	describe("ServerGroupQuotas", "os-server-group-quotas", "Adds quota support to server groups."),
	describe("ServerGroups", "os-server-groups", "Server group support."),
	describe("ServerPassword", "os-server-password", "Server password support."),
	describe("ServerSortKeys", "os-server-sort-keys", "Add sorting support in get Server v2 API."),
	describe("ServerStartStop", "os-server-start-stop", "Start/Stop instance support."),
	describe("Services", "os-services", "Services support."),
	describe("Shelve", "os-shelve", "Instance shelve mode."),
	describe("SimpleTenantUsage", "os-simple-tenant-usage", "Simple tenant usage extension."),
	describe("SuspendServer", "os-suspend-server", "Enable suspend/resume server actions."),
	describe("OSTenantNetworks", "os-tenant-networks", "Tenant-based Network Management Extension."),
	describe("UsedLimits", "os-used-limits", "Provide data on limited resources that are being used."),
	describe("UsedLimitsForAdmin", "os-used-limits-for-admin", "Provide data to admin on limited resources used by other tenants."),
	describe("UserData", "os-user-data", "Add user_data to the Create Server API."),
}

func describe(name, alias, description string) extension {
	return extension{
		Name: name, Alias: alias, Description: description, Links: []Link{}, Updated: "2014-12-03T00:00:00Z",
		Namespace: "http://docs.openstack.org/compute/ext/fake_xml",
	}
}

func listExtensions(*Request) (any, error) {
	return map[string]any{"extensions": spoken}, nil
}

func showExtension(r *Request) (any, error) {
	for _, e := range spoken {
		if e.Alias == r.Param("alias") {
			return map[string]any{"extension": e}, nil
		}
	}
	return nil, fault.NotFound("The resource could not be found.")
}
