package workflows_test

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/object"
	"strongroom/compute"
)

var imageID = compute.ImageID{UUID: uuid.MustParse("0e7761dd-ee98-41f0-ba35-05994e446431")}

// shelved is an image in the image store.
type shelved struct {
	compute.Image
	data string // what was uploaded
}

// registerImages registers what makes images of servers.
func (w *world) registerImages(r registry) {
	add := func(name string, f any) { r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	add(image.Create, act(w, image.Create, func(_ context.Context, in image.CreateInput) (image.CreateResult, error) {
		w.made(compute.ThingImage, compute.PlaceImageStore, in.Image.ID.String())
		if w.images[in.Image.ID.String()] == nil {
			w.images[in.Image.ID.String()] = &shelved{Image: in.Image}
		}
		return image.CreateResult{Image: in.Image}, nil
	}))
	add(image.Describe, act(w, image.Describe, func(_ context.Context, in image.DescribeInput) (none, error) {
		for key, value := range in.Properties {
			w.images[in.Image.String()].Properties[key] = value
		}
		return none{}, nil
	}))
	add(image.OldBackups, act(w, image.OldBackups, func(_ context.Context, in image.OldBackupsInput) (image.OldBackupsResult, error) {
		var old image.OldBackupsResult
		for _, t := range w.given { // in the order in which they were made
			if img := w.images[t.Name]; img != nil && img.IsBackup(in.Server, in.Backup.Type) {
				old.Images = append(old.Images, image.OldBackup{Image: img.ID, TakeKey: img.KeyGoes()})
			}
		}
		old.Images = old.Images[:max(0, len(old.Images)-in.Backup.Rotation)]
		return old, nil
	}))
	add(image.Upload, act(w, image.Upload, func(ctx context.Context, in image.UploadInput) (image.UploadResult, error) {
		if !w.exports[hostOf(ctx)+" "+in.File] {
			return image.UploadResult{}, compute.Errorf(compute.NotFound, "no such copy")
		}
		w.images[in.Image.String()].data = in.File
		return image.UploadResult{Bytes: 1}, nil
	}))
	add(image.Delete, act(w, image.Delete, func(_ context.Context, in image.DeleteInput) (none, error) {
		return none{}, w.with(in.Credential, in.Others, func() { delete(w.images, in.Image.String()) })
	}))
	add(image.Inventory, act(w, image.Inventory, func(_ context.Context, in image.InventoryInput) (image.InventoryResult, error) {
		out := image.InventoryResult{Looks: compute.Looks{Projects: []string{project}}}
		for _, img := range w.images {
			if img.data == "" || slices.Contains(in.Known, img.ID) {
				out.Images = append(out.Images, img.ID)
			}
		}
		return out, nil
	}))
	add(object.Inventory, act(w, object.Inventory, func(_ context.Context, in object.InventoryInput) (out object.InventoryResult, err error) {
		for _, p := range in.Projects {
			out.Looks.Projects = append(out.Looks.Projects, p.Project)
			out.Names = append(out.Names, w.objects...)
		}
		return out, nil
	}))
	add(disk.Export, act(w, disk.Export, func(ctx context.Context, in disk.ExportInput) (compute.Export, error) {
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] == compute.PowerRunning {
			return compute.Export{}, compute.Errorf(compute.Conflict, "it runs")
		}
		return w.export(ctx, in.Server, in.Operation, in.Target)
	}))
	add(domain.Export, act(w, domain.Export, func(ctx context.Context, in domain.ExportInput) (compute.Export, error) {
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] != compute.PowerRunning {
			return compute.Export{}, compute.Errorf(compute.Conflict, "it does not run")
		}
		if in.Target.Secret != nil {
			w.made(compute.ThingHypervisorSecret, hostOf(ctx), in.Target.Secret.String())
		}
		return w.export(ctx, in.Server, in.Operation, in.Target)
	}))
	add(domain.AbortExport, act(w, domain.AbortExport, func(ctx context.Context, in domain.AbortExportInput) (none, error) {
		for _, id := range in.Secrets {
			delete(w.lent, hostOf(ctx)+" "+id.String())
		}
		return none{}, nil
	}))
	add(disk.DeleteExport, act(w, disk.DeleteExport, func(ctx context.Context, in disk.DeleteExportInput) (none, error) {
		delete(w.exports, exported(ctx, in.Server, in.Operation))
		return none{}, nil
	}))
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
