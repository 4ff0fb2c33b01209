package main

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/client"
)

type serverRotate struct {
	serverAction
	Disk []string `help:"Only this disk: root, ephemeral0 or swap; repeatable. All encrypted disks by default."`
}

// Help is shown by --help.
func (serverRotate) Help() string {
	return `Each encrypted disk gets a new passphrase in a new secret of the key manager. The
server may run or be stopped; a guest notices nothing, and no data are copied.

Until the new secrets are on record, the old passphrase and the new one both
open the disk, so whatever fails or is killed, one that is on record does.
After that the old ones are erased from the disks and their secrets deleted.

What changes is the passphrase, not the key that the data are encrypted with:
who kept an old passphrase and an old copy of the disk's LUKS header can still
read the disk. Images of the server keep the keys that they were made with.

  strongroom server rotate-keys vault --wait
  strongroom server rotate-keys vault --disk root --disk swap`
}

func (c serverRotate) Run(r *run) error {
	return c.act(r, func(ctx context.Context, compute *gophercloud.ServiceClient, s *servers.Server) (string, error) {
		return client.RotateKeys(ctx, client.Extend(compute), s.ID, c.Disk)
	})
}
