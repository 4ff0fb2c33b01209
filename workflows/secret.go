package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// plannedSecret is a secret that a server needs, and where its id goes.
type plannedSecret struct {
	key.CreateInput
	from *key.CopyInput  // nil: a new passphrase
	disk *compute.DiskID // nil: the vTPM's
}

// secretPlan lists the secrets that a server lacks: one per encrypted disk, a copy of the
// image's for the disk that is made of an encrypted image (EE-11), one for the vTPM.
// The image's secret is read with the credential of whoever asked. Names and ids derive from the
// operation, so a second run finds the first's.
func secretPlan(server compute.Server, op compute.OperationID, keys compute.Keyring, asked compute.Credential) ([]plannedSecret, error) {
	var plan []plannedSecret
	source, err := server.Image.Encryption()
	if err != nil {
		return nil, err
	}
	for _, d := range server.Disks {
		if d.Encrypted && d.Secret == nil {
			plan = append(plan, planSecret(keys.Disks, compute.DiskSecret(server.ID, op, d), &d.ID))
		}
		if d.Role == compute.RootDisk && source != nil && d.BackingSecret == nil {
			p := planSecret(keys.Disks, compute.BackingSecret(server.ID, op, d), &d.ID)
			p.from = &key.CopyInput{Credential: p.Credential, ID: p.ID, Name: p.Name, From: source.Secret, FromCredential: asked}
			plan = append(plan, p)
		}
	}
	if server.TPM != nil && server.TPM.Secret == nil {
		plan = append(plan, planSecret(keys.TPM, compute.TPMSecret(server.ID, op), nil))
	}
	return plan, nil
}

func planSecret(cred compute.Credential, p compute.SecretPlan, disk *compute.DiskID) plannedSecret {
	return plannedSecret{disk: disk, CreateInput: key.CreateInput{Credential: cred, ID: p.ID, Name: p.Name, Bytes: p.Bytes}}
}

// secretThings names planned secrets for the ledger.
func (o *operation) secretThings(plan []plannedSecret) []compute.Thing {
	things := make([]compute.Thing, len(plan))
	for i, p := range plan {
		things[i] = o.thing(compute.ThingKeySecret, compute.PlaceKeyManager, p.Name)
		things[i].Credential = p.Credential
	}
	return things
}

// createSecrets creates planned secrets, all at once, and gives their ids, which made
// gets too.
func createSecrets(ctx workflow.Context, plan []plannedSecret, made []compute.Thing) ([]compute.SecretID, error) {
	calls := make([]durable.Future[key.CreateResult], len(plan))
	for i, p := range plan {
		calls[i] = p.start(ctx)
	}
	got, err := awaitAll(ctx, calls)
	if err != nil {
		return nil, err
	}
	ids := make([]compute.SecretID, len(plan))
	for i := range plan {
		ids[i], made[i].Reference = got[i].Secret, got[i].Secret.String()
	}
	return ids, nil
}

// start starts the activity that creates the secret.
func (p plannedSecret) start(ctx workflow.Context) durable.Future[key.CreateResult] {
	if p.from != nil {
		return key.Copy.Start(ctx, *p.from)
	}
	return key.Create.Start(ctx, p.CreateInput)
}

// assign sets a secret's id in the planned server and in what is recorded.
func (p plannedSecret) assign(server *compute.Server, ids *record.Secrets, id compute.SecretID) {
	if p.disk == nil {
		server.TPM.Secret, ids.TPM = &id, &id
		return
	}
	for i := range server.Disks {
		switch d := &server.Disks[i]; {
		case d.ID != *p.disk:
		case p.from != nil:
			d.BackingSecret = &id
		default:
			d.Secret = &id
		}
	}
	switch {
	case p.from == nil:
		ids.Disks[p.disk.String()] = id
	case ids.Sources == nil:
		ids.Sources = map[string]compute.SecretID{p.disk.String(): id}
	default:
		ids.Sources[p.disk.String()] = id
	}
}

// checkReadable reads keys of a server that an operation will need: who may not changes
// nothing (TPM-14, EE-30). of says with which credentials, see compute.KeyCredential.
func (o *operation) checkReadable(ctx workflow.Context, needs []compute.SecretID, of ...compute.Server) error {
	if len(needs) == 0 {
		return nil
	}
	return o.take(ctx, step{event: "check_secrets", do: func(ctx workflow.Context) error { return o.tryReading(ctx, needs, of...) }})
}

func (o *operation) tryReading(ctx workflow.Context, needs []compute.SecretID, of ...compute.Server) error {
	calls := make([]durable.Future[durable.None], len(needs))
	for i, id := range needs {
		calls[i] = key.Check.Start(ctx, key.CheckInput{Credential: compute.KeyCredential(id, o.asked.Credential, of...), Secret: id})
	}
	_, err := awaitAll(ctx, calls)
	return err
}
