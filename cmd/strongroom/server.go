package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	own "strongroom/client"
)

type serverCommand struct {
	Create     serverCreate   `cmd:"" help:"Create a server."`
	List       serverList     `cmd:"" help:"List servers."`
	Show       serverShow     `cmd:"" help:"Show servers with their disks' encryption and their newest operations."`
	Delete     serverDelete   `cmd:"" help:"Delete servers and everything that they have."`
	Start      serverStart    `cmd:"" help:"Start a stopped server."`
	Stop       serverStop     `cmd:"" help:"Stop a server: by its power button, by force after a minute."`
	Reboot     serverReboot   `cmd:"" help:"Reboot servers: the guest does it, or, with --hard, whatever it does."`
	Pause      serverPause    `cmd:"" help:"Pause a server: its guest keeps its memory and uses no CPU."`
	Unpause    serverUnpause  `cmd:"" help:"Resume a paused server's guest."`
	Suspend    serverSuspend  `cmd:"" help:"Write a server's memory to its host's disk and turn it off; with encrypted disks or a vTPM where the host encrypts that."`
	Resume     serverResume   `cmd:"" help:"Let a suspended server's guest go on where it was."`
	Rebuild    serverRebuild  `cmd:"" help:"Rebuild a server from an image: new disks, the same vTPM."`
	RotateKeys serverRotate   `cmd:"" help:"Give a server's encrypted disks new passphrases."`
	Rescue     serverRescue   `cmd:"" help:"Boot a server from an image, with its own disks beside it."`
	Unrescue   serverUnrescue `cmd:"" help:"Boot a rescued server from its own disk again."`
	Shelve     serverShelve   `cmd:"" help:"Keep a server's disks and TPM state as images and an object; it leaves its host."`
	Unshelve   serverUnshelve `cmd:"" help:"Bring a shelved server back."`
	Resize     serverResize   `cmd:"" help:"Give a server another flavor, until that is confirmed or reverted."`
	Migrate    serverMigrate  `cmd:"" help:"Move a server to another host, off, until that is confirmed or reverted (administrators)."`
	Evacuate   serverEvacuate `cmd:"" help:"Run a server on another host, since its own is dead (administrators)."`

	LiveMigrate   serverLiveMigrate `cmd:"" help:"Move a server to another host while its guest runs (administrators)."`
	ShelveOffload serverOffload     `cmd:"" help:"Have a shelved server leave its host now (administrators)."`
	ConfirmResize serverConfirm     `cmd:"" help:"Give up what a server was before it was resized or migrated."`
	RevertResize  serverRevert      `cmd:"" help:"Bring back what a server was before it was resized or migrated."`

	TPMCertificates serverTPMCertificates `cmd:"" name:"tpm-certificates" help:"Show the certificates of a server's vTPM."`

	Interface serverInterface `cmd:"" help:"A server's ports."`
	Share     serverShares    `cmd:"" help:"A server's shares."`
	Image     serverImage     `cmd:"" help:"Make images of servers."`

	Console    serverConsole    `cmd:"" help:"Connect the terminal to a server's serial port: what is typed goes to its guest."`
	ConsoleLog serverConsoleLog `cmd:"" help:"Print what a server's guest said on its serial line."`
}

// Help is shown by --help.
func (serverCommand) Help() string {
	return `Servers are named by their id, or by their name, which must be exact and be that of one server alone. Actions take
several of them: what fails with one is told, the others go on, and the exit code is 1.

  strongroom server create vault --flavor safe --image debian --wait
  strongroom server show vault
  strongroom server stop web-1 web-2 web-3 --wait
  strongroom server image create vault copy --key new --wait
  strongroom server delete vault --wait

With --wait it waits for the end of the operation, not for a status: one that fails says at once why.`
}

type serverCreate struct {
	cloud
	output
	wait
	Name     string            `arg:"" help:"Name of the new server."`
	Flavor   string            `required:"" help:"Flavor, by id or name. Its extra specs decide about encryption and vTPM: hw:ephemeral_encryption=true, hw:tpm_version=2.0, hw:tpm_model=tpm-crb."`
	Image    string            `required:"" help:"Image, by id or name."`
	KeyName  string            `help:"Keypair to put into the server."`
	Network  []string          `sep:"none" default:"auto" help:"Network to attach, by name or id; repeatable. auto is the one that the project has, none is no interface."`
	Property map[string]string `mapsep:"none" help:"Metadata, key=value; repeatable."`
	UserData string            `type:"existingfile" help:"File that the guest finds in its metadata, for cloud-init: at most 48 KiB."`
	Group    []string          `name:"security-group" sep:"none" help:"Security group of its ports, by name or id; repeatable. The project's default by default."`
	Zone     string            `help:"Availability zone."`
	Share    []string          `sep:"none" help:"Share that its guest mounts, UUID or UUID=TAG; repeatable. It waits, and attaches them when the server runs."`
	Drive    bool              `name:"config-drive" help:"Give it its metadata on a disk, too, for guests without a network."`
}

// Help is shown by --help.
func (serverCreate) Help() string {
	return `The flavor decides whether disks are encrypted and whether there is a vTPM. A create that fails leaves a server in ERROR, to be
deleted.

  strongroom server create vault --flavor safe --image debian --wait
  strongroom server create web-1 --flavor small --image debian --network office --key-name mine --property role=web
  strongroom server create web-2 --flavor small --image debian --user-data cloud-init.yaml --security-group web --zone nova
  strongroom server create web-3 --flavor small --image debian --share 6a1c…=documents
  strongroom server create vault --flavor safe --image debian --wait -o value -c id

A guest takes shares while it runs if its memory is shared, as that of a flavor with trait:CUSTOM_STRONGROOM_SHARES_LIVE=required. Another
one is powered off for them in its first boot, and started again: give such a server its shares by "server share attach" where that matters.`
}

func (c serverCreate) Run(r *run) error {
	shares, err := readShares(c.Share)
	if err != nil {
		return err
	}
	provider, endpoint, err := c.provider(r)
	if err != nil {
		return err
	}
	client, err := c.compute(r)
	if err != nil {
		return err
	}
	flavor, err := findFlavor(r, client, c.Flavor)
	if err != nil {
		return err
	}
	image, err := findImage(r, provider, endpoint, c.Image)
	if err != nil {
		return err
	}
	networks, err := findNetworks(r, provider, endpoint, c.Network)
	if err != nil {
		return err
	}
	opts := servers.CreateOpts{
		Name: c.Name, FlavorRef: flavor.ID, ImageRef: image.ID, Metadata: c.Property, Networks: networks, SecurityGroups: c.Group, AvailabilityZone: c.Zone,
	}
	if c.Drive {
		opts.ConfigDrive = &c.Drive
	}
	if c.UserData != "" {
		text, err := os.ReadFile(c.UserData)
		if err != nil {
			return err
		}
		opts.UserData = []byte(base64.StdEncoding.EncodeToString(text)) // else what looks like base64 would be taken for it
	}
	created := servers.Create(r, client, keyed{opts, c.KeyName}, nil)
	s, err := created.Extract()
	if err != nil {
		return explain(err)
	}
	if c.Wait || len(shares) > 0 {
		if _, err := c.under(r, own.Extend(client), s.ID, c.Name, own.OperationID(created.Header)); err != nil {
			if len(shares) > 0 {
				return fmt.Errorf("%w; none of its shares was attached", err)
			}
			return err
		}
	}
	if err := c.giveShares(r, client, s.ID, c.Name, shares); err != nil {
		return err
	}
	return serverShow{cloud: c.cloud, output: c.output, Servers: []string{s.ID}}.Run(r)
}

// keyed adds a keypair to a create request.
type keyed struct {
	servers.CreateOpts
	key string
}

// ToServerCreateMap builds the request's body.
func (k keyed) ToServerCreateMap() (map[string]any, error) {
	body, err := k.CreateOpts.ToServerCreateMap()
	if err == nil && k.key != "" {
		body["server"].(map[string]any)["key_name"] = k.key
	}
	return body, err
}

type serverList struct {
	cloud
	output
	long
	AllProjects bool   `help:"Every project's servers (for administrators)."`
	Status      string `help:"Only servers of this status."`
	Host        string `help:"Only servers on this host (for administrators)."`
}

// Help is shown by --help.
func (serverList) Help() string {
	return `  strongroom server list --long
  strongroom server list --status ERROR -o value -c id
  strongroom server list -o json`
}

func (c serverList) Run(r *run) error {
	client, err := c.compute(r)
	if err != nil {
		return err
	}
	pages, err := servers.List(client, servers.ListOpts{AllTenants: c.AllProjects, Status: c.Status, Host: c.Host}).AllPages(r)
	if err != nil {
		return explain(err)
	}
	list, err := servers.ExtractServers(pages)
	if err != nil {
		return err
	}
	return c.print(list, serverTable(list, c.Long))
}

func serverTable(list []servers.Server, long bool) func(*sheet) {
	return func(w *sheet) {
		columns := []string{"ID", "NAME", "STATUS", "CREATED"}
		if long {
			columns = append(columns, "TASK", "FLAVOR", "IMAGE", "ZONE", "HOST", "ADDRESSES", "PROJECT")
		}
		w.header(columns...)
		for _, s := range list {
			cells := []any{s.ID, s.Name, s.Status, s.Created.Format(time.RFC3339)}
			if long {
				cells = append(cells, s.TaskState, known(s.Flavor["original_name"]), known(s.Image["id"]), s.AvailabilityZone, s.Host, addresses(s), s.TenantID)
			}
			w.row(cells...)
		}
	}
}

// known is a value that may be missing.
func known(value any) any {
	if value == nil {
		return ""
	}
	return value
}

// addresses are those of a server, by network.
func addresses(s servers.Server) string {
	var all []string
	for _, network := range slices.Sorted(maps.Keys(s.Addresses)) {
		var of []string
		list, _ := s.Addresses[network].([]any)
		for _, one := range list {
			if address, ok := one.(map[string]any); ok {
				of = append(of, fmt.Sprint(address["addr"]))
			}
		}
		all = append(all, network+"="+strings.Join(of, ","))
	}
	return strings.Join(all, " ")
}

type serverConsoleLog struct {
	cloud
	output
	Server string `arg:"" help:"Server, by id or name."`
	Lines  int    `help:"Only the last lines; 0 is all."`
}

func (c serverConsoleLog) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	text, err := servers.ShowConsoleOutput(r, client, s.ID, servers.ShowConsoleOutputOpts{Length: c.Lines}).Extract()
	if err != nil {
		return explain(err)
	}
	if c.Output == "table" || c.Output == "value" { // straight out: a console's tabs are its own
		_, err := io.WriteString(os.Stdout, text)
		return err
	}
	return c.print(map[string]string{"output": text}, func(*sheet) {})
}
