package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
)

// SecureVolumeOpen opens and mounts the volume that has a host's own state. A new one gets a key and is formatted.
func SecureVolumeOpen(ctx workflow.Context, in durable.OperationInput) error {
	return onVolume(ctx, in, func(v *secureVolume) body { return &volumeOpen{v} })
}

// SecureVolumeClose unmounts and closes it. Where guests run, or something uses it, it stays open.
func SecureVolumeClose(ctx workflow.Context, in durable.OperationInput) error {
	return onVolume(ctx, in, func(v *secureVolume) body { return &volumeClose{v} })
}

// SecureVolumeRotateKey gives it a new key, also while it is open. One that failed is done again by the next one, with
// the same new key.
func SecureVolumeRotateKey(ctx workflow.Context, in durable.OperationInput) error {
	return onVolume(ctx, in, func(v *secureVolume) body { return &volumeRotation{v} })
}

// onVolume begins an operation on a volume and carries it out.
func onVolume(ctx workflow.Context, in durable.OperationInput, newBody func(*secureVolume) body) error {
	o := &operation{OperationInput: in}
	begun, err := record.BeginVolume.Run(ctx, in)
	if err != nil {
		return o.fail(ctx, err, record.SettleInput{})
	}
	if begun.Superseded {
		return nil
	}
	o.asked = record.BeginResult{Kind: begun.Kind, Credential: compute.DeploymentCredential(), Began: begun.Began}
	if err := durable.DescribeHosts(ctx, begun.Host.Name); err != nil {
		workflow.GetLogger(ctx).Warn("the host is not shown", "error", err)
	}
	b := newBody(&secureVolume{operation: o, volume: begun.Volume, host: begun.Host, neverFormat: begun.NeverFormat})
	if err := o.fits(ctx); err != nil {
		b = refused{o, err}
	}
	return o.carryOut(ctx, b)
}

// secureVolume is an operation on a host's volume.
type secureVolume struct {
	*operation
	volume compute.SecureVolume
	host   durable.Host

	neverFormat bool // record.BeginVolumeResult
}

func (v *secureVolume) input() volume.Input {
	return volume.Input{Volume: v.volume.ID, Device: v.volume.Device}
}

// open are what there is of the volume while it is open.
func (v *secureVolume) open() []compute.Thing {
	name := v.volume.ID.String()
	return []compute.Thing{v.onHost(compute.ThingVolumeMapping, v.host, name), v.onHost(compute.ThingVolumeMount, v.host, name)}
}

// outcome says all of the failure: the operators of the host alone read it, and it names what they are to look at there.
func (v *secureVolume) outcome(_ workflow.Context, err *compute.Error) record.SettleInput {
	return record.SettleInput{Message: err.Message}
}

// createKey makes a key. In one transaction it is written down that it exists and that it is the volume's: from then on no
// undo removes it, for the volume may have been formatted with it.
func (v *secureVolume) createKey(ctx workflow.Context, keep func(compute.SecretID)) error {
	plan := compute.VolumeSecret(v.volume.ID, v.Operation)
	made := []compute.Thing{v.thing(compute.ThingKeySecret, compute.PlaceKeyManager, plan.Name)}
	err := v.take(ctx, step{event: "create_secret", makes: made, do: func(ctx workflow.Context) error {
		got, err := key.Create.Run(ctx, key.CreateInput{Credential: v.asked.Credential, ID: plan.ID, Name: plan.Name, Bytes: plan.Bytes})
		if err == nil {
			made[0].Reference = got.Secret.String()
			keep(got.Secret)
		}
		return err
	}})
	if err != nil {
		return err
	}
	running, _ := workflow.NewDisconnectedContext(ctx)
	if err := recordUntilAnswered(running, record.SetVolume, v.keys(v.closing())); err != nil {
		return err
	}
	v.saga.Drop()
	return nil
}

// keys writes down the keys that the volume has, and where it is.
func (v *secureVolume) keys(last *record.Close) record.SetVolumeInput {
	return record.SetVolumeInput{OperationInput: v.OperationInput, Close: last, Keys: &record.VolumeKeys{Secret: v.volume.Secret, Next: v.volume.Next, Device: v.volume.Device}}
}

// decide passes the point of no return, and removes keys that are not the volume's any more.
func (v *secureVolume) decide(ctx workflow.Context) error {
	ctx, err := passPointOfNoReturn(ctx, v.operation, record.SetVolume, v.keys)
	if err != nil {
		return err
	}
	var has []compute.Thing
	if err := durable.RetryForever(ctx, func(ctx workflow.Context) (err error) {
		has, err = ledger.Things.Run(ctx, v.Subject)
		return err
	}); err != nil {
		return err
	}
	has = slices.DeleteFunc(has, func(t compute.Thing) bool {
		id, known := t.Secret()
		return t.Kind != compute.ThingKeySecret || known && (id == *v.volume.Secret || v.volume.Next != nil && id == *v.volume.Next)
	})
	if len(has) > 0 {
		if err := v.removeAfterCommit(ctx, "delete_old_secret", has); err != nil {
			return err
		}
	}
	return v.commit(ctx, record.SettleInput{})
}

type volumeOpen struct{ *secureVolume }

func (o *volumeOpen) run(ctx workflow.Context) error {
	var is volume.LookResult
	if err := o.take(ctx, step{event: "look_at_volume", host: &o.host, do: func(ctx workflow.Context) (err error) {
		is, err = volume.Look.On(o.host).Run(ctx, o.input())
		return err
	}}); err != nil {
		return err
	}
	if is.New && o.neverFormat {
		return compute.Errorf(compute.Conflict,
			"%s of host %s is new, and the host's volume is not: is that on another device? A new one is formatted in its place where \"open\" has a --device",
			o.volume.Device, o.host.Name)
	}
	if o.volume.Secret == nil {
		if !is.New {
			return compute.Errorf(compute.Conflict, "%s of host %s has been encrypted before, and no key of it is on record", o.volume.Device, o.host.Name)
		}
		if err := o.createKey(ctx, func(id compute.SecretID) { o.volume.Secret = &id }); err != nil {
			return err
		}
	}
	err := o.take(ctx, step{event: "open_volume", host: &o.host, makes: o.open(), do: func(ctx workflow.Context) error {
		return volume.Open.On(o.host).Do(ctx, volume.OpenInput{
			Input: o.input(), Began: o.asked.Began, Credential: o.asked.Credential, Secret: *o.volume.Secret, Next: o.volume.Next, NeverFormat: o.neverFormat,
		})
	}})
	if is.Open {
		o.saga.Drop() // it is in use: what was open before stays open
	}
	if err != nil {
		return err
	}
	return o.decide(ctx)
}

// outcome forgets a volume on which nothing was begun.
func (o *volumeOpen) outcome(ctx workflow.Context, err *compute.Error) record.SettleInput {
	o.set(ctx, record.SetVolumeInput{OperationInput: o.OperationInput, Unopened: true})
	return o.secureVolume.outcome(ctx, err)
}

// set writes down what becomes of the volume of an operation that failed.
func (v *secureVolume) set(ctx workflow.Context, in record.SetVolumeInput) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := recordUntilAnswered(ctx, record.SetVolume, in); err != nil {
		workflow.GetLogger(ctx).Error("the volume's row stays as it is", "error", err)
	}
}

type volumeClose struct{ *secureVolume }

func (c *volumeClose) run(ctx workflow.Context) error {
	if err := c.take(ctx, step{event: "close_volume", host: &c.host, do: func(ctx workflow.Context) error {
		return volume.Close.On(c.host).Do(ctx, c.input())
	}}); err != nil {
		return err
	}
	c.unwritten.Close.Released = c.open()
	return c.commit(ctx, record.SettleInput{})
}

// outcome has the host go on with its volume.
func (c *volumeClose) outcome(ctx workflow.Context, err *compute.Error) record.SettleInput {
	c.set(ctx, record.SetVolumeInput{OperationInput: c.OperationInput, Wanted: true})
	return c.secureVolume.outcome(ctx, err)
}

type volumeRotation struct{ *secureVolume }

func (r *volumeRotation) run(ctx workflow.Context) error {
	if r.volume.Next == nil {
		if err := r.createKey(ctx, func(id compute.SecretID) { r.volume.Next = &id }); err != nil {
			return err
		}
	}
	if err := r.take(ctx, step{event: "change_key", host: &r.host, do: func(ctx workflow.Context) error {
		return volume.Rotate.On(r.host).Do(ctx, volume.RotateInput{
			Input: r.input(), Credential: r.asked.Credential, Secret: *r.volume.Secret, Next: *r.volume.Next,
		})
	}}); err != nil {
		return err
	}
	r.volume.Secret, r.volume.Next = r.volume.Next, nil
	return r.decide(ctx)
}
