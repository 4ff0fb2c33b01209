package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Spawn makes a server: a host, secrets, disks, a running domain. Whatever ends
// it early, nothing that it made is left; the server stays in ERROR with a
// fault that says why (EE-36).
func Spawn(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &spawn{operation: o, now: ctx} })
}

type spawn struct {
	*operation
	host  compute.HostID
	power compute.PowerState
	now   workflow.Context
}

func (s *spawn) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{
		s.delegate, s.place, s.makeSecrets, s.makeDisks, s.start,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return s.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: s.power, Launched: true})
}

func (s *spawn) outcome(err *compute.Error) record.SettleInput {
	return record.SettleInput{VMState: compute.VMError, Fault: faultOf(s.now, err)}
}

// place claims a host and has the image there. A host whose worker does not
// take the work within a minute is given up for another one.
func (s *spawn) place(ctx workflow.Context) error {
	var silent []compute.HostID
	s.saga.DeferLast("claim_host", func(ctx workflow.Context) error {
		return recorded(ctx, record.Unclaim, s.OperationInput, nil)
	})
	for {
		if err := s.claim(ctx, silent); err != nil {
			return err
		}
		cached, err := s.cacheImage(s.host)
		if err != nil {
			return err
		}
		err = s.take(ctx, cached.step)
		if !durable.IsHostSilent(err) {
			return err
		}
		if !durable.WasTaken(err) {
			if err := s.passBy(ctx, cached); err != nil {
				return err
			}
		}
		silent = append(silent, s.host)
	}
}

func (s *spawn) claim(ctx workflow.Context, not []compute.HostID) error {
	return s.take(ctx, step{event: "claim_host", do: func(ctx workflow.Context) error {
		var got record.ClaimResult
		in := record.ClaimInput{OperationInput: s.OperationInput, Plan: s.server, Not: not}
		if err := recorded(ctx, record.Claim, in, &got); err != nil {
			return err
		}
		s.host, s.hostName, s.server.Host = got.Host, got.Name, &got.Host
		return s.task(ctx, compute.TaskBlockDevice)
	}})
}

// makeSecrets gives every encrypted disk and the vTPM a secret of its own
// (EE-09, TPM-09) and puts their ids on record (TPM-10).
func (s *spawn) makeSecrets(ctx workflow.Context) error {
	plan, err := secretPlan(s.server, s.Operation, s.keys(), s.asked.Credential)
	if err != nil || len(plan) == 0 {
		return err
	}
	things := make([]compute.Thing, len(plan))
	for i, p := range plan {
		things[i] = s.thing(compute.ThingKeySecret, compute.PlaceKeyManager, p.Name)
		things[i].Credential = p.Credential
	}
	return s.take(ctx, step{
		event: "create_secrets", makes: things,
		do: func(ctx workflow.Context) error { return s.createSecrets(ctx, plan, things) },
		undo: func(ctx workflow.Context) error {
			end := s.removeAll(ctx, things)
			if err := recorded(ctx, record.ClearSecrets, s.OperationInput, nil); err != nil {
				return err
			}
			return end
		},
		lean: true, // keys go after the disks and the TPM state that they open
	})
}

func (s *spawn) createSecrets(ctx workflow.Context, plan []plannedSecret, things []compute.Thing) error {
	cloud := durable.Cloud(ctx)
	calls := make([]workflow.Future, len(plan))
	for i, p := range plan {
		calls[i] = p.make(cloud)
	}
	if err := all(ctx, calls); err != nil {
		return err
	}
	ids := record.SecretsInput{OperationInput: s.OperationInput, Disks: map[string]compute.SecretID{}}
	for i, p := range plan {
		var got key.CreateResult
		if err := calls[i].Get(ctx, &got); err != nil {
			return err
		}
		things[i].Reference = got.Secret.String()
		p.give(&s.server, &ids, got.Secret)
	}
	return recorded(ctx, record.SaveSecrets, ids, nil)
}

// makeDisks makes the local disks, each encrypted with its own secret.
func (s *spawn) makeDisks(ctx workflow.Context) error {
	if err := s.task(ctx, compute.TaskSpawning); err != nil {
		return err
	}
	made := step{event: "create_disks", host: &s.host, do: s.createDisks, undo: func(ctx workflow.Context) error {
		return s.deleteFiles(ctx, diskFiles(s.server))
	}}
	for _, d := range s.server.Disks {
		made.makes = append(made.makes, s.thing(compute.ThingDiskFile, s.host.String(), s.Server.String()+"/"+d.Name()))
	}
	return s.take(ctx, made)
}

func (s *spawn) createDisks(ctx workflow.Context) error {
	host := durable.HostQuick(ctx, s.host)
	calls := make([]workflow.Future, len(s.server.Disks))
	for i, d := range s.server.Disks {
		in := disk.CreateInput{Credential: s.keys().Disks, Server: s.Server, Disk: d}
		if d.Role == compute.RootDisk {
			in.Project, in.Image = s.server.ProjectID, &s.server.Image
		}
		calls[i] = workflow.ExecuteActivity(host, disk.Create, in)
	}
	if err := all(ctx, calls); err != nil {
		return err
	}
	for i, d := range s.server.Disks {
		var got disk.CreateResult
		if err := calls[i].Get(ctx, &got); err != nil {
			return err
		}
		if !d.Encrypted {
			continue
		}
		in := record.OptionsInput{OperationInput: s.OperationInput, Disk: d.ID, Format: d.Format, Options: got.EncryptionOptions}
		if err := recorded(ctx, record.SaveOptions, in, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *spawn) deleteFiles(ctx workflow.Context, files []string) error {
	host := durable.HostUndo(ctx, s.host)
	calls := make([]workflow.Future, len(files))
	for i, f := range files {
		calls[i] = workflow.ExecuteActivity(host, disk.Delete, disk.DeleteInput{Server: s.Server, File: f})
	}
	return all(ctx, calls)
}

// start boots the domain for the first time; its undo leaves neither domain
// nor TPM state nor console log.
func (s *spawn) start(ctx workflow.Context) error {
	boot := s.boot(s.host, &s.power)
	place := s.host.String()
	boot.makes = append(boot.makes,
		s.thing(compute.ThingDomain, place, s.server.InstanceName()),
		s.thing(compute.ThingDiskFile, place, s.Server.String()+"/"+disk.ConsoleLog))
	if s.server.TPM != nil {
		boot.makes = append(boot.makes, s.thing(compute.ThingTPMState, place, s.Server.String()))
	}
	boot.undo = func(ctx workflow.Context) error {
		if err := s.destroy(ctx, s.host); err != nil {
			return err
		}
		if err := s.forgetSecrets(ctx, s.host); err != nil {
			return err
		}
		return s.deleteFiles(ctx, []string{disk.ConsoleLog})
	}
	return s.take(ctx, boot)
}
