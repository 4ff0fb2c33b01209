package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
)

// volumeVersion is the volume microversion that the client commands speak: the
// first that filters by extra specs.
const volumeVersion = "3.52"

// volumes logs in and gives the client of the block storage service.
func (c cloud) volumes(ctx context.Context) (*gophercloud.ServiceClient, error) {
	provider, endpoint, err := c.provider(ctx)
	if err != nil {
		return nil, err
	}
	client, err := openstack.NewBlockStorageV3(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("cloud %q: %w", c.OSCloud, err)
	}
	client.Microversion = volumeVersion
	return client, nil
}

// volumeType logs in and finds a volume type.
func (c cloud) volumeType(ctx context.Context, nameOrID string) (*gophercloud.ServiceClient, *volumeType, error) {
	client, err := c.volumes(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := findVolumeType(ctx, client, nameOrID)
	return client, t, err
}

// extended gives a client that speaks strongroom's extensions.
func extended(client *gophercloud.ServiceClient) *gophercloud.ServiceClient {
	other := *client
	other.Microversion = ""
	other.MoreHeaders = map[string]string{"OpenStack-API-Version": "volume " + volumeVersion + ", strongroom 1.0"}
	return &other
}

// volumeType is a volume type with all that belongs to it. Unlike gophercloud's it
// tells null from nothing.
type volumeType struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description *string           `json:"description"`
	IsPublic    bool              `json:"is_public"`
	ExtraSpecs  volumeSpecs       `json:"extra_specs"`
	QosSpecsID  *string           `json:"qos_specs_id"`
	Projects    []string          `json:"projects,omitempty"`
	Encryption  *volumeEncryption `json:"encryption,omitempty"`
}

// volumeSpecs are extra specs. A value may be null.
type volumeSpecs map[string]*string

// volumeEncryption is how the volumes of a type are encrypted.
type volumeEncryption struct {
	ID              string  `json:"encryption_id"`
	Provider        string  `json:"provider"`
	ControlLocation string  `json:"control_location"`
	Cipher          *string `json:"cipher"`
	KeySize         *int    `json:"key_size"`
}

// String shows an encryption in one line.
func (e *volumeEncryption) String() string {
	parts := []string{e.Provider, text(e.Cipher)}
	if e.KeySize != nil {
		parts = append(parts, strconv.Itoa(*e.KeySize)+" bits")
	}
	return strings.Join(append(parts, e.ControlLocation), " ")
}

// listVolumeTypes gives all pages of a list.
func listVolumeTypes(ctx context.Context, client *gophercloud.ServiceClient, opts volumetypes.ListOptsBuilder) ([]volumeType, error) {
	pages, err := volumetypes.List(client, opts).AllPages(ctx)
	if err != nil {
		return nil, explain(err)
	}
	list := []volumeType{}
	return list, volumetypes.ExtractVolumeTypesInto(pages, &list)
}

// findVolumeType gives the volume type of that id or name.
func findVolumeType(ctx context.Context, client *gophercloud.ServiceClient, nameOrID string) (*volumeType, error) {
	if isUUID(nameOrID) {
		var t volumeType
		err := volumetypes.Get(ctx, client, nameOrID).ExtractInto(&t)
		return &t, explain(err)
	}
	// Cinder takes no filter by name from those who are no administrators.
	all, err := listVolumeTypes(ctx, client, volumetypes.ListOpts{})
	if err != nil {
		return nil, err
	}
	var found []volumeType
	for _, t := range all {
		if t.Name == nameOrID {
			found = append(found, t)
		}
	}
	return one("volume type", nameOrID, found)
}

// complete reads what a list does not tell: who sees a private type, and its
// encryption. The answers are for administrators.
func (t *volumeType) complete(ctx context.Context, client *gophercloud.ServiceClient) error {
	var crypt volumeEncryption
	if err := volumetypes.GetEncryption(ctx, client, t.ID).ExtractInto(&crypt); err != nil {
		return err
	}
	if crypt.ID != "" {
		t.Encryption = &crypt
	}
	if t.IsPublic {
		return nil
	}
	var err error
	t.Projects, err = readAccess(ctx, client, t.ID)
	return err
}

// readAccess gives the projects that see a private type.
func readAccess(ctx context.Context, client *gophercloud.ServiceClient, id string) ([]string, error) {
	pages, err := volumetypes.ListAccesses(client, id).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	accesses, err := volumetypes.ExtractAccesses(pages)
	var projects []string
	for _, access := range accesses {
		projects = append(projects, access.ProjectID)
	}
	return projects, err
}

func forbidden(err error) bool { return gophercloud.ResponseCodeIs(err, 403) }

func isUUID(text string) bool {
	return uuid.Validate(text) == nil && len(text) == len(uuid.Nil.String())
}
