package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/compute"
)

type repairCommand struct {
	output
	Apply bool `help:"Write what can be told into the database; else nothing is changed."`
}

// Help is shown by --help.
func (repairCommand) Help() string {
	return `For after an older database was restored (docs/restore.md). A server whose keys were
rotated since does not start: the record names a secret that was removed. Its
disks' new secrets are in the key manager, under names that say for which disk they
were made. This finds disks whose secret is not there any more, and names the one
that is:

  found      the key manager has one secret of the disk: --apply writes it down
  unknown    it cannot be told, the last column says why

Nothing is removed, neither on a host nor in the key manager. It may be run again at any
time. Run it where a control worker is configured, and "strongroom audit" after it, which
lists all other differences.

Exit code 0: nothing to repair, or all of it repaired; 1: something is left.`
}

func (c repairCommand) Run(r *run) error {
	cfg, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := r.services(cfg, pool)
	if err != nil {
		return err
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	result, err := repairs(r, pool, keys)
	if err != nil {
		return err
	}
	left := 0
	for i := range result.Disks {
		f := &result.Disks[i]
		if f.Now != nil && c.Apply {
			if err := ledger.RepairKey(r, pool, *f); compute.Is(err, compute.Conflict) {
				f.Now, f.Why = nil, err.Error()
			} else if err != nil {
				return err
			}
			f.Applied = f.Now != nil
		}
		if !f.Applied {
			left++
		}
	}
	if err := c.print(result, repairTable(result)); err != nil {
		return err
	}
	switch {
	case left == 0:
		return nil
	case c.Apply:
		return fmt.Errorf("%d disks are left", left)
	}
	return fmt.Errorf("%d disks are to be repaired: run it with --apply", left)
}

// repairResult is what repair prints.
type repairResult struct {
	Disks  []compute.KeyRepair `json:"disks"`            // whose secret is not in the key manager
	Looked int                 `json:"looked"`           // of how many disks
	Closed []string            `json:"closed,omitempty"` // projects that no credential opens
}

func repairTable(result repairResult) func(*tabwriter.Writer) {
	return func(w *tabwriter.Writer) {
		if len(result.Disks) > 0 {
			row(w, "REPAIR", "SERVER", "DISK", "SECRET OF THE RECORD", "SECRET OF THE KEY MANAGER", "WHY")
		}
		for _, f := range result.Disks {
			switch {
			case f.Applied:
				row(w, "repaired", f.Server, f.Disk, f.Was, f.Now.ID, "")
			case f.Now != nil:
				row(w, "found", f.Server, f.Disk, f.Was, f.Now.ID, "")
			default:
				row(w, "unknown", f.Server, f.Disk, f.Was, "", f.Why)
			}
		}
		row(w, fmt.Sprintf("%d of %d disks name a secret that the key manager does not have", len(result.Disks), result.Looked))
		if len(result.Closed) > 0 {
			row(w, "not looked at, since no credential opens them: "+strings.Join(result.Closed, ", "))
		}
	}
}

// repairs finds the disks whose secrets are not in the key manager.
func repairs(ctx context.Context, pool *pgxpool.Pool, keys key.Manager) (repairResult, error) {
	out := repairResult{Disks: []compute.KeyRepair{}}
	known, err := ledger.DiskKeys(ctx, pool)
	if err != nil {
		return out, err
	}
	access, err := projects(ctx, pool)
	if err != nil {
		return out, err
	}
	byProject := map[string][]compute.DiskKey{}
	for _, k := range known {
		project := k.Thing.Credential.ProjectID
		byProject[project] = append(byProject[project], k)
	}
	for _, project := range slices.Sorted(maps.Keys(byProject)) {
		stored, err := secretsOf(ctx, keys, access[project])
		if compute.Is(err, compute.Forbidden) {
			out.Closed = append(out.Closed, project)
			continue
		}
		if err != nil {
			return out, err
		}
		for _, k := range byProject[project] {
			out.Looked++
			if r := k.Repair(stored); r != nil {
				out.Disks = append(out.Disks, *r)
			}
		}
	}
	return out, nil
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
		out = nil
		for marker := ""; ; {
			got, err := keys.List(ctx, cred, key.ListInput{Marker: marker})
			if err != nil {
				return err
			}
			for _, item := range got.Items {
				out = append(out, compute.StoredSecret{ID: item.ID, Name: item.Name})
			}
			if marker = got.Next; marker == "" {
				return nil
			}
		}
	})
	return out, err
}
