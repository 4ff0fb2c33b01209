package local

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"strongroom/activities/folder"
	"strongroom/activities/image"
	"strongroom/compute"
)

// Config says where the images lie and what inspects them.
type Config struct {
	Dir     string
	QemuImg string           // program; "qemu-img" if empty
	Now     func() time.Time // time.Now if nil
}

// Library is an image.Library in a folder.
type Library struct {
	files  files
	look   inspector
	now    func() time.Time
	places places
}

var _ image.Library = (*Library)(nil)

// Open opens the folder (made if absent, mode 0700) and clears what writers
// that died left in it.
func Open(cfg Config) (*Library, error) {
	dir, err := filepath.Abs(cfg.Dir) // qemu-img could take a relative name for a protocol
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "find the images' folder: %w", err)
	}
	opened, err := folder.Open(dir)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "open the images' folder: %w", err)
	}
	l := &Library{files: files{opened}, look: inspector{program: cfg.QemuImg}, now: cfg.Now}
	if l.look.program == "" {
		l.look.program = "qemu-img"
	}
	if l.now == nil {
		l.now = time.Now
	}
	unlock, err := l.files.lock(context.Background())
	if err != nil {
		return nil, err
	}
	defer unlock()
	return l, l.files.clearOrphans()
}

// Get implements image.Store.
func (l *Library) Get(_ context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	return l.visible(cred, id)
}

func (l *Library) visible(cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	img, err := l.files.read(id)
	if err != nil {
		return compute.Image{}, err
	}
	if !image.MayRead(cred, img) {
		return compute.Image{}, image.Missing(id)
	}
	return img, nil
}

// own gives an image that the credential may change.
func (l *Library) own(cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	img, err := l.visible(cred, id)
	if err == nil && !image.Owns(cred, img) {
		err = compute.Errorf(compute.Forbidden, "image %s belongs to another project", id)
	}
	return img, err
}

// List implements image.Library, in the order of the ids unless the newest are wanted: a marker is the last one.
func (l *Library) List(_ context.Context, cred compute.Credential, in image.ListInput) (image.ListResult, error) {
	if in.Newest {
		return l.newest(cred, in)
	}
	return l.list(cred, in)
}

func (l *Library) list(cred compute.Credential, in image.ListInput) (image.ListResult, error) {
	ids, err := l.files.ids()
	if err != nil {
		return image.ListResult{}, err
	}
	var out image.ListResult
	for _, id := range ids {
		if id.String() <= in.Marker || in.IDs != nil && !slices.Contains(in.IDs, id) {
			continue
		}
		if in.Limit > 0 && len(out.Images) == in.Limit {
			out.Last = out.Images[in.Limit-1].ID
			out.Next = out.Last.String()
			break
		}
		if out.Images, err = l.appendListed(out.Images, cred, in, id); err != nil {
			return image.ListResult{}, err
		}
	}
	return out, nil
}

// appendListed reads an image that a list comes to, and appends it where it is asked for. One that is gone meanwhile is left out,
// and one that is damaged, which Get reports.
func (l *Library) appendListed(to []compute.Image, cred compute.Credential, in image.ListInput, id compute.ImageID) ([]compute.Image, error) {
	img, err := l.files.read(id)
	switch {
	case compute.Is(err, compute.NotFound), compute.Is(err, compute.Corrupt):
		return to, nil
	case err != nil:
		return nil, err
	}
	visible := cred.ProjectID == "" || image.Owns(cred, img) || img.Visibility == image.Public
	if visible && in.Wants(cred, img) {
		to = append(to, img)
	}
	return to, nil
}

// Naming implements image.Library.
func (l *Library) Naming(ctx context.Context, cred compute.Credential, secret compute.SecretID) (found []compute.ImageID, err error) {
	for img, err := range image.All(ctx, l, cred, image.ListInput{}) {
		if err != nil {
			return nil, err
		}
		if img.Names(secret) {
			found = append(found, img.ID)
		}
	}
	return found, nil
}

// Create implements image.Library.
func (l *Library) Create(ctx context.Context, cred compute.Credential, img compute.Image) (compute.Image, error) {
	img, err := image.Asked(cred, img)
	if err != nil {
		return compute.Image{}, err
	}
	unlock, err := l.files.lock(ctx)
	if err != nil {
		return compute.Image{}, err
	}
	defer unlock()
	have, err := l.files.read(img.ID)
	switch {
	case err == nil && image.Same(have, img):
		return have, nil
	case err == nil:
		return compute.Image{}, compute.Errorf(compute.Conflict, "image id %s is taken by another image", img.ID)
	case !compute.Is(err, compute.NotFound):
		return compute.Image{}, err
	}
	img.CreatedAt = l.stamp()
	img.UpdatedAt = img.CreatedAt
	return img, l.files.write(img)
}

// stamp is the present time as records keep it: UTC, whole seconds.
func (l *Library) stamp() time.Time { return l.now().UTC().Truncate(time.Second) }

// Update implements image.Library.
func (l *Library) Update(ctx context.Context, cred compute.Credential, img compute.Image) (compute.Image, error) {
	unlock, err := l.files.lock(ctx)
	if err != nil {
		return compute.Image{}, err
	}
	defer unlock()
	have, err := l.own(cred, img.ID)
	if err == nil {
		err = image.CheckChange(have, img)
	}
	if err != nil {
		return compute.Image{}, err
	}
	if have.Status != image.StatusQueued && (have.DiskFormat != img.DiskFormat || have.ContainerFormat != img.ContainerFormat) {
		return compute.Image{}, compute.Errorf(compute.Forbidden, "the formats of image %s are fixed since it has data", img.ID)
	}
	have.Name, have.Visibility, have.Tags, have.Protected = img.Name, img.Visibility, img.Tags, img.Protected
	have.MinDiskGB, have.MinRAMMB, have.Properties = img.MinDiskGB, img.MinRAMMB, img.Properties
	have.DiskFormat, have.ContainerFormat = img.DiskFormat, img.ContainerFormat
	have.UpdatedAt = l.stamp()
	return have, l.files.write(have)
}

// ChangeProperties implements image.Library.
func (l *Library) ChangeProperties(ctx context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error) {
	unlock, err := l.files.lock(ctx)
	if err != nil {
		return compute.Image{}, err
	}
	defer unlock()
	img, err := l.own(cred, id)
	if err != nil {
		return compute.Image{}, err
	}
	properties := map[string]string{}
	for name, value := range img.Properties {
		if remove == nil || !remove(name) {
			properties[name] = value
		}
	}
	maps.Copy(properties, set)
	if maps.Equal(properties, img.Properties) {
		return img, nil
	}
	img.Properties, img.UpdatedAt = properties, l.stamp()
	return img, l.files.write(img)
}

// Delete implements image.Library.
func (l *Library) Delete(ctx context.Context, cred compute.Credential, id compute.ImageID) error {
	unlock, err := l.files.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	img, err := l.own(cred, id)
	if err != nil {
		return err
	}
	if img.Protected {
		return compute.Errorf(compute.Forbidden, "image %s is protected and cannot be deleted", id)
	}
	return l.files.remove(img)
}
