package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Rotate gives the encrypted disks of a server new passphrases, each in a new
// secret. Until the record names the new secrets, both open the disks and an undo
// takes the new ones away; from then on nothing is undone, and the old ones go.
func Rotate(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &rotation{operation: o, in: *o.asked.Rotate} })
}

type rotation struct {
	*operation
	in     compute.RotateArguments
	host   compute.HostID
	disks  []compute.Disk // with their old secrets
	before disk.KeySlotsResult
	after  map[string]compute.Rotated

	damaged bool // the old keys could not be erased
}

func (r *rotation) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{r.look, r.makeKeys, r.addKeys} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err := r.decide(ctx, record.Rotate, record.RotateInput{OperationInput: r.OperationInput, Disks: r.after})
	if err != nil {
		return err
	}
	if err := r.eraseOldKeys(ctx); err != nil {
		return err
	}
	if err := r.renewConfigDrive(ctx); err != nil {
		return err
	}
	if err := r.deleteOldSecrets(ctx); err != nil {
		return err
	}
	return r.commit(ctx, r.outcome(nil))
}

// outcome leaves the server as it was: its guest notices nothing.
func (r *rotation) outcome(*compute.Error) record.SettleInput {
	return r.unchanged()
}

// look sees which disks it is about, and which of their key slots are in use: what
// comes beside those is this operation's.
func (r *rotation) look(ctx workflow.Context) (err error) {
	if r.host, err = r.operation.host(); err != nil {
		return err
	}
	if r.disks, err = r.server.DisksToRotate(r.in.Disks); err != nil {
		return err
	}
	if err = r.server.CheckRotator(r.asked.Credential); err != nil {
		return err
	}
	if err = r.task(ctx, compute.TaskRotatingKeys); err != nil {
		return err
	}
	return r.take(ctx, step{event: "read_key_slots", host: &r.host, do: func(ctx workflow.Context) error {
		in := disk.KeySlotsInput{Server: r.Server, Disks: r.disks}
		return workflow.ExecuteActivity(durable.HostQuick(ctx, r.host), disk.KeySlots, in).Get(ctx, &r.before)
	}})
}

func (r *rotation) makeKeys(ctx workflow.Context) error {
	plan := make([]plannedSecret, len(r.disks))
	for i, d := range r.disks {
		plan[i] = planSecret(r.keys().Disks, compute.DiskSecret(r.Server, r.Operation, d), &d.ID)
	}
	things := r.secretThings(plan)
	return r.take(ctx, step{
		event: "create_secrets", makes: things,
		do:   func(ctx workflow.Context) error { return r.createKeys(ctx, plan, things) },
		undo: func(ctx workflow.Context) error { return r.removeAll(ctx, things) },
		lean: true, // keys go after the slots that they open
	})
}

func (r *rotation) createKeys(ctx workflow.Context, plan []plannedSecret, things []compute.Thing) error {
	made, err := makeSecrets(ctx, plan, things)
	if err != nil {
		return err
	}
	r.after = map[string]compute.Rotated{}
	for i, d := range r.disks {
		r.after[d.ID.String()] = compute.Rotated{Secret: made[i]}
	}
	return nil
}

// addKeys lets the new secrets open the disks too.
func (r *rotation) addKeys(ctx workflow.Context) error {
	return r.take(ctx, step{
		event: "add_key_slots", host: &r.host, do: r.addSlots,
		undo: func(ctx workflow.Context) error { return r.eraseSlots(ctx, true) },
	})
}

func (r *rotation) addSlots(ctx workflow.Context) error {
	calls := make([]workflow.Future, len(r.disks))
	for i, d := range r.disks {
		in := disk.AddKeyInput{
			Credential: r.keys().Disks, Server: r.Server, Disk: d, Secret: r.after[d.ID.String()].Secret, Before: r.before.Slots[d.ID.String()],
		}
		calls[i] = workflow.ExecuteActivity(durable.HostQuick(ctx, r.host), disk.AddKey, in)
	}
	if err := all(ctx, calls); err != nil {
		return err
	}
	for i, d := range r.disks {
		var got disk.AddKeyResult
		if err := calls[i].Get(ctx, &got); err != nil {
			return err
		}
		id := d.ID.String()
		r.after[id] = compute.Rotated{Secret: r.after[id].Secret, Options: got.EncryptionOptions}
	}
	return nil
}

// eraseSlots closes the slots of the time before, or all the others.
func (r *rotation) eraseSlots(ctx workflow.Context, others bool) error {
	calls := make([]workflow.Future, len(r.disks))
	for i, d := range r.disks {
		in := disk.EraseKeysInput{Server: r.Server, Disk: d, Slots: r.before.Slots[d.ID.String()], Others: others}
		calls[i] = workflow.ExecuteActivity(durable.HostUndo(ctx, r.host), disk.EraseKeys, in)
	}
	return all(ctx, calls)
}

// badHeaders is how often a disk is found damaged before it is believed.
const badHeaders = 5

// givesUp is false for rotations that began when they still tried for ever.
func givesUp(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, "a rotation gives up what cannot be helped", workflow.DefaultVersion, 1) == 1
}

// eraseOldKeys takes the old keys from the disks. The header of one may have gone bad
// since the new key was added to it: then the trail says so, and the old secrets stay,
// since nobody can tell what still opens that disk.
func (r *rotation) eraseOldKeys(ctx workflow.Context) error {
	found := 0
	return r.onward(ctx, step{event: "erase_key_slots", host: &r.host}, func(ctx workflow.Context, end *record.CloseInput) error {
		err := r.eraseSlots(ctx, false)
		if why := durable.FromTemporal(err); err != nil && why.Kind == compute.Corrupt {
			if found++; found == badHeaders && givesUp(ctx) {
				r.damaged, end.Error, err = true, why.Message, nil
			}
		}
		return err
	})
}

// renewConfigDrive has the config drive made with the root disk's new passphrase. What
// cannot be helped by waiting, a credential that died or a disk that is full, leaves
// that to the next boot, which always does it.
func (r *rotation) renewConfigDrive(ctx workflow.Context) error {
	server := r.server
	server.Disks = slices.Clone(server.Disks)
	for i, d := range server.Disks {
		if to, rotated := r.after[d.ID.String()]; rotated {
			server.Disks[i].Secret = &to.Secret
		}
	}
	root, _ := server.RootDisk()
	if _, rotated := r.after[root.ID.String()]; !rotated || !server.ConfigDrive {
		return nil
	}
	return r.onward(ctx, step{event: "create_config_drive", host: &r.host}, func(ctx workflow.Context, end *record.CloseInput) error {
		err := r.makeConfigDrive(durable.HostUndo(ctx, r.host), server)
		if why := durable.FromTemporal(err); err != nil && (why.Kind == compute.Forbidden || why.Kind != compute.Unavailable && givesUp(ctx)) {
			end.Error, err = why.Message, nil
		}
		return err
	})
}

// deleteOldSecrets deletes what strongroom made for the disks before. A secret that
// is not on the server's books is somebody else's and stays.
func (r *rotation) deleteOldSecrets(ctx workflow.Context) error {
	if r.damaged {
		return nil
	}
	var things []compute.Thing
	if err := durable.Persist(ctx, func(ctx workflow.Context) error {
		return recorded(ctx, record.Things, r.Server, &things)
	}); err != nil {
		return err
	}
	old := slices.DeleteFunc(things, func(t compute.Thing) bool {
		return t.Kind != compute.ThingKeySecret || !slices.ContainsFunc(r.disks, func(d compute.Disk) bool { return d.Secret.String() == t.Reference })
	})
	if len(old) == 0 {
		return nil
	}
	return r.onward(ctx, step{event: "delete_secrets"}, func(ctx workflow.Context, end *record.CloseInput) error {
		return r.remove(ctx, old, end)
	})
}
