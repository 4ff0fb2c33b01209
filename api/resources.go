package api

// resources lists the parts of the API.
func (a *API) resources() []Resource {
	return append(append(a.serverActions(), a.serverShares()...),
		a.extensions(),
		a.flavors(),
		a.flavorManage(),
		a.flavorExtraSpecs(),
		a.flavorAccess(),
		a.keypairs(),
		a.services(),
		a.hypervisors(),
		a.aggregates(),
		a.availabilityZones(),
		a.serverGroups(),
		a.limits(),
		a.tenantUsage(),
		a.quotaSets(),
		a.quotaClassSets(),
		a.servers(),
		a.serverMetadata(),
		a.serverTags(),
		a.serverAttachments(),
		a.serverEvents(),
		a.serverInside(),
		a.serverDiagnostics(),
		a.serverConsoles(),
		a.instanceActions(),
		a.migrations(),
		a.serverMigrations(),
	)
}
