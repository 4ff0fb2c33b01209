package workflows

import (
	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/mount"
	"strongroom/activities/object"
	"strongroom/activities/port"
	"strongroom/activities/share"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
)

type (
	remover = durable.Activity[compute.Removal, durable.None]
	seer    = durable.Activity[compute.SeenInput, compute.SeenResult]

	hostSeer = durable.HostActivity[compute.SeenInput, compute.SeenResult]
)

// thing says how workflows deal with things of one kind: on a host or in a cloud
// service. The order in which they are removed is compute's (TeardownOrder, GoneFirst).
type thing struct {
	onHost  *durable.HostActivity[compute.Removal, durable.None]
	inCloud *remover
	byName  bool // an audit asks the service for those on the ledger, too: it does not list each
}

// things has every kind of thing.
var things = map[compute.ThingKind]thing{
	compute.ThingRunningDomain:    {onHost: &domain.Remove},
	compute.ThingDomain:           {onHost: &domain.Remove},
	compute.ThingHypervisorSecret: {onHost: &domain.Remove},
	compute.ThingKeySlot:          {onHost: &disk.Remove},
	compute.ThingDiskFile:         {onHost: &disk.Remove},
	compute.ThingCachedImage:      {onHost: &disk.Remove},
	compute.ThingTPMState:         {onHost: &tpm.Remove},
	compute.ThingShareMount:       {onHost: &mount.Remove},
	compute.ThingPluggedPort:      {onHost: &domain.Remove},
	compute.ThingPort:             {inCloud: &port.Remove, byName: true},
	compute.ThingVolumeMapping:    {onHost: &volume.Remove},
	compute.ThingVolumeMount:      {onHost: &volume.Remove},
	compute.ThingShareAccess:      {inCloud: &share.Remove},
	compute.ThingImage:            {inCloud: &image.Remove, byName: true},
	compute.ThingObject:           {inCloud: &object.Remove},
	compute.ThingKeySecret:        {inCloud: &key.Remove},
	compute.ThingTrust:            {inCloud: &trust.Remove},
}

// seersOnHost list what is on a host, seersInCloud what is at each service.
var (
	seersOnHost  = []*hostSeer{&domain.Seen, &disk.Seen, &tpm.Seen, &mount.Seen} // one with a volume of its own has volume.Seen, too
	seersInCloud = map[string]*seer{
		compute.PlaceKeyManager: &key.Seen,
		compute.PlaceImageStore: &image.Seen,
		compute.PlaceObjects:    &object.Seen,
		compute.PlaceShares:     &share.Seen,
		compute.PlaceNetworks:   &port.Seen,
		compute.PlaceIdentity:   &trust.Seen,
	}
)

// services are what an audit looks into beside hosts. Objects are the state of vTPMs, so
// those without any have none.
var services = []auditPlace{
	{Place: compute.PlaceKeyManager, Name: "the key manager", Kind: compute.ThingKeySecret},
	{Place: compute.PlaceImageStore, Name: "the image store", Kind: compute.ThingImage},
	{Place: compute.PlaceObjects, Name: "the object store", Kind: compute.ThingTPMState},
	{Place: compute.PlaceShares, Name: "the shared file systems service", Kind: compute.ThingShareAccess},
	{Place: compute.PlaceNetworks, Name: "the network service", Kind: compute.ThingPort},
	{Place: compute.PlaceIdentity, Name: "the identity service"},
}

// removerOf gives the activity that removes a thing where it is.
func removerOf(t compute.Thing) (remover, error) {
	kind := things[t.Kind]
	host, onHost := t.Host()
	switch {
	case kind.onHost != nil && onHost:
		return kind.onHost.On(durable.Host{ID: host, Name: t.HostName}), nil
	case kind.inCloud != nil && !onHost:
		return *kind.inCloud, nil
	}
	return remover{}, compute.Errorf(compute.Corrupt, "nobody removes a %s at %s", t.Kind, t.Place)
}
