package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
)

// encryptionFlags say how the volumes of a type are encrypted.
type encryptionFlags struct {
	Provider        string `name:"encryption-provider" placeholder:"luks" help:"How volumes are encrypted: luks, plain. Makes the type an encrypted one."`
	Cipher          string `name:"encryption-cipher" placeholder:"aes-xts-plain64" help:"The cipher and its mode."`
	KeySize         int    `name:"encryption-key-size" placeholder:"256" help:"Bits of the key."`
	ControlLocation string `name:"encryption-control-location" enum:",front-end,back-end" default:"" help:"Where: front-end (the compute host; the default) or back-end."`
}

func (f encryptionFlags) given() bool { return f != encryptionFlags{} }

// body is what was given; a new encryption needs to know where.
func (f encryptionFlags) body(isNew bool) encryptionBody {
	body := encryptionBody{}
	if f.Provider != "" {
		body["provider"] = f.Provider
	}
	if f.Cipher != "" {
		body["cipher"] = f.Cipher
	}
	if f.KeySize != 0 {
		body["key_size"] = f.KeySize
	}
	if f.ControlLocation != "" {
		body["control_location"] = f.ControlLocation
	} else if isNew {
		body["control_location"] = "front-end"
	}
	return body
}

// encryptionBody is an encryption as a request says it: what is not in it stays as
// it is.
type encryptionBody map[string]any

// ToEncryptionCreateMap builds the body of a new encryption.
func (b encryptionBody) ToEncryptionCreateMap() (map[string]any, error) {
	return map[string]any{"encryption": b}, nil
}

// ToUpdateEncryptionMap builds the body of a change.
func (b encryptionBody) ToUpdateEncryptionMap() (map[string]any, error) {
	return map[string]any{"encryption": b}, nil
}

// setEncryption makes a type encrypted, or changes how.
func (f encryptionFlags) set(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
	if !f.given() {
		return nil
	}
	var now volumeEncryption
	if err := volumetypes.GetEncryption(ctx, client, id).ExtractInto(&now); err != nil {
		return err
	}
	if now.ID != "" {
		return volumetypes.UpdateEncryption(ctx, client, id, now.ID, f.body(false)).Err
	}
	if f.Provider == "" {
		return errors.New("the type is not encrypted yet: say --encryption-provider")
	}
	return volumetypes.CreateEncryption(ctx, client, id, f.body(true)).Err
}

type volumeTypeCreate struct {
	cloud
	output
	encryptionFlags
	Name        string            `arg:"" help:"Name of the new type."`
	Description string            `help:"What it is for."`
	Private     bool              `help:"Only projects that are given access see it."`
	Property    map[string]string `mapsep:"none" help:"Extra spec, key=value; repeatable."`
	Project     []string          `help:"Project that sees a private type, by id; repeatable."`
}

// Help is shown by --help.
func (volumeTypeCreate) Help() string {
	return `Whoever makes a Storage Class or a volume picks a type by what its visible extra
specs say; what the back end needs to know is in the others. For example:

  strongroom volume-type create shared --description "for several servers at once" \
    --property 'multiattach=<is> True' --property RESKEY:availability_zones=az1,az2 \
    --property volume_backend_name=pool1 \
    --encryption-provider luks --encryption-cipher aes-xts-plain64 --encryption-key-size 256`
}

func (c volumeTypeCreate) Run(r *run) error {
	client, err := c.volumes(r)
	if err != nil {
		return err
	}
	if len(c.Project) > 0 && !c.Private {
		return errors.New("everybody sees a public type: --project goes with --private")
	}
	if c.given() && c.Provider == "" {
		return errors.New("say how volumes are encrypted with --encryption-provider")
	}
	public := !c.Private
	made, err := volumetypes.Create(r, client, volumetypes.CreateOpts{
		Name: c.Name, Description: c.Description, IsPublic: &public, ExtraSpecs: c.Property,
	}).Extract()
	if err != nil {
		return explain(err)
	}
	if err := c.set(r, client, made.ID); err != nil {
		return explain(err)
	}
	if err := addAccess(r, client, made.ID, c.Project); err != nil {
		return explain(err)
	}
	return volumeTypeShow{cloud: c.cloud, output: c.output, Type: made.ID}.Run(r)
}

func addAccess(ctx context.Context, client *gophercloud.ServiceClient, id string, projects []string) error {
	for _, project := range projects {
		if err := volumetypes.AddAccess(ctx, client, id, volumetypes.AddAccessOpts{Project: project}).ExtractErr(); err != nil {
			return err
		}
	}
	return nil
}

type volumeTypeSet struct {
	cloud
	output
	encryptionFlags
	Type        string            `arg:"" help:"Volume type, by id or name."`
	Name        *string           `help:"New name."`
	Description *string           `help:"New description."`
	Public      bool              `xor:"visibility" help:"Everybody sees it."`
	Private     bool              `xor:"visibility" help:"Only projects that are given access see it."`
	Property    map[string]string `mapsep:"none" help:"Extra spec to add or change, key=value; repeatable."`
	Project     []string          `help:"Project that is to see a private type, by id; repeatable."`
}

func (c volumeTypeSet) Run(r *run) error {
	client, t, err := c.volumeType(r, c.Type)
	if err != nil {
		return err
	}
	change := volumetypes.UpdateOpts{Name: c.Name, Description: c.Description}
	if c.Public || c.Private {
		change.IsPublic = &c.Public
	}
	if change != (volumetypes.UpdateOpts{}) {
		if err := volumetypes.Update(r, client, t.ID, change).Err; err != nil {
			return explain(err)
		}
	}
	if len(c.Property) > 0 {
		if err := volumetypes.CreateExtraSpecs(r, client, t.ID, volumetypes.ExtraSpecsOpts(c.Property)).Err; err != nil {
			return explain(err)
		}
	}
	if err := c.set(r, client, t.ID); err != nil {
		return explain(err)
	}
	if err := addAccess(r, client, t.ID, c.Project); err != nil {
		return explain(err)
	}
	return volumeTypeShow{cloud: c.cloud, output: c.output, Type: t.ID}.Run(r)
}

type volumeTypeUnset struct {
	cloud
	output
	Type       string   `arg:"" help:"Volume type, by id or name."`
	Property   []string `sep:"none" help:"Key of an extra spec to take off; repeatable."`
	Project    []string `help:"Project that is not to see a private type any more, by id; repeatable."`
	Encryption bool     `help:"New volumes of the type are not encrypted any more."`
}

func (c volumeTypeUnset) Run(r *run) error {
	client, t, err := c.volumeType(r, c.Type)
	if err != nil {
		return err
	}
	for _, key := range c.Property {
		if err := volumetypes.DeleteExtraSpec(r, client, t.ID, url.PathEscape(key)).ExtractErr(); err != nil {
			return explain(err)
		}
	}
	for _, project := range c.Project {
		if err := volumetypes.RemoveAccess(r, client, t.ID, volumetypes.RemoveAccessOpts{Project: project}).ExtractErr(); err != nil {
			return explain(err)
		}
	}
	if c.Encryption {
		if err := volumetypes.DeleteEncryption(r, client, t.ID, "all").ExtractErr(); err != nil {
			return explain(err)
		}
	}
	return volumeTypeShow{cloud: c.cloud, output: c.output, Type: t.ID}.Run(r)
}
