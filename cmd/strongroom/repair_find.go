package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// mostOperations is how many unsettled operations one repair looks at.
const mostOperations = 10000

// findOperations compares operations on record with executions in Temporal. The executions
// are read first: an operation is on record before its execution begins.
func (p repair) findOperations(out *repairResult) error {
	running, err := durable.RunningExecutions(p, p.temporal)
	if err != nil {
		return err
	}
	q := schema.New(p.pool)
	ids := make([]string, len(running))
	for i, e := range running {
		ids[i] = string(e.Operation)
	}
	known, err := q.KnownOperations(p, ids)
	if err != nil {
		return err
	}
	for _, e := range running {
		if slices.Contains(known, e.Operation) {
			continue
		}
		server, _ := durable.ServerOf(e.Workflow)
		out.executions = append(out.executions, e)
		out.Damage = append(out.Damage, compute.Damage{
			What: compute.DamagedExecution, Server: server, Name: executionName(e),
			Remedy: compute.TerminateExecution, Why: "the database does not have the operation",
		})
	}
	rows, err := q.UnsettledOperations(p, mostOperations)
	if err != nil {
		return err
	}
	for _, row := range rows {
		op := row.Operation()
		why, err := p.whyLost(op)
		if err != nil {
			return err
		}
		if why != "" {
			out.Damage = append(out.Damage, compute.Damage{
				What: compute.DamagedOperation, Server: op.ServerID, Name: operationName(op), Remedy: compute.SettleOperation, Why: why,
			})
		}
	}
	return nil
}

func executionName(e durable.Execution) string { return e.Kind + " " + string(e.Operation) }

func operationName(op compute.Operation) string { return string(op.Kind) + " " + string(op.ID) }

// operationOf reads what operationName wrote.
func operationOf(d compute.Damage) compute.OperationID {
	_, id, _ := strings.Cut(d.Name, " ")
	return compute.OperationID(id)
}

// whyLost says why an operation on record goes on no more, "" if it does, or will.
func (p repair) whyLost(op compute.Operation) (string, error) {
	starter := durable.Starter{Client: p.temporal}
	state, found, err := starter.FindExecution(p, op)
	switch {
	case err != nil:
		return "", err
	case found && state == durable.Running:
		return "", nil
	case found:
		return "its execution has ended", nil
	}
	ran, err := starter.HasRun(p, op)
	switch {
	case err != nil:
		return "", err
	case ran:
		return "its execution has ended, and others came after it", nil
	case op.State == compute.OperationRunning:
		return "its execution is gone", nil
	}
	return "", nil
}

// storedSecrets are the secrets that strongroom made, by project.
type storedSecrets struct {
	projects map[string][]compute.StoredSecret
	closed   []string // projects that no credential opens
}

func (s storedSecrets) byName() map[string]compute.OwnedSecret {
	out := map[string]compute.OwnedSecret{}
	for project, all := range s.projects {
		for _, stored := range all {
			out[stored.Name] = compute.OwnedSecret{StoredSecret: stored, Project: project}
		}
	}
	return out
}

// secrets lists all secrets that strongroom made: those of projects that are on the ledger
// with the credentials for them, and the others as far as strongroom's own user sees them.
func (p repair) secrets() (storedSecrets, error) {
	out := storedSecrets{projects: map[string][]compute.StoredSecret{}}
	all, err := list(p, p.keys, compute.Credential{})
	if err != nil && !compute.Is(err, compute.Forbidden) {
		return out, err
	}
	for _, item := range all {
		out.projects[item.ProjectID] = append(out.projects[item.ProjectID], compute.StoredSecret{ID: item.ID, Name: item.Name})
	}
	if err == nil {
		return out, nil
	}
	access, err := projects(p, p.pool)
	if err != nil {
		return out, err
	}
	for _, project := range slices.Sorted(maps.Keys(access)) {
		stored, err := secretsOf(p, p.keys, access[project])
		if compute.Is(err, compute.Forbidden) {
			out.closed = append(out.closed, project)
			continue
		}
		if err != nil {
			return out, err
		}
		out.projects[project] = stored
	}
	return out, nil
}

// findKeys finds the disks whose secrets are not in the key manager.
func (p repair) findKeys(secrets storedSecrets, out *repairResult) (repairs []compute.KeyRepair, err error) {
	known, err := ledger.DiskKeys(p, p.pool)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		project := k.Thing.Credential.ProjectID
		if slices.Contains(secrets.closed, project) {
			continue
		}
		r := k.Repair(secrets.projects[project])
		if r == nil {
			continue
		}
		repairs = append(repairs, *r)
		if r.Now == nil { // the audit tells that it is gone
			continue
		}
		out.Damage = append(out.Damage, compute.Damage{
			What: compute.DamagedKey, Server: r.Server, Name: r.Disk, Remedy: compute.NameKey, Key: r,
			Why: fmt.Sprintf("secret %s is gone, and %s was made for the disk", r.Was, r.Now.ID),
		})
	}
	return repairs, nil
}

// projects gives those that have secrets, with the credentials to look into them with.
func projects(ctx context.Context, pool *pgxpool.Pool) (map[string]compute.Access, error) {
	out := map[string]compute.Access{}
	a := &ledger.Activities{Pool: pool}
	for after := ""; ; {
		page, err := a.Projects(ctx, ledger.ProjectsInput{Kind: compute.ThingKeySecret, After: after})
		if err != nil {
			return nil, err
		}
		for _, p := range page.Projects {
			out[p.Project] = p
		}
		if after = page.Next; after == "" {
			return out, nil
		}
	}
}

// secretsOf lists the secrets that strongroom made in a project.
func secretsOf(ctx context.Context, keys key.Manager, a compute.Access) (out []compute.StoredSecret, err error) {
	err = compute.WithAny(a.Credentials, func(cred compute.Credential) error {
		items, err := list(ctx, keys, cred)
		out = nil
		for _, item := range items {
			out = append(out, compute.StoredSecret{ID: item.ID, Name: item.Name})
		}
		return err
	})
	return out, err
}

// list lists what a credential sees of the secrets that strongroom made.
func list(ctx context.Context, keys key.Manager, cred compute.Credential) (out []key.Item, err error) {
	for marker := ""; ; {
		got, err := keys.List(ctx, cred, key.ListInput{Marker: marker})
		if err != nil {
			return nil, err
		}
		out = append(out, got.Items...)
		if marker = got.Next; marker == "" {
			return out, nil
		}
	}
}
