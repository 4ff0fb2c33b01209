package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"golang.org/x/term"

	"strongroom/deploy/dev/stack"
	"strongroom/deploy/guest"
)

type demoCommand struct {
	devFlags
	Image   string        `type:"existingfile" placeholder:"FILE" help:"A bootable qcow2 image of your own instead of the tiny guest."`
	Timeout time.Duration `default:"5m" help:"How long the server may take."`
	Once    bool          `help:"Stop everything after the proof. That is also what happens when this is no terminal."`
}

// Help is shown by --help.
func (demoCommand) Help() string {
	return `Starts what 'strongroom dev' starts, unless it runs already, then boots a server
with an encrypted root, ephemeral and swap disk and a TPM 2.0, and prints the proof:
the status, what qemu-img says of each disk, the guest's own words about its TPM,
and that libvirt has forgotten the secrets. Run it as often as you like.`
}

func (d demoCommand) Run(r *run) error {
	ctx, stop := context.WithCancel(r)
	defer stop()
	own, layout, err := d.bringUp(ctx, r)
	if err != nil {
		return err
	}
	defer own.Down()
	if err := os.Setenv("OS_CLIENT_CONFIG_FILE", layout.CloudsFile()); err != nil {
		return err
	}
	s, err := d.boot(ctx, layout)
	if err != nil {
		return err
	}
	if err := d.prove(ctx, layout, s); err != nil {
		return err
	}
	d.farewell(layout, s)
	if own == nil || d.Once || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Println("\nEverything keeps running. Ctrl-C stops it; `strongroom dev` goes on from there.")
	return own.Wait(ctx)
}

// bringUp starts the stack, or finds the one that runs. The log goes to files.
func (d demoCommand) bringUp(ctx context.Context, r *run) (*stack.Stack, stack.Layout, error) {
	cfg, err := d.stackConfig(r)
	if err != nil {
		return nil, cfg.Layout, err
	}
	if stack.Running(cfg.Layout) {
		say("strongroom runs already (%s)", cfg.Layout.State)
		return nil, cfg.Layout, nil
	}
	say("starting PostgreSQL, Temporal, libvirt, identity, images, api and workers in %s", cfg.Layout.State)
	cfg.Quiet = true
	own, err := stack.Up(ctx, cfg)
	return own, cfg.Layout, err
}

// demoSpecs make every disk of a flavor's servers encrypted and give them a TPM.
var demoSpecs = flavors.ExtraSpecsOpts{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}

const demoFlavor = "encrypted.tiny"

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
	if err := demoFlavorReady(ctx, client); err != nil {
		return nil, err
	}
	name := "demo-" + time.Now().Format("150405")
	say("booting %s: encrypted root, ephemeral and swap disk, TPM 2.0 (CRB)", name)
	s, err := servers.Create(ctx, client, servers.CreateOpts{Name: name, FlavorRef: demoFlavor, ImageRef: image, Networks: "none"}, nil).Extract()
	if err != nil {
		return nil, explain(err)
	}
	return await(ctx, client, s.ID, d.Timeout, "ACTIVE")
}

// image uploads the guest once; its name tells which bytes it has.
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

func demoFlavorReady(ctx context.Context, client *gophercloud.ServiceClient) error {
	if _, err := flavors.Get(ctx, client, demoFlavor).Extract(); err == nil {
		return nil
	}
	say("creating flavor %s: 1 vCPU, 256 MB, 1 GB root, 1 GB ephemeral, 64 MB swap, %v", demoFlavor, demoSpecs)
	one, swap := 1, 64
	_, err := flavors.Create(ctx, client, flavors.CreateOpts{
		ID: demoFlavor, Name: demoFlavor, VCPUs: 1, RAM: 256, Disk: &one, Ephemeral: &one, Swap: &swap,
	}).Extract()
	if err != nil {
		return explain(err)
	}
	_, err = flavors.CreateExtraSpecs(ctx, client, demoFlavor, demoSpecs).Extract()
	return explain(err)
}

// prove shows what a doubter would look at.
func (d demoCommand) prove(ctx context.Context, layout stack.Layout, s *servers.Server) error {
	fmt.Printf("\nserver    %s  %s\nstatus    %s\n", s.Name, s.ID, s.Status)
	dir := filepath.Join(layout.Instances(), s.ID)
	for _, file := range []string{"disk", "disk.eph0", "disk.swap"} {
		line, err := diskProof(ctx, filepath.Join(dir, file))
		if err != nil {
			return err
		}
		fmt.Printf("disk      %-10s %s\n", file, line)
	}
	left, err := stack.HypervisorSecrets(ctx, layout)
	if err != nil {
		return err
	}
	fmt.Printf("secrets   %d known to libvirt, now that the guest runs\n", left)
	if d.Image != "" {
		return nil
	}
	line, err := guestLine(ctx, filepath.Join(dir, "console.log"), regexp.MustCompile(`TG (tpm version=.*)`))
	if err != nil {
		return err
	}
	fmt.Printf("guest     %s\n", line)
	return nil
}

// diskProof is what qemu-img says of a disk without any key.
func diskProof(ctx context.Context, path string) (string, error) {
	text, err := exec.CommandContext(ctx, "qemu-img", "info", "-U", "--output=json", path).Output()
	if err != nil {
		return "", fmt.Errorf("qemu-img info %s: %w", path, err)
	}
	var info struct {
		Format    string `json:"format"`
		Encrypted bool   `json:"encrypted"`
		Virtual   int64  `json:"virtual-size"`
		Specific  struct {
			Data struct {
				Encrypt struct {
					Format     string `json:"format"`
					CipherAlg  string `json:"cipher-alg"`
					CipherMode string `json:"cipher-mode"`
				} `json:"encrypt"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return "", err
	}
	e := info.Specific.Data.Encrypt
	if !info.Encrypted || e.Format != "luks" {
		return "", fmt.Errorf("%s is not encrypted", path)
	}
	return strings.Join([]string{info.Format, fmt.Sprintf("%d MiB", info.Virtual>>20), "encrypted", e.Format, e.CipherAlg, e.CipherMode}, "  "), nil
}

// guestLine waits for a line on the guest's serial console.
func guestLine(ctx context.Context, path string, want *regexp.Regexp) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	line := newProgressLine()
	defer line.end()
	for begun := time.Now(); ; {
		text, _ := os.ReadFile(path)
		if m := want.FindSubmatch(text); m != nil {
			return strings.TrimSpace(string(m[1])), nil
		}
		line.show(fmt.Sprintf("the guest boots, %.0f s", time.Since(begun).Seconds()))
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the guest did not report its TPM: see %s", path)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (d demoCommand) farewell(layout stack.Layout, s *servers.Server) {
	fmt.Printf(`
Temporal UI   %s   (one row per operation)
the client    openstack --os-cloud %s server show %s
the console   openstack --os-cloud %s console log show %s
the audit     strongroom --config %s audit
to delete     openstack --os-cloud %s server delete --wait %s
`, layout.TemporalUI(), stack.CloudName, s.Name, stack.CloudName, s.Name, layout.ConfigFile(), stack.CloudName, s.Name)
}

func say(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
