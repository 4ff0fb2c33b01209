package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	own "strongroom/client"
	"strongroom/deploy/dev/stack"
	"strongroom/deploy/guest"
)

// demoSpecs make every disk of a flavor's servers encrypted and give them a TPM.
var demoSpecs = flavors.ExtraSpecsOpts{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}

func (d demoCommand) boot(ctx context.Context, layout stack.Layout) (*servers.Server, error) {
	where := cloud{OSCloud: stack.CloudName}
	provider, endpoint, err := where.provider(ctx)
	if err != nil {
		return nil, err
	}
	client, err := where.compute(ctx)
	if err != nil {
		return nil, err
	}
	image, err := d.image(ctx, provider, endpoint, layout)
	if err != nil {
		return nil, err
	}
	flavor, err := d.flavor(ctx, client)
	if err != nil {
		return nil, err
	}
	name := "demo-" + time.Now().Format("150405")
	say("booting %s: encrypted root, ephemeral and swap disk, TPM 2.0 (CRB), a port on the project's network", name)
	opts := keypairs.CreateOptsExt{CreateOptsBuilder: servers.CreateOpts{Name: name, FlavorRef: flavor, ImageRef: image, Networks: "auto"}}
	if d.SSH != "" {
		if opts.KeyName, err = d.keypair(ctx, client, layout); err != nil {
			return nil, err
		}
	}
	created := servers.Create(ctx, client, opts, nil)
	s, err := created.Extract()
	if err != nil {
		return nil, explain(err)
	}
	if _, err := (wait{Timeout: d.Timeout}).under(ctx, own.Extend(client), s.ID, name, own.OperationID(created.Header)); err != nil {
		return nil, err
	}
	s, err = servers.Get(ctx, client, s.ID).Extract()
	return s, explain(err)
}

// image uploads the guest once; its name has the sum of its bytes.
func (d demoCommand) image(ctx context.Context, provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, layout stack.Layout) (string, error) {
	client, err := openstack.NewImageV2(provider, endpoint)
	if err != nil {
		return "", err
	}
	path, name := d.Image, filepath.Base(d.Image)
	if path == "" {
		path, name = filepath.Join(layout.State, "guest.qcow2"), "tiny-guest"
		say("building the tiny guest (Debian's kernel and one Go program)")
		if err := guest.Build(ctx, path, guest.Options{}); err != nil {
			return "", err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s-%d", name, info.Size())
	if found, err := findImage(ctx, provider, endpoint, name); err == nil && found.Status == images.ImageStatusActive {
		return found.ID, nil
	}
	say("uploading image %s", name)
	public := images.ImageVisibilityPublic
	img, err := images.Create(ctx, client, images.CreateOpts{Name: name, DiskFormat: "qcow2", ContainerFormat: "bare", Visibility: &public}).Extract()
	if err != nil {
		return "", explain(err)
	}
	data, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = data.Close() }()
	return img.ID, explain(imagedata.Upload(ctx, client, img.ID, data).ExtractErr())
}

// flavor makes sure that there is a flavor for the image, and gives its id.
func (d demoCommand) flavor(ctx context.Context, client *gophercloud.ServiceClient) (string, error) {
	id, memory, root, one, swap := "encrypted.tiny", 256, 1, 1, 64
	if d.Image != "" {
		virtual, err := virtualSize(ctx, d.Image)
		if err != nil {
			return "", err
		}
		root, memory = int((virtual+1<<30-1)>>30), 1024
		id = fmt.Sprintf("encrypted.%dg", root)
	}
	if _, err := flavors.Get(ctx, client, id).Extract(); err == nil {
		return id, nil
	}
	say("creating flavor %s: 1 vCPU, %d MB, %d GB root, 1 GB ephemeral, 64 MB swap, %v", id, memory, root, demoSpecs)
	_, err := flavors.Create(ctx, client, flavors.CreateOpts{
		ID: id, Name: id, VCPUs: 1, RAM: memory, Disk: &root, Ephemeral: &one, Swap: &swap,
	}).Extract()
	if err != nil {
		return "", explain(err)
	}
	_, err = flavors.CreateExtraSpecs(ctx, client, id, demoSpecs).Extract()
	return id, explain(err)
}

// virtualSize is how large a guest sees an image, in bytes.
func virtualSize(ctx context.Context, path string) (int64, error) {
	info, err := qemuImgInfo(ctx, path)
	return info.Virtual, err
}
