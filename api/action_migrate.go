package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleMigrate       = "os_compute_api:os-migrate-server:migrate"
	ruleMigrateToHost = "os_compute_api:os-migrate-server:migrate:host"
	ruleConfirmResize = "os_compute_api:servers:confirm_resize"
	ruleRevertResize  = "os_compute_api:servers:revert_resize"
)

// migrateToHost is the version that brought the target of a migrate.
const migrateToHost microversion.Version = 56

// targetHost is the host that a server is to move to; null: any other than it is on.
var targetHost = validation.Schema{"type": []string{"string", "null"}, "minLength": 1, "maxLength": 255, "pattern": `^[a-zA-Z0-9-._]*$`}

var migrateBody = validation.Since(func(v microversion.Version) validation.Schema {
	if v < migrateToHost {
		return validation.Object([]string{"migrate"}, validation.Properties{"migrate": {}})
	}
	target := validation.Object(nil, validation.Properties{"host": targetHost})
	target["type"] = []string{"object", "null"}
	return validation.Object([]string{"migrate"}, validation.Properties{"migrate": target})
}, microversion.Min, migrateToHost)

func (a *API) migrateAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleMigrate: policy.Admin, ruleMigrateToHost: policy.Admin},
		Routes: []Route{actionRoute("migrate", migrateBody, a.migrateServer)},
	}
}

// migrateServer moves a server to another host, off, until that is confirmed or reverted.
func (a *API) migrateServer(r *Request) (any, error) {
	var host string
	if r.Version >= migrateToHost { // before, whatever stands there is not looked at
		var body struct{ Migrate *struct{ Host string } }
		if err := r.Decode(&body); err != nil {
			return nil, err
		}
		if body.Migrate != nil {
			host = body.Migrate.Host
		}
	}
	in := compute.MigrateArguments{ConfirmAfter: a.config.ResizeWindow}
	return a.act(r, action{
		Facts: compute.Migrate.Facts, rule: ruleMigrate, arguments: &in,
		check: func(row serverRow) error {
			s, err := a.withDisks(r, row.Server)
			if err != nil {
				return err
			}
			if err := s.CheckMovable(); err != nil {
				return err
			}
			if err := a.isUp(row); err != nil || host == "" {
				return err
			}
			in.Host, err = a.migrationTarget(r, row, host)
			return err
		},
		plan: func(s compute.Server, has []compute.Thing) (compute.MovePlan, error) {
			return s.PlanMove(s, has, false, in.Host), nil
		},
	})
}

// migrationTarget finds the host that a server is to move to.
func (a *API) migrationTarget(r *Request, row serverRow, name string) (*compute.HostID, error) {
	if err := r.EnforceOn(ruleMigrateToHost, row.Server.ProjectID, row.Server.UserID); err != nil {
		return nil, err
	}
	host, err := a.db.NamedHost(r.Context(), name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fault.BadRequest("Compute host %s could not be found.", name)
	case err != nil:
		return nil, err
	case row.Server.HostID != nil && *row.Server.HostID == host.ID:
		return nil, fault.BadRequest("Cannot migrate to the host where the server exists.")
	}
	return &host.ID, a.sharesNoDisks(r, row, host.ID)
}

// sharesNoDisks refuses a host that shares the storage of disks with the server's own.
func (a *API) sharesNoDisks(r *Request, row serverRow, host compute.HostID) error {
	if row.Server.HostID == nil {
		return nil
	}
	peers, err := a.db.DiskPeers(r.Context(), *row.Server.HostID)
	if slices.Contains(peers, host) {
		return fault.Conflict("%s", compute.SharedDiskStorage)
	}
	return err
}

func (a *API) confirmResizeAction() Resource {
	route := actionRoute("confirmResize", bare("confirmResize"), func(r *Request) (any, error) {
		return a.decideMove(r, action{
			Facts: compute.ConfirmResize.Facts, rule: ruleConfirmResize,
			plan: func(s compute.Server, has []compute.Thing) (compute.MovePlan, error) { return s.PlanConfirm(has), nil },
		})
	})
	route.Status = http.StatusNoContent
	return Resource{Rules: policy.Rules{ruleConfirmResize: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}

func (a *API) revertResizeAction() Resource {
	return Resource{
		Rules: policy.Rules{ruleRevertResize: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("revertResize", bare("revertResize"), func(r *Request) (any, error) {
			return a.decideMove(r, action{
				Facts: compute.RevertResize.Facts, rule: ruleRevertResize,
				check: func(row serverRow) error { return a.formerIsUp(r, row) },
				grows: func(row serverRow) (*growth, error) {
					return a.growthTo(r.Context(), row.Server, row.Server.Former.Flavor)
				},
				plan: func(s compute.Server, _ []compute.Thing) (compute.MovePlan, error) { return s.PlanRevert(), nil },
			})
		})},
	}
}

// decideMove confirms or reverts a resize or a migration.
func (a *API) decideMove(r *Request, act action) (any, error) {
	act.arguments = compute.None{}
	more := act.check
	act.check = func(row serverRow) error {
		err := compute.Server{ID: row.Server.ID, VMState: row.Server.VMState, Former: row.Server.Former}.CheckMoved(act.Facts)
		if err == nil && more != nil {
			err = more(row)
		}
		return err
	}
	return a.act(r, act)
}

// formerIsUp refuses to bring a server back to a host that is down: what the server was is there alone.
func (a *API) formerIsUp(r *Request, row serverRow) error {
	is, err := a.db.HostCondition(r.Context(), schema.HostConditionParams{ID: row.Server.Former.Host, HostTimeout: compute.HostTimeout.Seconds()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && (is.Down || is.Stale) {
		return fault.Conflict("Service is unavailable at this time.")
	}
	return err
}
