package domain

import (
	"context"
	"encoding/base64"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// cephSecrets are the secrets by which libvirts know keys of Ceph users.
var cephSecrets = uuid.MustParse("6d1b2f0e-7a7f-5c0e-9d5e-3b0c8f1f6a21")

// secret is the id of the libvirt secret that holds the host's key.
func (c Ceph) secret() uuid.UUID { return uuid.NewSHA1(cephSecrets, []byte(c.User)) }

// usePool makes a disk that of an image in a pool. Guests write through the client's
// cache, which heeds their flushes. Below LUKS nothing is discarded: it would read as
// noise.
func usePool(dev *libvirtxml.DomainDisk, image string, c Ceph) {
	dev.Driver.Type, dev.Driver.Cache = "raw", "writeback"
	if dev.Source.Encryption != nil {
		dev.Driver.Discard = ""
	}
	dev.Source.File = nil
	dev.Source.Network = &libvirtxml.DomainDiskSourceNetwork{
		Protocol: "rbd", Name: image,
		Config: &libvirtxml.DomainDiskSourceNetworkConfig{File: c.ConfFile},
		Auth:   &libvirtxml.DomainDiskAuth{Username: c.User, Secret: &libvirtxml.DomainDiskSecret{Type: "ceph", UUID: c.secret().String()}},
	}
}

// leaningOnNothing is the server without the secrets for what lay under its disks:
// those in a pool hold all of it.
func leaningOnNothing(s compute.Server, pool map[compute.DiskID]string) compute.Server {
	disks := append([]compute.Disk{}, s.Disks...)
	for i, d := range disks {
		if pool[d.ID] != "" {
			disks[i].BackingSecret = nil
		}
	}
	s.Disks = disks
	return s
}

// lendCluster ensures that libvirt knows the host's key to the cluster, as it is now.
// It is the host's and no server's, and stays: another start may need it at this
// moment. Like those of servers it is in libvirt's memory only, and read by nobody.
func (a *Activities) lendCluster(ctx context.Context) error {
	text, err := a.Ceph.Key()
	if err != nil {
		return err
	}
	defer text.Wipe()
	usage := libvirtxml.SecretUsage{Type: "ceph", Name: "strongroom client." + a.Ceph.User}
	return text.Use(func(value []byte) error {
		key := make([]byte, base64.StdEncoding.DecodedLen(len(value)))
		defer clear(key)
		n, err := base64.StdEncoding.Decode(key, value)
		if err != nil {
			return compute.Errorf(compute.Unavailable, "the key of client.%s is not base64", a.Ceph.User)
		}
		return a.Client.Do(ctx, func(l *libvirt.Libvirt) error { return a.Client.tell(ctx, l, a.Ceph.secret(), usage, key[:n]) })
	})
}

// describePool counts the room of the host's pool, where it has one, instead of that of
// its file system. One that does not answer has none: nothing new should land here.
func (a *Activities) describePool(ctx context.Context, got *Description) {
	total, free, ok, err := a.Devices.PoolRoom(ctx)
	if !ok {
		return
	}
	if err != nil {
		a.Logger.WarnContext(ctx, "the host's Ceph pool counts as full", "error", err)
	}
	got.Capacity.DiskGB, got.DiskFreeGB = int(total>>30), int(free>>30)
}
