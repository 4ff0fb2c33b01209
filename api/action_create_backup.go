package api

import (
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleCreateBackup = "os_compute_api:os-create-backup"

// createBackupBody is Nova's at every version: a backup has the server's own key
// (EE-22).
var createBackupBody = validation.Always(validation.Object([]string{"createBackup"}, validation.Properties{
	"createBackup": validation.Object([]string{"name", "backup_type", "rotation"}, validation.Properties{
		"name": validation.Name, "metadata": validation.Metadata(),
		"backup_type": {"type": "string"},
		"rotation":    validation.WholeNumber(0),
	}),
}))

func (a *API) createBackupAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleCreateBackup: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("createBackup", createBackupBody, a.createBackup)},
	}
}

// createBackup makes an image of a server and removes the oldest of its type.
func (a *API) createBackup(r *Request) (any, error) {
	var body struct {
		CreateBackup struct {
			Name     string
			Type     string `json:"backup_type"`
			Rotation validation.Integer
			Metadata map[string]string
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := compute.SnapshotArguments{
		Image: compute.ImageID{UUID: r.ID.Derive("image")}, Name: body.CreateBackup.Name, Metadata: body.CreateBackup.Metadata, Key: compute.KeySame,
		Backup: &compute.Backup{Type: body.CreateBackup.Type, Rotation: int(body.CreateBackup.Rotation)},
	}
	return a.imageOfServer(r, in, action{Facts: compute.CreateBackup.Facts, rule: ruleCreateBackup})
}
