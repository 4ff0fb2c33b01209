package main

import (
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

type serverCommand struct {
	Create     serverCreate   `cmd:"" help:"Create a server."`
	List       serverList     `cmd:"" help:"List servers."`
	Show       serverShow     `cmd:"" help:"Show a server with its disks' encryption and its operations."`
	Delete     serverDelete   `cmd:"" help:"Delete servers and everything that they have."`
	Start      serverStart    `cmd:"" help:"Start a stopped server."`
	Stop       serverStop     `cmd:"" help:"Stop a server: by its power button, by force after a minute."`
	Pause      serverPause    `cmd:"" help:"Pause a server: its guest keeps its memory and uses no CPU."`
	Unpause    serverUnpause  `cmd:"" help:"Resume a paused server's guest."`
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

	ConsoleLog serverConsole `cmd:"" help:"Print a server's console."`
}

// wait is for commands that can wait for the end of what they asked for.
type wait struct {
	Wait    bool          `help:"Wait until it is done, with progress."`
	Timeout time.Duration `default:"10m" help:"How long to wait."`
}

type serverCreate struct {
	cloud
	output
	wait
	Name     string            `arg:"" help:"Name of the new server."`
	Flavor   string            `required:"" help:"Flavor, by id or name. Its extra specs decide about encryption and vTPM: hw:ephemeral_encryption=true, hw:tpm_version=2.0, hw:tpm_model=tpm-crb."`
	Image    string            `required:"" help:"Image, by id or name."`
	KeyName  string            `help:"Keypair to put into the server."`
	Network  []string          `help:"Network to attach, by UUID; repeatable. None by default."`
	Property map[string]string `help:"Metadata, key=value; repeatable."`
}

func (c serverCreate) Run(r *run) error {
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
	opts := servers.CreateOpts{Name: c.Name, FlavorRef: flavor.ID, ImageRef: image.ID, Metadata: c.Property, Networks: networks(c.Network)}
	s, err := servers.Create(r, client, keyed{opts, c.KeyName}, nil).Extract()
	if err != nil {
		return explain(err)
	}
	if c.Wait {
		if _, err := await(r, client, s.ID, c.Timeout, "ACTIVE"); err != nil {
			return err
		}
	}
	return serverShow{cloud: c.cloud, output: c.output, Server: s.ID}.Run(r)
}

func networks(uuids []string) any {
	if len(uuids) == 0 {
		return "none"
	}
	var out []servers.Network
	for _, id := range uuids {
		out = append(out, servers.Network{UUID: id})
	}
	return out
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
	AllProjects bool   `help:"Every project's servers (for administrators)."`
	Status      string `help:"Only servers of this status."`
}

func (c serverList) Run(r *run) error {
	client, err := c.compute(r)
	if err != nil {
		return err
	}
	pages, err := servers.List(client, servers.ListOpts{AllTenants: c.AllProjects, Status: c.Status}).AllPages(r)
	if err != nil {
		return explain(err)
	}
	list, err := servers.ExtractServers(pages)
	if err != nil {
		return err
	}
	return c.print(list, func(w *tabwriter.Writer) {
		row(w, "ID", "NAME", "STATUS", "CREATED")
		for _, s := range list {
			row(w, s.ID, s.Name, s.Status, s.Created.Format(time.RFC3339))
		}
	})
}

type serverDelete struct {
	cloud
	wait
	Servers []string `arg:"" name:"server" help:"Servers, by id or name."`
}

func (c serverDelete) Run(r *run) error {
	client, err := c.compute(r)
	if err != nil {
		return err
	}
	for _, name := range c.Servers {
		s, err := findServer(r, client, name)
		if err != nil {
			return err
		}
		if err := servers.Delete(r, client, s.ID).ExtractErr(); err != nil {
			return explain(err)
		}
		if !c.Wait {
			continue
		}
		if _, err := await(r, client, s.ID, c.Timeout, ""); err != nil {
			return err
		}
	}
	return nil
}

type serverStart struct{ serverAction }

func (c serverStart) Run(r *run) error {
	return c.act(r, "ACTIVE", func(client *gophercloud.ServiceClient, id string) error {
		return servers.Start(r, client, id).ExtractErr()
	})
}

type serverStop struct{ serverAction }

func (c serverStop) Run(r *run) error {
	return c.act(r, "SHUTOFF", func(client *gophercloud.ServiceClient, id string) error {
		return servers.Stop(r, client, id).ExtractErr()
	})
}

type serverPause struct{ serverAction }

func (c serverPause) Run(r *run) error {
	return c.act(r, "PAUSED", func(client *gophercloud.ServiceClient, id string) error {
		return servers.Pause(r, client, id).ExtractErr()
	})
}

type serverUnpause struct{ serverAction }

func (c serverUnpause) Run(r *run) error {
	return c.act(r, "ACTIVE", func(client *gophercloud.ServiceClient, id string) error {
		return servers.Unpause(r, client, id).ExtractErr()
	})
}

// serverAction is what every action on one server is told.
type serverAction struct {
	cloud
	output
	wait
	Server string `arg:"" help:"Server, by id or name."`
}

// act asks for an action, waits for the status that it leads to where that is wanted, and
// shows the server.
func (c serverAction) act(r *run, target string, do func(*gophercloud.ServiceClient, string) error) error {
	return c.actTo(r, []string{target}, do)
}

// actTo is act for an action that leads to one of several statuses.
func (c serverAction) actTo(r *run, targets []string, do func(*gophercloud.ServiceClient, string) error) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	if err := do(client, s.ID); err != nil {
		return explain(err)
	}
	if c.Wait {
		if _, err := await(r, client, s.ID, c.Timeout, targets...); err != nil {
			return err
		}
	}
	return serverShow{cloud: c.cloud, output: c.output, Server: s.ID}.Run(r)
}

type serverConsole struct {
	cloud
	output
	Server string `arg:"" help:"Server, by id or name."`
	Lines  int    `help:"Only the last lines; 0 is all."`
}

func (c serverConsole) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	text, err := servers.ShowConsoleOutput(r, client, s.ID, servers.ShowConsoleOutputOpts{Length: c.Lines}).Extract()
	if err != nil {
		return explain(err)
	}
	return c.print(map[string]string{"output": text}, func(w *tabwriter.Writer) {
		// Straight out: a console's tabs are its own.
		_, _ = io.WriteString(os.Stdout, text)
	})
}
