package api

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const (
	ruleLiveMigrate       = "os_compute_api:os-migrate-server:migrate_live"
	ruleLiveMigrateToHost = "os_compute_api:os-migrate-server:migrate_live:host"
)

// The versions that changed the request for a live migration.
const (
	liveAuto    microversion.Version = 25 // block_migration may be "auto", and disk_over_commit is gone
	liveForce   microversion.Version = 30
	liveNoForce microversion.Version = 68
)

const keyLiveMigrate = "os-migrateLive"

var liveMigrateBody = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{"host": targetHost, "block_migration": validation.BooleanOrText}
	required := []string{"block_migration", "host"}
	if v < liveAuto {
		p["disk_over_commit"] = validation.BooleanOrText
		required = append(required, "disk_over_commit")
	} else {
		p["block_migration"] = validation.Schema{"anyOf": []validation.Schema{validation.BooleanOrText, {"type": "string", "enum": []string{"auto"}}}}
	}
	if v >= liveForce && v < liveNoForce {
		p["force"] = validation.BooleanOrText
	}
	return validation.Object([]string{keyLiveMigrate}, validation.Properties{keyLiveMigrate: validation.Object(required, p)})
}, microversion.Min, liveAuto, liveForce, liveNoForce)

func (a *API) liveMigrateAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleLiveMigrate: policy.Admin, ruleLiveMigrateToHost: policy.Admin},
		Routes: []Route{actionRoute(keyLiveMigrate, liveMigrateBody, a.liveMigrateServer)},
	}
}

// blockMigration is whether the disks go along: a yes, a no, or what the server needs.
type blockMigration struct{ no bool }

// UnmarshalJSON implements json.Unmarshaler. The schema has seen the value.
func (b *blockMigration) UnmarshalJSON(text []byte) error {
	if string(text) == `"auto"` {
		return nil
	}
	var yes validation.Boolean
	err := yes.UnmarshalJSON(text)
	b.no = !bool(yes)
	return err
}

// liveMigrateServer moves a server to another host while it runs. Disks are always files of their
// hosts, so they go along: who asks for a move without them is refused. force does not pass the
// scheduler by: a host that is named must have room and the server's traits.
func (a *API) liveMigrateServer(r *Request) (any, error) {
	var body struct {
		Migrate struct {
			Host  *string
			Block blockMigration `json:"block_migration"`
			Force validation.Boolean
		} `json:"os-migrateLive"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	asked := body.Migrate
	if bool(asked.Force) && asked.Host == nil {
		return nil, fault.BadRequest("Can't force to a non-provided destination")
	}
	var in compute.LiveMigrateArguments
	return a.act(r, action{
		Facts: compute.LiveMigrate.Facts, rule: ruleLiveMigrate, arguments: &in,
		check: func(row serverRow) error {
			s, err := a.withDisks(r, row.Server)
			if err != nil {
				return err
			}
			if err := s.CheckMovable(); err != nil {
				return err
			}
			if err := a.isUp(row); err != nil {
				return err
			}
			if asked.Block.no {
				return fault.BadRequest("Migration pre-check error: server %s has local disks: its live migration needs block_migration.", s.ID)
			}
			if asked.Host != nil {
				if in.Host, err = a.liveTarget(r, row, *asked.Host); err != nil {
					return err
				}
			}
			return a.checkLiveKeys(r, row)
		},
		plan: func(s compute.Server, has []compute.Thing) (compute.MovePlan, error) {
			return s.PlanLiveMigrate(has, in.Host), nil
		},
	})
}

// liveTarget finds the host that a running server is to move to.
func (a *API) liveTarget(r *Request, row serverRow, name string) (*compute.HostID, error) {
	if err := r.EnforceOn(ruleLiveMigrateToHost, row.Server.ProjectID, row.Server.UserID); err != nil {
		return nil, err
	}
	host, err := a.db.NamedHost(r.Context(), name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fault.BadRequest("Compute host %s could not be found.", name)
	case err != nil:
		return nil, err
	case row.Server.HostID != nil && *row.Server.HostID == host.ID:
		return nil, fault.BadRequest("Unable to migrate instance (%s) to current host (%s).", row.Server.ID, name)
	}
	if err := a.sharesNoDisks(r, row, host.ID); err != nil {
		return nil, err
	}
	if row.Server.TPM == nil || row.Server.HostID == nil {
		return &host.ID, nil
	}
	peers, err := a.db.TPMPeers(r.Context(), *row.Server.HostID)
	if slices.Contains(peers, host.ID) {
		return nil, fault.Conflict("%s", compute.SharedTPMStorage)
	}
	return &host.ID, err
}
