package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
)

type volumeTypeImport struct {
	cloud
	output
	From   string   `required:"" placeholder:"CLOUD" help:"The cloud of clouds.yaml to copy from. Its user must be an administrator there."`
	DryRun bool     `help:"Say what would be done and do nothing."`
	Types  []string `arg:"" optional:"" name:"type" help:"Only these types, by id or name."`
}

// Help is shown by --help.
func (volumeTypeImport) Help() string {
	return `Copies volume types with their extra specs, access and encryption from the block
storage service of another cloud, which may be a Cinder or a strongroom. It reads
there and writes here (--os-cloud), as an administrator of both.

A new type keeps its id, so that what names it by id goes on to. A type that is
here already, under the same id or else the same name, becomes what it is there.
Types that are only here stay as they are. Run it as often as you like: what is
alike is left alone. QoS specs are not copied: strongroom has none.

  strongroom volume-type import --from old-cloud --dry-run
  strongroom volume-type import --from old-cloud`
}

// imported says what became of a type.
type imported struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Result string   `json:"result"` // created, changed, unchanged or failed
	Steps  []string `json:"steps,omitempty"`
	Note   string   `json:"note,omitempty"`
	Error  string   `json:"error,omitempty"`
}

func (c volumeTypeImport) Run(r *run) error {
	source, err := cloud{OSCloud: c.From}.volumes(r)
	if err != nil {
		return err
	}
	source.Microversion = "" // the oldest tells all there is to tell
	wanted, err := c.read(r, source)
	if err != nil {
		return fmt.Errorf("cloud %q: %w", c.From, err)
	}
	target, err := c.volumes(r)
	if err != nil {
		return err
	}
	here, err := readVolumeTypes(r, target)
	if err != nil {
		return fmt.Errorf("cloud %q: %w", c.OSCloud, err)
	}
	results, failed := []imported{}, 0
	for _, t := range wanted {
		result := c.bring(r, target, t, here)
		if result.Error != "" {
			failed++
		}
		results = append(results, result)
	}
	err = c.print(results, func(w *sheet) {
		w.header("ID", "NAME", "RESULT", "STEPS")
		for _, result := range results {
			w.row(result.ID, result.Name, result.Result, strings.TrimSpace(strings.Join(append(result.Steps, result.Note, result.Error), " ")))
		}
	})
	if err == nil && failed > 0 {
		return fmt.Errorf("%d of %d volume types failed", failed, len(results))
	}
	return err
}

// read gives the types that are to be copied.
func (c volumeTypeImport) read(ctx context.Context, source *gophercloud.ServiceClient) ([]volumeType, error) {
	all, err := readVolumeTypes(ctx, source)
	if err != nil || len(c.Types) == 0 {
		return all, err
	}
	var chosen []volumeType
	for _, name := range c.Types {
		at := slices.IndexFunc(all, func(t volumeType) bool { return t.ID == name || t.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no volume type %q", name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// readVolumeTypes gives all types with all that belongs to them. Whoever is no
// administrator would be shown a part of each and not be told so: the encryption,
// which nobody else may read, tells.
func readVolumeTypes(ctx context.Context, client *gophercloud.ServiceClient) ([]volumeType, error) {
	all, err := listVolumeTypes(ctx, client, volumetypes.ListOpts{Sort: "name:asc"})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := all[i].complete(ctx, client); forbidden(err) {
			return nil, errors.New("its user is no administrator there and does not see everything of a volume type")
		} else if err != nil {
			return nil, explain(err)
		}
	}
	return all, nil
}

// bring makes a type here what it is there.
func (c volumeTypeImport) bring(ctx context.Context, client *gophercloud.ServiceClient, wanted volumeType, here []volumeType) imported {
	result := imported{ID: wanted.ID, Name: wanted.Name, Result: "unchanged"}
	if wanted.QosSpecsID != nil {
		result.Note = "without its QoS specs " + *wanted.QosSpecsID
	}
	var steps []importStep
	if now := counterpart(wanted, here); now != nil {
		result.ID = now.ID
		if steps = changeSteps(*now, wanted); len(steps) > 0 {
			result.Result = "changed"
		}
	} else {
		steps, result.Result = createSteps(wanted), "created"
	}
	for _, step := range steps {
		if !c.DryRun {
			if err := step.do(ctx, client, result.ID); err != nil {
				result.Result, result.Error = "failed", step.says+": "+explain(err).Error()
				return result
			}
		}
		result.Steps = append(result.Steps, step.says)
	}
	return result
}

// counterpart gives the type that is here already: of the same id, or else of the
// same name.
func counterpart(wanted volumeType, here []volumeType) *volumeType {
	for _, same := range []func(volumeType) bool{
		func(t volumeType) bool { return t.ID == wanted.ID },
		func(t volumeType) bool { return t.Name == wanted.Name },
	} {
		if at := slices.IndexFunc(here, same); at >= 0 {
			return &here[at]
		}
	}
	return nil
}
