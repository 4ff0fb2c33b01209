package main

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/compute"
)

type serverRotate struct {
	cloud
	output
	wait
	Server string   `arg:"" help:"Server, by id or name."`
	Disk   []string `help:"Only this disk: root, ephemeral0 or swap; repeatable. All encrypted disks by default."`
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
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	body := map[string]any{"rotateKeys": nil}
	if len(c.Disk) > 0 {
		body["rotateKeys"] = compute.RotateArguments{Disks: c.Disk}
	}
	// The client would put its own version header in the place of ours.
	plain := *client
	plain.Microversion = ""
	resp, err := plain.Post(r, client.ServiceURL("servers", s.ID, "action"), body, nil, &gophercloud.RequestOpts{
		MoreHeaders: ownVersion, OkCodes: []int{http.StatusAccepted},
	})
	if err != nil {
		return explain(err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if c.Wait {
		if _, err := await(r, client, s.ID, c.Timeout, s.Status); err != nil {
			return err
		}
		if err := succeeded(r, client, s.ID, resp.Header.Get("X-Openstack-Request-Id")); err != nil {
			return err
		}
	}
	return serverShow{cloud: c.cloud, output: c.output, Server: s.ID}.Run(r)
}

// ownVersion asks for strongroom's own extensions beside the compute API.
var ownVersion = map[string]string{"OpenStack-API-Version": "compute " + clientVersion + ", strongroom 1.0"}

// reasons are what strongroom says of a server's operations that failed, by their requests;
// none from another compute service.
func reasons(r *run, client *gophercloud.ServiceClient, server string) map[string]string {
	var body struct {
		Operations []struct {
			ID      string `json:"id"`
			Message string `json:"message"`
		} `json:"operations"`
	}
	plain := *client
	plain.Microversion = ""
	resp, err := plain.Get(r, client.ServiceURL("servers", server, "operations"), &body, &gophercloud.RequestOpts{MoreHeaders: ownVersion})
	if err != nil {
		return nil
	}
	_ = resp.Body.Close()
	out := map[string]string{}
	for _, op := range body.Operations {
		out[op.ID] = op.Message
	}
	return out
}
