package workflows

import (
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Rotate gives the encrypted disks of a server new passphrases, each in a new
// secret. Until the record names the new secrets, both open the disks and an undo
// removes the new ones; after that nothing is undone, and the old ones are removed.
func Rotate(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.RotateKeys, func(m *machine, in compute.RotateArguments) body {
		return &rotation{machine: m, in: in}
	})
}

type rotation struct {
	*machine
	in     compute.RotateArguments
	disks  []compute.Disk // with their old secrets
	before disk.KeySlotsResult
	after  map[string]compute.Rotated // by disk id
}

func (r *rotation) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{r.readKeySlots, r.makeKeys, r.addKeys} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err := r.decide(ctx)
	if err != nil {
		return err
	}
	if err := r.removeAfterCommit(ctx, "erase_key_slots", r.oldSlots()); err != nil {
		return err
	}
	if err := r.renewConfigDrive(ctx); err != nil {
		return err
	}
	if err := r.removeOldSecrets(ctx); err != nil {
		return err
	}
	return r.commit(ctx, r.unchanged())
}

// outcome leaves the server as it was: the guest ran all the time.
func (r *rotation) outcome(workflow.Context, *compute.Error) record.SettleInput { return r.unchanged() }

// readKeySlots reads which key slots of the disks are in use: an undo erases all slots but
// those.
func (r *rotation) readKeySlots(ctx workflow.Context) (err error) {
	if r.disks, err = r.server.DisksToRotate(r.in.Disks); err != nil {
		return err
	}
	if err = r.server.CheckRotator(r.asked.Credential); err != nil {
		return err
	}
	return r.take(ctx, step{event: "read_key_slots", host: &r.host, task: compute.TaskRotatingKeys, do: func(ctx workflow.Context) (err error) {
		r.before, err = disk.KeySlots.On(r.host).Run(ctx, disk.KeySlotsInput{Server: r.Server, Disks: r.disks})
		return err
	}})
}

func (r *rotation) makeKeys(ctx workflow.Context) error {
	plan := make([]plannedSecret, len(r.disks))
	for i, d := range r.disks {
		plan[i] = planSecret(r.keys().Disks, compute.DiskSecret(r.Server, r.Operation, d), &d.ID)
		plan[i].Like = d.Secret
	}
	made := r.secretThings(plan)
	return r.take(ctx, step{
		event: "create_secrets", makes: made, undoLast: true, // keys go after the slots that they open
		do: func(ctx workflow.Context) error { return r.createKeys(ctx, plan, made) },
	})
}

func (r *rotation) createKeys(ctx workflow.Context, plan []plannedSecret, made []compute.Thing) error {
	ids, err := createSecrets(ctx, plan, made)
	if err != nil {
		return err
	}
	r.after = map[string]compute.Rotated{}
	for i, d := range r.disks {
		r.after[d.ID.String()] = compute.Rotated{Secret: ids[i]}
	}
	return nil
}

// addKeys lets the new secrets open the disks too.
func (r *rotation) addKeys(ctx workflow.Context) error {
	return r.take(ctx, step{event: "add_key_slots", host: &r.host, makes: r.slots(compute.AddedKeySlots), do: r.addSlots})
}

// slots names key slots of the disks for the ledger, each with the slots of before.
func (r *rotation) slots(name func(compute.ServerID, string, compute.OperationID) string) []compute.Thing {
	out := make([]compute.Thing, len(r.disks))
	for i, d := range r.disks {
		out[i] = r.onHost(compute.ThingKeySlot, r.host, name(r.Server, d.Name(), r.Operation))
		var numbers []string
		for _, n := range r.before.Slots[d.ID.String()] {
			numbers = append(numbers, strconv.Itoa(n))
		}
		out[i].Reference = strings.Join(numbers, ",")
	}
	return out
}

func (r *rotation) oldSlots() []compute.Thing { return r.slots(compute.OldKeySlots) }

func (r *rotation) addSlots(ctx workflow.Context) error {
	calls := make([]durable.Future[disk.AddKeyResult], len(r.disks))
	for i, d := range r.disks {
		calls[i] = disk.AddKey.On(r.host).Start(ctx, disk.AddKeyInput{
			Credential: r.keys().Disks, Server: r.Server, Disk: d, Secret: r.after[d.ID.String()].Secret, Before: r.before.Slots[d.ID.String()],
		})
	}
	added, err := awaitAll(ctx, calls)
	if err != nil {
		return err
	}
	for i, d := range r.disks {
		id := d.ID.String()
		r.after[id] = compute.Rotated{Secret: r.after[id].Secret, Options: added[i].EncryptionOptions}
	}
	return nil
}

// decide is the point of no return: the record names the new secrets, the added slots leave
// the ledger (they are part of the disks now), and the old slots are put on it.
func (r *rotation) decide(ctx workflow.Context) (workflow.Context, error) {
	return passPointOfNoReturn(ctx, r.operation, record.Rotate, func(added *record.Close) record.RotateInput {
		added.Released, added.Present = added.Present, nil
		return record.RotateInput{
			OperationInput: r.OperationInput, Disks: r.after, Close: added,
			Open: (&step{event: "erase_key_slots", host: &r.host}).opening(r.oldSlots()),
		}
	})
}

// renewConfigDrive encrypts the config drive with the root disk's new passphrase. A failure
// does no harm: every boot writes the config drive anew.
func (r *rotation) renewConfigDrive(ctx workflow.Context) error {
	root, _ := r.server.RootDisk()
	if _, rotated := r.after[root.ID.String()]; !rotated || !r.server.ConfigDrive {
		return nil
	}
	r.server.Disks = slices.Clone(r.server.Disks)
	for i, d := range r.server.Disks {
		if to, rotated := r.after[d.ID.String()]; rotated {
			r.server.Disks[i].Secret = &to.Secret
		}
	}
	s := step{event: "create_config_drive", host: &r.host}
	return r.runAfterCommit(durable.WithUndo(ctx), s, func(ctx workflow.Context, hostDown bool, end *record.Close) error {
		if hostDown {
			end.Error = reasonHostDown
		} else if err := r.makeConfigDrive(ctx); err != nil {
			end.Error = durable.FromTemporal(err).Message
		}
		return nil
	})
}

// removeOldSecrets removes the secrets that opened the disks before. One that is not on the
// ledger was not made by strongroom and stays.
func (r *rotation) removeOldSecrets(ctx workflow.Context) error {
	has, err := r.things(ctx)
	if err != nil {
		return err
	}
	return r.removeAfterCommit(ctx, "delete_secrets", slices.DeleteFunc(has, func(t compute.Thing) bool {
		opened := func(d compute.Disk) bool { return d.Secret.String() == t.Reference }
		return t.Kind != compute.ThingKeySecret || !slices.ContainsFunc(r.disks, opened)
	}))
}
