package workflows_test

import (
	"context"

	"github.com/google/uuid"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/compute"
)

var imageID = compute.ImageID{UUID: uuid.MustParse("0e7761dd-ee98-41f0-ba35-05994e446431")}

// storedImage is an image in the image store, with its data.
type storedImage struct {
	compute.Image
	data string // what was uploaded
}

// registerImages registers what makes images of servers.
func (w *world) registerImages(r registry) {
	register(w, r, image.Create, func(_ context.Context, in image.CreateInput) (image.CreateResult, error) {
		w.made(compute.ThingImage, compute.PlaceImageStore, in.Image.ID.String())
		if w.images[in.Image.ID.String()] == nil {
			w.images[in.Image.ID.String()] = &storedImage{Image: in.Image}
		}
		return image.CreateResult{Image: in.Image}, nil
	})
	register(w, r, image.Describe, func(_ context.Context, in image.DescribeInput) (none, error) {
		for key, value := range in.Properties {
			w.images[in.Image.String()].Properties[key] = value
		}
		return none{}, nil
	})
	register(w, r, image.OldBackups, func(_ context.Context, in image.OldBackupsInput) (image.OldBackupsResult, error) {
		var old image.OldBackupsResult
		for _, t := range w.handedOver { // in the order in which they were made
			if img := w.images[t.Name]; img != nil && img.IsBackup(in.Server, in.Backup.Type) {
				old.Images = append(old.Images, image.OldBackup{Image: img.ID, TakeKey: img.KeyGoes()})
			}
		}
		old.Images = old.Images[:max(0, len(old.Images)-in.Backup.Rotation)]
		return old, nil
	})
	register(w, r, image.InUse, func(_ context.Context, in image.InUseInput) (image.InUseResult, error) {
		for _, img := range w.images {
			if img.Names(in.Secret) {
				return image.InUseResult{Used: true}, nil
			}
		}
		return image.InUseResult{}, nil
	})
	registerOnHost(w, r, image.Upload, func(ctx context.Context, in image.UploadInput) (image.UploadResult, error) {
		if !w.exports[hostOf(ctx)+" "+in.File] {
			return image.UploadResult{}, compute.Errorf(compute.NotFound, "no such copy")
		}
		w.images[in.Image.String()].data = in.File
		return image.UploadResult{Bytes: 1, SHA256: digestOf(in.Image)}, nil
	})
	registerOnHost(w, r, disk.Export, func(ctx context.Context, in disk.ExportInput) (compute.Export, error) {
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] == compute.PowerRunning {
			return compute.Export{}, compute.Errorf(compute.Conflict, "it runs")
		}
		return w.export(ctx, in.Server, in.Operation, in.Target)
	})
	registerOnHost(w, r, domain.Export, func(ctx context.Context, in domain.ExportInput) (compute.Export, error) {
		if now := w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)]; now != compute.PowerRunning && now != compute.PowerPaused {
			return compute.Export{}, compute.Errorf(compute.Conflict, "it does not run")
		}
		if in.Target.Secret != nil {
			w.made(compute.ThingHypervisorSecret, hostOf(ctx), in.Target.Secret.String())
		}
		return w.export(ctx, in.Server, in.Operation, in.Target)
	})
	registerOnHost(w, r, domain.AbortExport, func(context.Context, domain.AbortExportInput) (none, error) { return none{}, nil })
	register(w, r, image.Remove, func(_ context.Context, in compute.Removal) (none, error) {
		return none{}, w.with(in.Credentials, func() { delete(w.images, in.Thing.Name) })
	})
}

func exported(ctx context.Context, server compute.ServerID, op compute.OperationID) string {
	return hostOf(ctx) + " " + server.String() + "/" + compute.ExportFolder(op)
}

func (w *world) export(ctx context.Context, server compute.ServerID, op compute.OperationID, target compute.ExportTarget) (compute.Export, error) {
	if target.Secret != nil && !w.has(target.Secret) {
		return compute.Export{}, compute.Errorf(compute.NotFound, "no such secret")
	}
	file := server.String() + "/" + compute.ExportFolder(op)
	w.made(compute.ThingDiskFile, hostOf(ctx), file)
	w.exports[exported(ctx, server, op)] = true
	out := compute.Export{File: file, Format: target.Format, VirtualBytes: 1 << 29, Bytes: 1 << 20}
	if target.Secret != nil {
		out.EncryptionOptions = map[string]string{"cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64"}
	}
	return out, nil
}
