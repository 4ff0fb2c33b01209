package workflows

import (
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
)

// plannedSecret is a secret that a server needs, and where its id goes.
type plannedSecret struct {
	key.CreateInput
	disk *compute.DiskID // nil: the vTPM's
}

// secretPlan lists the secrets of a server: one per encrypted disk, one for the
// vTPM. Names and ids derive from the operation, so a second run finds the first's.
func secretPlan(server compute.Server, op compute.OperationID, keys compute.Keyring) []plannedSecret {
	var plan []plannedSecret
	add := func(cred compute.Credential, p compute.SecretPlan, disk *compute.DiskID) {
		plan = append(plan, plannedSecret{disk: disk, CreateInput: key.CreateInput{
			Credential: cred, ID: p.ID, Name: p.Name, Bytes: p.Bytes,
		}})
	}
	for _, d := range server.Disks {
		if d.Encrypted {
			add(keys.Disks, compute.DiskSecret(server.ID, op, d), &d.ID)
		}
	}
	if server.TPM != nil {
		add(keys.TPM, compute.TPMSecret(server.ID, op), nil)
	}
	return plan
}

// give writes a secret's id where it belongs: into the plan that hosts act on,
// and into what is recorded.
func (p plannedSecret) give(server *compute.Server, ids *record.SecretsInput, id compute.SecretID) {
	if p.disk == nil {
		server.TPM.Secret, ids.TPM = &id, &id
		return
	}
	ids.Disks[p.disk.String()] = id
	for i := range server.Disks {
		if server.Disks[i].ID == *p.disk {
			server.Disks[i].Secret = &id
		}
	}
}

// serverSecrets lists the secrets that a server's domain needs to start.
func serverSecrets(server compute.Server) []compute.SecretID {
	var out []compute.SecretID
	for _, d := range server.Disks {
		for _, id := range []*compute.SecretID{d.Secret, d.BackingSecret} {
			if id != nil {
				out = append(out, *id)
			}
		}
	}
	if server.TPM != nil && server.TPM.Secret != nil {
		out = append(out, *server.TPM.Secret)
	}
	return out
}

func diskFiles(server compute.Server) []string {
	files := make([]string, len(server.Disks))
	for i, d := range server.Disks {
		files[i] = d.Name()
	}
	return files
}
