package disk

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"strongroom/compute"
)

// mib is the unit of Disk.SizeMB, as everywhere in the field.
const mib = 1 << 20

// headerRoom is what an empty disk takes: LUKS header and first tables.
const headerRoom = 4 * mib

// Create is the activity disk.Create: it ensures that the server's folder has
// the disk. A root or rescue disk is a qcow2 overlay on the cached image, of its size
// when Disk.SizeMB is 0; ephemeral and swap disks are empty qcow2 files, which
// the guest formats: here it would mean a second pass over an encrypted file.
// All of an encrypted disk's own clusters are LUKS; the cached image under it is
// as it came from the image store, encrypted or not (EE-12). A disk of the format
// plain or luksv2 is a logical volume instead, with all of its image in it
// (volumePlace), and on a host with a Ceph pool any other is an RBD image
// (poolPlace).
//
// The file appears under its name when it is complete. One that is there
// already must be what is asked for, and open with the passphrase: otherwise
// Conflict. Invalid: the request contradicts itself, or the image is larger
// than the disk; Corrupt: the secret of its source does not open that; NoHost: no
// room, or the disk was on another host and this one keeps disks in a pool; NotFound: the cache has lost the image, or the key manager has no such secret;
// otherwise as the key manager says.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	if in.Elsewhere && a.Pool.Name != "" && !in.Disk.OnDevice() { // it may be the other host's pool, too
		return CreateResult{}, compute.Errorf(compute.NoHost, "disk %s: this host keeps disks in a pool, where none of another host's come to", in.Disk.ID)
	}
	want, release, err := a.plan(ctx, in)
	if err != nil {
		return CreateResult{}, err
	}
	defer release()
	if in.Disk.Encrypted {
		if want.passphrase, err = a.Keys.Passphrase(ctx, in.Credential, *in.Disk.Secret); err != nil {
			return CreateResult{}, err
		}
		defer want.passphrase.Wipe()
	}
	if in.Disk.BackingSecret != nil {
		if want.backingKey, err = a.Keys.Passphrase(ctx, in.Credential, *in.Disk.BackingSecret); err != nil {
			return CreateResult{}, err
		}
		defer want.backingKey.Wipe()
	}
	path, err := a.diskPath(in.Server, in.Disk)
	if err != nil {
		return CreateResult{}, err
	}
	unlock, err := lockFile(ctx, path, true)
	if err != nil {
		return CreateResult{}, failed(ctx, err, "disk %s: lock", in.Disk.ID)
	}
	defer unlock()
	at, err := a.place(in.Server, in.Disk)
	if err != nil {
		return CreateResult{}, err
	}
	options, err := at.create(ctx, in, want)
	return CreateResult{EncryptionOptions: options, Whole: in.Image != nil && at.whole()}, err
}

// plan works out what the file must be. Until release is called, the image under it stays.
func (a *Activities) plan(ctx context.Context, in CreateInput) (want newDisk, release func(), err error) {
	d := in.Disk
	release = func() {}
	want.bytes = d.SizeMB * mib
	if err := a.contradiction(in); err != nil || in.Image == nil {
		return want, release, err
	}
	if want.backing, err = a.CachedImage(in.Project, *in.Image); err != nil {
		return want, release, err
	}
	if want.backingFormat, err = in.Image.BackingFormat(); err != nil {
		return want, release, err
	}
	if in.Image.IsEncrypted() { // they go with it
		want.templates = filepath.Dir(want.backing)
	}
	if release, err = a.hold(ctx, in, want.backing); err != nil {
		return want, release, err
	}
	if err := a.sizeOn(ctx, in, &want); err != nil {
		release()
		return want, nil, err
	}
	return want, release, nil
}

// contradiction refuses a request that cannot be meant.
func (a *Activities) contradiction(in CreateInput) error {
	d := in.Disk
	switch {
	case d.SizeMB < 0:
		return compute.Errorf(compute.Invalid, "disk %s has the size %d MiB", d.ID, d.SizeMB)
	case d.Encrypted && d.Secret == nil:
		return compute.Errorf(compute.Invalid, "disk %s is to be encrypted and names no secret", d.ID)
	case d.Encrypted && !a.makes(d.Format):
		return compute.Errorf(compute.Invalid, "disk %s: this host cannot make the encryption format %q", d.ID, d.Format)
	case leansOnImage(d) && in.Image == nil && !in.Whole:
		return compute.Errorf(compute.Invalid, "%s disk %s names no image", d.Role, d.ID)
	case !leansOnImage(d) && in.Image != nil:
		return compute.Errorf(compute.Invalid, "%s disk %s names an image", d.Role, d.ID)
	case (d.BackingSecret != nil) != (in.Image != nil && in.Image.IsEncrypted()):
		return compute.Errorf(compute.Invalid, "disk %s: the secret of what lies under it is %v, and its source says otherwise", d.ID, d.BackingSecret)
	case d.BackingSecret != nil && !d.Encrypted:
		return compute.Errorf(compute.Invalid, "disk %s would bare what an encrypted image holds", d.ID)
	case in.Image == nil && d.SizeMB == 0:
		return compute.Errorf(compute.Invalid, "%s disk %s has no size", d.Role, d.ID)
	}
	return nil
}

// sizeOn sees that the image fits the disk, which is of its size where it has none.
func (a *Activities) sizeOn(ctx context.Context, in CreateInput, want *newDisk) error {
	file, err := os.Open(want.backing)
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	defer file.Close()
	i, err := a.look(ctx, file, want.backingFormat)
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	if want.bytes == 0 {
		want.bytes = i.VirtualSize
		if most := cmp.Or(in.Disk.MaxMB, compute.DefaultMaxImageDiskGB<<10); want.bytes > most*mib {
			return compute.Errorf(compute.Invalid, "image %s needs a %s disk of %d MiB, and it may have %d MiB",
				in.Image.ID, in.Disk.Role, (want.bytes+mib-1)/mib, most)
		}
	}
	if want.bytes < i.VirtualSize {
		return compute.Errorf(compute.Invalid, "image %s needs a %s disk of %d MiB, this one has %d MiB",
			in.Image.ID, in.Disk.Role, (i.VirtualSize+mib-1)/mib, in.Disk.SizeMB)
	}
	return nil
}

// sourceOpens sees that the passphrase for the image under a disk opens it.
func (a *Activities) sourceOpens(ctx context.Context, in CreateInput, want newDisk) error {
	if want.backingKey == nil {
		return nil
	}
	file, err := os.Open(want.backing)
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	defer file.Close()
	c := Command{Limited: true, Image: file}
	c.lend(sourceKey, want.backingKey)
	n := luksNode(c.imagePath(), sourceKey)
	if want.backingFormat == compute.ImageQcow2 {
		n = qcow2Node(c.imagePath(), sourceKey, nil)
	}
	err = a.reads(ctx, c, n)
	if says(err, "Invalid password") {
		return compute.Errorf(compute.Corrupt, "image %s does not open with the passphrase in secret %s", in.Image.ID, in.Disk.BackingSecret)
	}
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	return nil
}

// leansOnImage reports whether a disk is an overlay on an image.
func leansOnImage(d compute.Disk) bool {
	return d.Role == compute.RootDisk || d.Role == compute.RescueDisk
}
