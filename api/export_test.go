package api

// Routes are all routes of the compute API, for tests that have a case for each.
func (a *API) Routes() []Route {
	var all []Route
	for _, r := range a.resources() {
		all = append(all, r.Routes...)
	}
	return all
}

// VolumeRoutes are all routes of the volume types API.
func (a *API) VolumeRoutes() []string { return a.volume.Routes() }
