package api

// resources lists the parts of the API.
func (a *API) resources() []Resource {
	return []Resource{
		a.extensions(),
		a.flavors(),
		a.flavorManage(),
		a.flavorExtraSpecs(),
		a.flavorAccess(),
		a.keypairs(),
	}
}
