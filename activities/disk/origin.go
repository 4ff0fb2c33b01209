package disk

import (
	"context"
	"os"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// origin is a disk that is exported, with all that it is made of.
type origin struct {
	path          string
	own           node // how QEMU opens it where it is no qcow2 file
	info          imageInfo
	stored        int64              // bytes of its files
	key           *secret.Passphrase // nil: its own clusters are not encrypted
	keyID         string             // "": QEMU needs none, for the kernel has it
	backing       string             // "": none
	backingFormat string
	backingKey    *secret.Passphrase
	cluster       *secret.Passphrase // opens the pool that it is in
	close         func()             // nil, or lets go of it
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
	if d.Encrypted && (d.Secret == nil || !a.makes(d.Format)) {
		return o, compute.Errorf(compute.Invalid, "disk %s: this host cannot read the encryption format %q", d.ID, d.Format)
	}
	at, err := a.place(in.Server, d)
	if err != nil {
		return o, err
	}
	return at.origin(ctx, in)
}

// lend reads the passphrase that QEMU opens the disk with, if it needs one.
func (o *origin) lend(ctx context.Context, keys KeySource, in ExportInput) (err error) {
	if in.Disk.Encrypted {
		o.keyID = originKey
		o.key, err = keys.Passphrase(ctx, in.Credential, *in.Disk.Secret)
	}
	return err
}

// bytes are what the guest sees of it.
func (o origin) bytes() int64 { return o.info.VirtualSize }

// measure adds up the files that a disk and what it leans on are.
func (o *origin) measure() error {
	for _, path := range []string{o.path, o.backing} {
		if path == "" {
			continue
		}
		file, err := os.Stat(path)
		if err != nil {
			return err
		}
		o.stored += file.Size()
	}
	return nil
}

// most is the room that a copy takes at most.
func (o origin) most(t compute.ExportTarget) int64 {
	whole := o.bytes() + o.bytes()/512 + headerRoom + luks.Bytes
	if t.Format == compute.ImageLUKS {
		return whole // noise where the disk has nothing
	}
	return min(whole, o.stored+headerRoom)
}

// copiesAsIs reports whether the disk's file, as it is, is a part of the copy.
func (o origin) copiesAsIs(t compute.ExportTarget) bool {
	if o.own != nil || t.Key != compute.KeySame || t.Format != compute.ImageQcow2 {
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
	if o.keyID != "" {
		c.lend(o.keyID, o.key)
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
	if o.own != nil {
		return o.own
	}
	return qcow2Node(path, o.keyID, o.backingNode())
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
