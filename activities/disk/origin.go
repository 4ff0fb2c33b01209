package disk

import (
	"context"
	"os"
	"path/filepath"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// origin is a disk that is exported, with all that it is made of.
type origin struct {
	path          string
	device        bool // it is a block device, open, and the key below is the kernel's business
	info          imageInfo
	bytes         int64              // that the guest sees
	stored        int64              // of its files
	key           *secret.Passphrase // nil: its own clusters are not encrypted
	backing       string             // "": it leans on nothing
	backingFormat string
	backingKey    *secret.Passphrase
	close         func()             // nil, or closes the device
	image         node               // of a disk in a pool, nil for others
	cluster       *secret.Passphrase // opens the pool
}

func (o origin) wipe() {
	if o.close != nil {
		o.close()
	}
	o.key.Wipe()
	o.backingKey.Wipe()
	o.cluster.Wipe()
}

// origin looks at a disk, and reads its passphrases, which must be wiped also
// when it fails.
func (a *Activities) origin(ctx context.Context, in ExportInput) (o origin, err error) {
	d := in.Disk
	dir, err := a.serverDir(in.Server)
	if err != nil {
		return o, err
	}
	if d.OnDevice() {
		return a.originOnDevice(ctx, in)
	}
	o.path = filepath.Join(dir, d.Name())
	if i, linked, err := a.pooled(o.path); err != nil {
		return o, err
	} else if linked {
		return a.originInPool(ctx, in, o.path, i)
	}
	switch {
	case d.Encrypted && (d.Secret == nil || d.Format != compute.FormatLUKS):
		return o, compute.Errorf(compute.Invalid, "disk %s: this host cannot read the encryption format %q", d.ID, d.Format)
	case in.Image != nil && in.Image.IsEncrypted() != (d.BackingSecret != nil):
		return o, compute.Errorf(compute.Invalid, "disk %s: the secret of what lies under it is %v, and its source says otherwise", d.ID, d.BackingSecret)
	case in.Image != nil:
		if o.backing, err = a.CachedImage(in.Project, *in.Image); err != nil {
			return o, err
		}
		if o.backingFormat, err = in.Image.BackingFormat(); err != nil {
			return o, err
		}
	}
	i, err := a.idle(ctx, o.path, "qcow2")
	if err != nil {
		if _, missing := os.Stat(o.path); missing != nil && ctx.Err() == nil {
			return o, compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
		}
		return o, exportFailure(ctx, d, err)
	}
	if i.Encrypted != d.Encrypted || i.BackingFilename != o.backing || i.FormatSpecific.Data.DataFile != "" {
		return o, compute.Errorf(compute.Corrupt, "disk %s is not what it was made as: encrypted %t, on %q", d.ID, i.Encrypted, i.BackingFilename)
	}
	o.info, o.bytes = i, i.VirtualSize
	for _, path := range []string{o.path, o.backing} {
		if file, err := os.Stat(path); path != "" && err != nil {
			return o, compute.Errorf(compute.Corrupt, "disk %s: its source is missing", d.ID)
		} else if path != "" {
			o.stored += file.Size()
		}
	}
	if d.Encrypted {
		if o.key, err = a.Keys.Passphrase(ctx, in.Credential, *d.Secret); err != nil {
			return o, err
		}
	}
	if o.backing != "" && d.BackingSecret != nil {
		o.backingKey, err = a.Keys.Passphrase(ctx, in.Credential, *d.BackingSecret)
	}
	return o, err
}

// most is the room that a copy takes at most.
func (o origin) most(t compute.ExportTarget) int64 {
	whole := o.bytes + o.bytes/512 + headerRoom + luks.Bytes
	if t.Format == compute.ImageLUKS {
		return whole // noise where the disk has nothing
	}
	return min(whole, o.stored+headerRoom)
}

// copiesAsIs reports whether the disk's file, as it is, is a part of the copy.
func (o origin) copiesAsIs(t compute.ExportTarget) bool {
	if o.device || o.image != nil || t.Key != compute.KeySame || t.Format != compute.ImageQcow2 {
		return false
	}
	return o.key != nil || o.backing == ""
}

// The ids of an origin's passphrases in a command.
const (
	originKey = "disk"
	sourceKey = "source"
	targetKey = "copy"
)

// lendTo hands the passphrases to a command.
func (o origin) lendTo(c *Command) {
	if o.key != nil && !o.device {
		c.lend(originKey, o.key)
	}
	if o.backingKey != nil {
		c.lend(sourceKey, o.backingKey)
	}
	if o.cluster != nil {
		c.lendCluster(o.cluster)
	}
}

// node describes the disk, or a copy of its file, on its source.
func (o origin) node(path string) node {
	if o.device {
		return deviceNode(path)
	}
	if o.image != nil {
		return o.image
	}
	key := ""
	if o.key != nil {
		key = originKey
	}
	return qcow2Node(path, key, o.backingNode())
}

func (o origin) backingNode() node {
	key := ""
	if o.backingKey != nil {
		key = sourceKey
	}
	switch {
	case o.backing == "":
		return nil
	case o.backingFormat == compute.ImageQcow2:
		return qcow2Node(o.backing, key, nil)
	case o.backingFormat == compute.ImageLUKS:
		return luksNode(o.backing, sourceKey)
	}
	return rawNode(o.backing)
}
