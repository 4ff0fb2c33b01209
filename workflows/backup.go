package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/image"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// rotate removes the server's oldest backups of the type, until as many are left
// as were asked for. The key of each goes with it where the image's deletion
// policy says so and the key was made for it (EE-22). An image that cannot be removed,
// for it is protected or its store is away, is told in the trail and tried again by
// the next backup, and a key waits on the ledger: the new backup is there, and that is
// what was asked for.
func (s *snapshot) rotate(ctx workflow.Context) error {
	const event = "rotate_backups"
	if err := insist(ctx, record.Open, s.opening(event, step{}, false)); err != nil {
		return err
	}
	end := record.CloseInput{OperationInput: s.OperationInput, Event: event}
	if err := s.removeOld(ctx, &end); err != nil {
		end.Error = durable.FromTemporal(err).Message
	}
	return insist(ctx, record.Close, end)
}

// removeOld notes in end what went. It tries every backup and gives the first error.
func (s *snapshot) removeOld(ctx workflow.Context, end *record.CloseInput) error {
	cloud := durable.Cloud(ctx)
	var old image.OldBackupsResult
	in := image.OldBackupsInput{Credential: s.asked.Credential, Server: s.Server, Backup: *s.in.Backup, Newest: s.in.Image}
	if err := workflow.ExecuteActivity(cloud, image.OldBackups, in).Get(ctx, &old); err != nil || len(old.Images) == 0 {
		return err
	}
	var given []compute.Thing
	if err := recorded(ctx, record.Given, s.Server, &given); err != nil {
		return err
	}
	var first error
	for _, b := range old.Images {
		img, key := backupThings(given, b.Image)
		if img == nil { // not made by an operation on this server
			continue
		}
		for _, t := range []*compute.Thing{img, key} {
			if t == nil || t == key && !b.TakeKey {
				continue
			}
			if err := remove(cloud, *t, t.Removers(s.asked.Credential)).Get(ctx, nil); err != nil {
				first = cmp.Or(first, err)
				if t == key { // no later backup finds it by its image
					t.Refused = durable.FromTemporal(err).Message
					end.Waiting = append(end.Waiting, *t)
				}
				break // the key goes after what it opens
			}
			end.Released = append(end.Released, *t)
		}
	}
	return first
}

// backupThings finds an image, and the key that was made for it, among what was given.
func backupThings(given []compute.Thing, id compute.ImageID) (img, key *compute.Thing) {
	for i, t := range given {
		if t.Kind == compute.ThingImage && t.Name == id.String() {
			img = &given[i]
		}
	}
	if img == nil {
		return nil, nil
	}
	for i, t := range given {
		if t.Kind == compute.ThingKeySecret && t.Operation == img.Operation {
			key = &given[i]
		}
	}
	return img, key
}
