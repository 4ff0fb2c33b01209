package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/durable"
)

// cacheImage is the step that copies the image to the host on which a disk is made of it. A
// host keeps plain images. It keeps an encrypted one as long as disks depend on it (EE-12):
// the ledger has a thing for each use, and the copy goes with the last. how is hereOnly or
// orElsewhere.
func (o *operation) cacheImage(d compute.Disk, img compute.Image, host durable.Host, how func(cacheImage) cacheImage) (step, error) {
	s := step{event: "cache_image", host: &host, undoLast: true} // disks lie on it
	in := disk.CacheImageInput{Credential: o.asked.Credential, Image: img}
	s.do = func(ctx workflow.Context) error { return how(disk.CacheImage.On(host)).Do(ctx, in) }
	if d.Role == "" || !img.IsEncrypted() {
		return s, nil
	}
	var err error
	if in.Use, err = img.CacheUse(o.server.ProjectID, o.Server, d); err != nil {
		return s, err
	}
	s.makes = []compute.Thing{o.onHost(compute.ThingCachedImage, host, in.Use)}
	return s, nil
}

type cacheImage = durable.Activity[disk.CacheImageInput, durable.None]

// hereOnly waits for the host: no other one would do.
func hereOnly(a cacheImage) cacheImage { return a }

// orElsewhere fails when no worker there takes the work in time: the server could be on
// another host.
func orElsewhere(a cacheImage) cacheImage { return a.TakenWithin(durable.HostSilence) }
