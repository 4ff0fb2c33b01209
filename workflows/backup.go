package workflows

import (
	"cmp"
	"errors"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/image"
	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// CreateBackup makes an image as CreateImage does, and then there are as many of its
// type as were asked for (EE-22).
func CreateBackup(ctx workflow.Context, in durable.OperationInput) error {
	return makeImage(ctx, in, compute.CreateBackup)
}

// rotateBackups removes the server's oldest backups of the type, until as many are left
// as were asked for. The key of each goes with it where the image's deletion
// policy says so and the key was made for it (EE-22). An image that cannot be removed,
// for it is protected or its store is away, is told in the trail and tried again by
// the next backup, and a key waits on the ledger: the new backup is there, and that is
// what was asked for.
func (s *snapshot) rotateBackups(ctx workflow.Context) error {
	return s.runAfterCommit(ctx, step{event: "rotate_backups"}, func(ctx workflow.Context, _ bool, end *record.Close) error {
		if err := s.removeOldBackups(ctx, end); err != nil {
			end.Error = durable.FromTemporal(err).Message
		}
		return nil
	})
}

// removeOldBackups notes in end what went. It tries every backup and gives the first error.
func (s *snapshot) removeOldBackups(ctx workflow.Context, end *record.Close) error {
	old, err := image.OldBackups.Run(ctx, image.OldBackupsInput{
		Credential: s.asked.Credential, Server: s.Server, Backup: *s.in.Backup, Newest: s.in.Image,
	})
	if err != nil || len(old.Images) == 0 {
		return err
	}
	handedOver, err := ledger.HandedOver.Run(ctx, compute.ServerOwner(s.Server))
	if err != nil {
		return err
	}
	var first error
	for _, b := range old.Images {
		img, key := backupThings(handedOver, b.Image)
		if img == nil { // not made by an operation on this server
			continue
		}
		gone, _ := s.startRemoval(ctx, *img).await(ctx)
		if gone.State == compute.ThingWaiting {
			first = cmp.Or(first, error(compute.Errorf(compute.Unavailable, "image %s: %w", b.Image, errors.New(gone.Reason))))
			continue // the key goes after what it opens
		}
		end.Released = append(end.Released, gone)
		if key == nil || !b.TakeKey {
			continue
		}
		taken, err := s.takeUnused(ctx, b.Image, *key)
		if err != nil {
			first = cmp.Or(first, err)
		}
		if !taken {
			continue // for now, or as long as something else uses it: imagekey.Watch looks again
		}
		if gone, _ = s.startRemoval(ctx, *key).await(ctx); gone.State == compute.ThingWaiting {
			end.Waiting = append(end.Waiting, gone) // no later backup finds it by its image
		} else {
			end.Released = append(end.Released, gone)
		}
	}
	return first
}

// takeUnused has the ledger take the key of an image that is gone (ledger.TakeKey), where the image store has no
// other image that names it.
func (s *snapshot) takeUnused(ctx workflow.Context, img compute.ImageID, key compute.Thing) (bool, error) {
	id, ok := key.Secret()
	if !ok {
		return false, nil
	}
	used, err := image.InUse.Run(ctx, image.InUseInput{Credential: s.asked.Credential, Secret: id})
	if err != nil || used.Used {
		return false, err
	}
	got, err := ledger.TakeKey.Run(ctx, ledger.TakeKeyInput{Image: img, Key: key})
	return got.Taken, err
}

// backupThings finds an image, and the key that was made for it, among what was handed over.
func backupThings(handedOver []compute.Thing, id compute.ImageID) (img, key *compute.Thing) {
	for i, t := range handedOver {
		if t.Kind == compute.ThingImage && t.Name == id.String() {
			img = &handedOver[i]
		}
	}
	if img == nil {
		return nil, nil
	}
	for i, t := range handedOver {
		if t.Kind == compute.ThingKeySecret && t.Operation == img.Operation {
			key = &handedOver[i]
		}
	}
	return img, key
}
