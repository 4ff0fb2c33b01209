package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/durable"
)

// cacheImage is the step that copies the image to the host on which a disk is made of it. A
// host keeps plain images. It keeps an encrypted one as long as disks depend on it (EE-12):
// the ledger has a thing for each use, and the copy goes with the last. how is hereOnly,
// orElsewhere or, of a migration, orFormerHost.
func (o *operation) cacheImage(d compute.Disk, img compute.Image, host durable.Host, how cacheOn) (step, error) {
	s := step{event: "cache_image", host: &host, undoLast: true} // disks lie on it
	in := disk.CacheImageInput{Credential: o.asked.Credential, Image: img}
	s.do = func(ctx workflow.Context) error { return how(ctx, host, in) }
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

// mostBusy is how long a host may be busy before the server goes to another one.
const mostBusy = 6 * time.Hour

type cacheOn = func(ctx workflow.Context, host durable.Host, in disk.CacheImageInput) error

// hereOnly waits for the host: no other one would do.
func hereOnly(ctx workflow.Context, host durable.Host, in disk.CacheImageInput) error {
	return cacheWithin(0)(ctx, host, in)
}

// cacheWithin fails when the host has not taken the work within a limit; 0: it is waited for.
func cacheWithin(limit time.Duration) cacheOn {
	return func(ctx workflow.Context, host durable.Host, in disk.CacheImageInput) error {
		return disk.CacheImage.On(host).TakenWithin(limit).Do(ctx, in)
	}
}

// orElsewhere fails when the host is silent: the server could be on another one. A host
// that takes short work and has no slot for a download is busy, and is waited for (H6), as
// long as a download may take.
func orElsewhere(ctx workflow.Context, host durable.Host, in disk.CacheImageInput) error {
	return whileBusy(ctx, host, func(limit time.Duration) error {
		return cacheWithin(limit)(ctx, host, in)
	})
}

// whileBusy tries what a host is to take within a limit as long as the host is busy, and not
// silent.
func whileBusy(ctx workflow.Context, host durable.Host, try func(limit time.Duration) error) error {
	_, err := whileBusyFor(ctx, host, mostBusy, try)
	return err
}

// whileBusyFor is whileBusy for a time of its caller's own. busy: nothing was taken in that
// time, and the host answers still.
func whileBusyFor(ctx workflow.Context, host durable.Host, most time.Duration, try func(limit time.Duration) error) (busy bool, err error) {
	var taken error
	limit := durable.HostSilence
	for waited := time.Duration(0); ; waited += limit {
		if waited > 0 {
			limit = durable.BusyHost
		}
		err := try(limit)
		if !durable.IsHostSilent(err) {
			return false, err
		}
		if durable.WasTaken(err) { // it may have begun in any of the calls
			taken = err
		}
		busy := disk.Ping.On(host).Once().Do(ctx, disk.PingInput{}) == nil
		if !busy || waited >= most {
			return busy, cmp.Or(taken, err)
		}
	}
}
