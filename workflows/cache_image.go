package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// caching is the step that has the server's image on a host.
type caching struct {
	step
	left *leaving
}

// leaving is how a host was given up.
type leaving struct {
	passedBy bool
	waiting  []compute.Thing // that it has, or a part of it
}

// cacheImage plans the step for the server's root disk. profile says whether another
// host would do.
func (o *operation) cacheImage(host compute.HostID, profile profile) (caching, error) {
	root, _ := o.server.RootDisk()
	return o.cacheImageUnder(root, o.server.Image, host, profile)
}

// profile is how work is given to a host.
type profile func(workflow.Context, compute.HostID) workflow.Context

// cacheImageUnder plans the step for a disk. A plain image stays where it is. An
// encrypted one is there for the disk that leans on it (EE-12): the use is on the
// ledger, and the copy goes with its last one.
func (o *operation) cacheImageUnder(d compute.Disk, img compute.Image, host compute.HostID, profile profile) (caching, error) {
	c := caching{step: step{event: "cache_image", host: &host}, left: &leaving{}}
	in := disk.CacheImageInput{Credential: o.asked.Credential, Image: img}
	c.do = func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(profile(ctx, host), disk.CacheImage, in).Get(ctx, nil)
	}
	if d.Role == "" || !img.IsEncrypted() {
		return c, nil
	}
	var err error
	if in.Use, err = img.CacheUse(o.server.ProjectID, o.Server, d); err != nil {
		return c, err
	}
	c.lean = true // disks lie on it
	c.makes = []compute.Thing{o.thing(compute.ThingCachedImage, host.String(), in.Use)}
	c.undo = func(ctx workflow.Context) error {
		switch {
		case len(c.left.waiting) > 0:
			return &refusal{c.left.waiting}
		case c.left.passedBy:
			return nil
		}
		return workflow.ExecuteActivity(durable.HostUndo(ctx, host), disk.ReleaseImage, disk.ReleaseImageInput{Use: in.Use}).Get(ctx, nil)
	}
	return c, nil
}

// passBy gives a host up for another one. It may be silent for ever, and nothing waits
// for it. One that never took the work has nothing to be undone, and what it was to make
// goes off the books. One that took it and fell silent may have that: it waits for its
// host (Reap).
func (o *operation) passBy(ctx workflow.Context, c caching, took bool) error {
	if len(c.makes) == 0 {
		return nil
	}
	if !took {
		c.left.passedBy = true
		return o.close(ctx, record.CloseInput{Event: c.event, Error: "the host did not take the work", Released: c.makes})
	}
	if workflow.GetVersion(ctx, "what a lost host has waits for it", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	const why = "the host fell silent"
	for _, t := range c.makes {
		t.Refused = why
		c.left.waiting = append(c.left.waiting, t)
	}
	return o.close(ctx, record.CloseInput{Event: c.event, Error: why, Waiting: c.left.waiting})
}
