package api

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// Quotas says how much a project's servers may hold.
type Quotas interface {
	Of(ctx context.Context, project string) compute.Quota
	// Default is the quota of projects that have none of their own.
	Default(ctx context.Context) compute.Quota
}

// unlimited is the quota of an API that is told of none.
type unlimited struct{}

func (unlimited) Of(context.Context, string) compute.Quota { return compute.NoQuota }
func (unlimited) Default(context.Context) compute.Quota    { return compute.NoQuota }

// inTurn runs a transaction that asks a quota.
func (a *API) inTurn(ctx context.Context, quota compute.Quota, project string, do func() error) error {
	if !quota.IsNone() {
		leave, err := a.turns.take(ctx, project)
		if err != nil {
			return err
		}
		defer leave()
	}
	return do()
}

// fit is how many of the planned servers their project's quota has room for. The lock
// is held until the transaction ends: of two creates at once the second counts what the
// first has written (H7).
func (p *serverPlan) fit(ctx context.Context, q *schema.Queries, project string) (int, error) {
	if p.quota.IsNone() {
		return p.count, nil
	}
	if err := q.LockQuota(ctx, project); err != nil {
		return 0, err
	}
	used, err := projectUse(ctx, q, project)
	if err != nil {
		return 0, err
	}
	return p.quota.Fit(used, compute.UseOf(p.flavor, p.image), p.least, p.count)
}

// growth is what an action takes beyond what its server holds; nil for one that never
// takes more.
type growth struct {
	project string
	quota   compute.Quota
	diskGB  int64
}

// limit is the quota that is asked.
func (g *growth) limit() (quota compute.Quota, project string) {
	if g == nil || g.diskGB == 0 {
		return compute.NoQuota, ""
	}
	return g.quota, g.project
}

// growthOf asks for the quota of a server that is to take more disk.
func (a *API) growthOf(ctx context.Context, s schema.Server, diskGB int64) *growth {
	g := &growth{project: s.ProjectID, quota: compute.NoQuota, diskGB: max(diskGB, 0)}
	if g.diskGB > 0 {
		g.quota = a.config.Quotas.Of(ctx, s.ProjectID)
	}
	return g
}

// check asks the quota. It comes before the server's row is written: who waits for the
// project's lock holds no row that others want.
func (g *growth) check(ctx context.Context, q *schema.Queries) error {
	quota, project := g.limit()
	if quota.IsNone() {
		return nil
	}
	if err := q.LockQuota(ctx, project); err != nil {
		return err
	}
	used, err := projectUse(ctx, q, project)
	if err != nil {
		return err
	}
	return quota.Grow(used, compute.Use{DiskGB: g.diskGB})
}

// reserve puts on record what is taken, for as long as the operation has the server, and
// as it is rescued.
func (g *growth) reserve(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	if g == nil {
		return nil
	}
	return q.ReserveDisk(ctx, schema.ReserveDiskParams{ID: op.ServerID, ReservedGB: g.diskGB, OperationID: op.ID})
}

func projectUse(ctx context.Context, q *schema.Queries, project string) (compute.Use, error) {
	use, err := q.ProjectUse(ctx, project)
	return compute.Use{Instances: use.Servers, Cores: use.VCPUs, MemoryMB: use.MemoryMB, DiskGB: use.DiskGB}, err
}
