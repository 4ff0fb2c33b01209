package api

import (
	"strongroom/api/policy"
	"strongroom/api/volume"
)

// Routes are all routes of the compute API, for tests that have a case for each.
func (a *API) Routes() []Route {
	var all []Route
	for _, r := range a.resources() {
		all = append(all, r.Routes...)
	}
	return all
}

// VolumeRoutes are all routes of the volume types API.
func (a *API) VolumeRoutes() []string { return a.volume.(*volume.API).Routes() }

// AllResources are those of an API of a cloud that has all services, without a database.
func AllResources() []Resource { return (&API{config: Config{Shares: noShares{}}}).resources() }

type noShares struct{ Shares }

// AllVolumeRoutes are those of the volume types API, without a database, and AllVolumeRules its rules.
func AllVolumeRoutes() ([]string, policy.Rules) { return (&volume.API{}).Routes(), volume.Rules }
