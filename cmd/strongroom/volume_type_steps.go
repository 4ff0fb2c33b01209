package main

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
)

// importStep is one request that brings a type nearer to what it shall be.
type importStep struct {
	says string
	do   func(ctx context.Context, client *gophercloud.ServiceClient, id string) error
}

// createSteps make a type that is not here.
func createSteps(wanted volumeType) []importStep {
	made := wanted
	made.Projects, made.Encryption = nil, nil
	return append([]importStep{{"create", func(ctx context.Context, client *gophercloud.ServiceClient, _ string) error {
		return volumetypes.Create(ctx, extended(client), newVolumeType{wanted}).Err
	}}}, changeSteps(made, wanted)...)
}

// newVolumeType is the body that makes a type with its id.
type newVolumeType struct{ volumeType }

// ToVolumeTypeCreateMap builds the request's body.
func (t newVolumeType) ToVolumeTypeCreateMap() (map[string]any, error) {
	specs := t.ExtraSpecs
	if specs == nil {
		specs = volumeSpecs{}
	}
	return map[string]any{"volume_type": map[string]any{
		"id": t.ID, "name": t.Name, "description": t.Description, "os-volume-type-access:is_public": t.IsPublic, "extra_specs": specs,
	}}, nil
}

// changeSteps make one type into another. Extra specs that are to go do so first:
// one that comes may exclude them.
func changeSteps(now, wanted volumeType) []importStep {
	var steps []importStep
	if now.Name != wanted.Name || text(now.Description) != text(wanted.Description) || now.IsPublic != wanted.IsPublic {
		steps = append(steps, importStep{"update", func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
			description := text(wanted.Description)
			return volumetypes.Update(ctx, client, id, volumetypes.UpdateOpts{
				Name: &wanted.Name, Description: &description, IsPublic: &wanted.IsPublic,
			}).Err
		}})
	}
	steps = append(steps, specSteps(now.ExtraSpecs, wanted.ExtraSpecs)...)
	if !wanted.IsPublic && (now.IsPublic || len(difference(now.Projects, wanted.Projects))+len(difference(wanted.Projects, now.Projects)) > 0) {
		steps = append(steps, accessStep(now.Projects, wanted.Projects))
	}
	return append(steps, encryptionSteps(now.Encryption, wanted.Encryption)...)
}

func specSteps(now, wanted volumeSpecs) []importStep {
	var steps []importStep
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, stays := wanted[key]; !stays {
			steps = append(steps, importStep{"-" + key, func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
				return volumetypes.DeleteExtraSpec(ctx, client, id, url.PathEscape(key)).ExtractErr()
			}})
		}
	}
	set, says := volumeSpecs{}, ""
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if value, ok := now[key]; !ok || !alike(value, wanted[key]) {
			set[key] = wanted[key]
			says += " +" + key
		}
	}
	if len(set) > 0 {
		steps = append(steps, importStep{says[1:], func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
			return volumetypes.CreateExtraSpecs(ctx, client, id, set).Err
		}})
	}
	return steps
}

// ToVolumeTypeExtraSpecsCreateMap builds the body that sets extra specs.
func (s volumeSpecs) ToVolumeTypeExtraSpecsCreateMap() (map[string]any, error) {
	return map[string]any{"extra_specs": s}, nil
}

// accessStep settles who sees a private type. Who saw it before it was public is
// not told while it is: the step looks for itself.
func accessStep(now, wanted []string) importStep {
	says := "access"
	for _, project := range difference(now, wanted) {
		says += " -" + project
	}
	for _, project := range difference(wanted, now) {
		says += " +" + project
	}
	return importStep{says, func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
		now, err := readAccess(ctx, client, id)
		if err != nil {
			return err
		}
		for _, project := range difference(now, wanted) {
			if err := volumetypes.RemoveAccess(ctx, client, id, volumetypes.RemoveAccessOpts{Project: project}).ExtractErr(); err != nil {
				return err
			}
		}
		return addAccess(ctx, client, id, difference(wanted, now))
	}}
}

// difference gives what is in a and not in b.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func encryptionSteps(now, wanted *volumeEncryption) []importStep {
	switch {
	case wanted == nil && now == nil:
		return nil
	case wanted == nil:
		return []importStep{{"-encryption", func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
			return volumetypes.DeleteEncryption(ctx, client, id, now.ID).ExtractErr()
		}}}
	case now == nil:
		return []importStep{{"+encryption", func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
			return volumetypes.CreateEncryption(ctx, client, id, wanted.body()).Err
		}}}
	case now.Provider != wanted.Provider || now.ControlLocation != wanted.ControlLocation ||
		!alike(now.Cipher, wanted.Cipher) || !alike(now.KeySize, wanted.KeySize):
		return []importStep{{"encryption", func(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
			return volumetypes.UpdateEncryption(ctx, client, id, now.ID, wanted.body()).Err
		}}}
	}
	return nil
}

func (e *volumeEncryption) body() encryptionBody {
	return encryptionBody{"provider": e.Provider, "control_location": e.ControlLocation, "cipher": e.Cipher, "key_size": e.KeySize}
}

// alike reports whether two values are one, or both null.
func alike[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
