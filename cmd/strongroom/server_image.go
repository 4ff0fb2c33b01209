package main

import "strongroom/client"

type serverImage struct {
	Create serverImageCreate `cmd:"" help:"Make an image of a server's root disk."`
}

type serverImageCreate struct {
	cloud
	output
	wait
	Server   string            `arg:"" help:"Server, by id or name."`
	Name     string            `arg:"" help:"Name of the new image."`
	Key      string            `enum:"same,new,existing,none" default:"same" help:"What the image of an encrypted disk is encrypted with: same, a copy of the disk's own key; new, a new one; existing, that of --secret; none, nothing."`
	Secret   string            `placeholder:"UUID" help:"With --key existing: the secret of the key manager with the passphrase."`
	Property map[string]string `mapsep:"none" help:"Property of the image, key=value; repeatable."`
}

// Help is shown by --help.
func (serverImageCreate) Help() string {
	return `The server may run. The image has its record at once, and its data when the operation has ended.

  strongroom server image create vault copy --wait                   # opened by a copy of the disk's passphrase
  strongroom server image create vault copy --key new --wait         # by a passphrase of its own
  strongroom server image create vault copy --key existing --secret 5b0a3c46-8d8e-4c43-9f5e-0e3f5f4f7a11
  strongroom server image create vault plain --key none --wait       # in clear: for whoever may read the image

A server whose disk is not encrypted takes none of them but same and none: docs/encryption.md.`
}

// madeImage is what image create prints.
type madeImage struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Server    string `json:"server_id"`
	Key       string `json:"key"`
	Operation string `json:"operation_id"`
	State     string `json:"state"`
}

func (c serverImageCreate) Run(r *run) error {
	if (c.Key == client.KeyExisting) != (c.Secret != "") {
		return usage("--secret goes with --key existing, and that with --secret")
	}
	compute, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	own := client.Extend(compute)
	made := madeImage{Name: c.Name, Server: s.ID, Key: c.Key, State: client.Accepted}
	made.ID, made.Operation, err = client.CreateImage(r, own, s.ID, client.ImageOpts{Name: c.Name, Metadata: c.Property, Key: c.Key, Secret: c.Secret})
	if err != nil {
		return explain(err)
	}
	if c.Wait {
		op, err := c.under(r, own, s.ID, s.Name, made.Operation)
		if err != nil {
			return err
		}
		made.State = op.State
	}
	return c.print(made, func(w *sheet) {
		w.row("id", made.ID)
		w.row("name", made.Name)
		w.row("server", made.Server)
		w.row("key", made.Key)
		w.row("operation", made.Operation)
		w.row("state", made.State)
	})
}
