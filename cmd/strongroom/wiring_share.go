package main

import (
	"context"

	"strongroom/activities/share"
	"strongroom/api"
	"strongroom/compute"
)

// shareAccess lets the api look at shares; nil: there is no service, and no route of them.
func shareAccess(service share.Service) api.Shares {
	if _, none := service.(share.None); none {
		return nil
	}
	return shareRecords{service}
}

type shareRecords struct{ service share.Service }

// Look implements api.Shares.
func (s shareRecords) Look(ctx context.Context, cred compute.Credential, id compute.ShareID) (protocol, location string, err error) {
	found, err := s.service.Get(ctx, cred, id)
	if err != nil {
		return "", "", err
	}
	if err := found.Check(); err != nil {
		return "", "", err
	}
	if err := found.CheckOwner(cred); err != nil {
		return "", "", err
	}
	locations, err := s.service.Locations(ctx, cred, id)
	if err != nil {
		return "", "", err
	}
	if len(locations) == 0 {
		return "", "", share.Unexported(id)
	}
	return string(found.Protocol), locations[0].Path(), nil
}
