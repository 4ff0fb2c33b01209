package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// poolPlace keeps a disk as an RBD image: raw, in a LUKS container if it is encrypted,
// which QEMU opens. It gets its name when it is complete, as a file does. A root disk is
// a copy of its image: images in the pool lean on nothing.
type poolPlace struct {
	*Activities
	poolImage

	link   string // its path in the server's folder
	linked bool   // it is there
}

func (poolPlace) whole() bool { return true }

func (p poolPlace) create(ctx context.Context, in CreateInput, want newDisk) (options map[string]string, err error) {
	cluster, err := p.ClusterKey()
	if err != nil {
		return nil, err
	}
	defer cluster.Wipe()
	m := poolDisk{poolPlace: p, disk: in.Disk, want: want, cluster: cluster, bytes: want.bytes}
	if in.Disk.Encrypted {
		m.bytes += luks.Bytes
	}
	bytes, found, err := p.findImage(ctx, p.poolImage)
	switch {
	case err != nil:
	case found && !p.linked:
		err = compute.Errorf(compute.Conflict, "%s is in the pool already, and is not this host's", p)
	case found && bytes != m.bytes:
		err = compute.Errorf(compute.Conflict, "%s exists with %d bytes, not %d", p, bytes, m.bytes)
	case found:
		options, err = m.verify(ctx)
	default:
		if err = p.sourceOpens(ctx, in, want); err == nil {
			options, err = m.make(ctx, in.Server)
		}
	}
	if err != nil {
		return nil, failed(ctx, err, "disk %s", in.Disk.ID)
	}
	return options, nil
}

func (p poolPlace) onHeader(func(luks.Header) error) error {
	if !p.linked {
		return fs.ErrNotExist
	}
	return fmt.Errorf("it is in the rbd back end: %w", errFixedKeys)
}

func (p poolPlace) remove(ctx context.Context) error { return p.removeImage(ctx, p.poolImage) }

// poolDisk is a disk that is being made, or looked at, in a pool.
type poolDisk struct {
	poolPlace

	disk    compute.Disk
	want    newDisk
	bytes   int64 // of the image: the disk's, and its header's
	cluster *secret.Passphrase
}

// make makes the image under another name and gives it its own when it is complete.
// What fails leaves nothing; what is killed is replaced by the next attempt.
func (m poolDisk) make(ctx context.Context, server compute.ServerID) (options map[string]string, err error) {
	if m.linked {
		err = m.removeImage(ctx, m.poolImage) // half made, by one that was killed
	} else {
		err = m.makeLink()
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			m.Logger.InfoContext(ctx, "made disk", "server", server, "disk", m.disk.ID, "image", m.poolImage, "bytes", m.want.bytes, "encrypted", m.disk.Encrypted)
			return
		}
		aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		undo := m.removeImage(aside, m.poolImage)
		if undo == nil {
			undo = os.Remove(m.link)
		}
		if undo != nil {
			m.Logger.WarnContext(ctx, "a half made image is left to the next attempt", "image", m.poolImage, "error", undo)
		}
	}()
	if err := m.allot(ctx); err != nil {
		return nil, err
	}
	if m.want.backing != "" {
		if err := m.fill(ctx); err != nil {
			return nil, err
		}
	}
	if options, err = m.options(ctx, m.draft()); err != nil {
		return nil, err
	}
	_, err = m.ceph(ctx, "rbd", "rename", m.draft().String(), m.String())
	return options, err
}

// makeLink makes the disk's name in its server's folder lead to the image.
func (p poolPlace) makeLink() error {
	if err := os.Symlink(poolLink+p.String(), p.link); err != nil {
		return err
	}
	return syncDir(filepath.Dir(p.link))
}

// allot makes the image, with a LUKS header of its own if it is encrypted. The header
// is not written by QEMU, which would first time its hash for seconds.
func (m poolDisk) allot(ctx context.Context) error {
	size := strconv.FormatInt(m.bytes, 10) + "B"
	if !m.disk.Encrypted {
		_, err := m.ceph(ctx, "rbd", "create", "--size", size, m.draft().String())
		return err
	}
	header := newDisk{path: hidden(m.link, ".new"), passphrase: m.want.passphrase}
	defer os.Remove(header.path)
	if err := errors.Join(os.RemoveAll(header.path), makeRaw(header)); err != nil {
		return err
	}
	if _, err := m.ceph(ctx, "rbd", "import", "--no-progress", header.path, m.draft().String()); err != nil {
		return err
	}
	_, err := m.ceph(ctx, "rbd", "resize", "--no-progress", "--size", size, m.draft().String())
	return err
}

// fill copies the source to the disk. A new image reads as zeros, and so what is empty
// in the source may stay empty; but not below LUKS, where that reads as noise.
func (m poolDisk) fill(ctx context.Context) error {
	source := origin{backing: m.want.backing, backingFormat: m.want.backingFormat, backingKey: m.want.backingKey}
	c := Command{Name: "qemu-img", Args: []string{
		"convert", "-p", "-n", "-W", "-m", "16", "-t", "none", "-T", cacheMode(m.want.backing), "--target-image-opts"}}
	c.lendCluster(m.cluster)
	key := ""
	if m.disk.Encrypted {
		key = targetKey
		c.lend(key, m.want.passphrase)
	} else {
		c.Args = append(c.Args, "--target-is-zero")
	}
	to, err := m.imageNode(m.draft(), key)
	if err != nil {
		return err
	}
	source.lendTo(&c)
	c.Args = append(c.Args, source.backingNode().json(), to.options())
	return m.runLong(ctx, c, m.want.bytes)
}

// verify checks that an image that is there opens with the disk's passphrase.
func (m poolDisk) verify(ctx context.Context) (map[string]string, error) {
	if !m.disk.Encrypted {
		return nil, nil
	}
	var c Command
	c.lendCluster(m.cluster)
	c.lend(targetKey, m.want.passphrase)
	at, err := m.imageNode(m.poolImage, targetKey)
	if err != nil {
		return nil, err
	}
	if err := m.reads(ctx, c, at); says(err, "Invalid password") || says(err, "not in LUKS format") {
		return nil, compute.Errorf(compute.Conflict, "it exists and does not open with secret %s", m.disk.Secret)
	} else if err != nil {
		return nil, err
	}
	return m.options(ctx, m.poolImage)
}

// options reads how an image was really encrypted.
func (m poolDisk) options(ctx context.Context, i poolImage) (map[string]string, error) {
	if !m.disk.Encrypted {
		return nil, nil
	}
	info, err := m.imageInfo(ctx, i, true, m.cluster)
	return info.usedOptions(), err
}
