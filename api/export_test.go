package api

import (
	"slices"

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

// VolumeRoutes are the method and the path of all routes of the volume types API.
func (a *API) VolumeRoutes() (all []string) {
	for _, r := range a.volume.(*volume.API).Routes() {
		all = append(all, r.Method+" "+r.Path)
	}
	return slices.Compact(all) // a path may have several actions
}

// AllResources are those of an API of a cloud that has all services, without a database.
func AllResources() []Resource { return (&API{config: Config{Shares: noShares{}}}).resources() }

type noShares struct{ Shares }

// AllVolumeRoutes are the routes of the volume types API, without a database, and its rules.
func AllVolumeRoutes() ([]volume.Route, policy.Rules) { return (&volume.API{}).Routes(), volume.Rules }
