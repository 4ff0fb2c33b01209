package api

import (
	"context"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// Quotas says how much a project's servers may hold.
type Quotas interface {
	Of(ctx context.Context, project string) compute.Quota
	// Default is the quota of projects that have none of their own.
	Default(ctx context.Context) compute.Quota
	// AreElsewhere: who has them keeps those of each project, and nothing else is written for one.
	AreElsewhere() bool
}

// unlimited is the quota of an API that is told of none.
type unlimited struct{}

func (unlimited) Of(context.Context, string) compute.Quota { return compute.NoQuota }
func (unlimited) Default(context.Context) compute.Quota    { return compute.NoQuota }
func (unlimited) AreElsewhere() bool                       { return false }

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
	if err := lockQuota(ctx, q, project); err != nil {
		return 0, err
	}
	used, err := projectUse(ctx, q, project)
	if err != nil {
		return 0, err
	}
	return p.quota.Fit(used, compute.UseOf(p.flavor, p.image), p.least, p.count)
}

// lockQuota takes a project's lock. Unavailable: requests to other processes of the API have
// had it for too long.
func lockQuota(ctx context.Context, q *schema.Queries, project string) error {
	err := q.LockQuota(ctx, project)
	if fault.Held(err) {
		return compute.Errorf(compute.Unavailable, "Other requests wait for the same quota. Try again.")
	}
	return err
}

// growth is what an action takes beyond what its server holds; nil for one that never
// takes more.
type growth struct {
	project string
	quota   compute.Quota
	more    compute.Use
}

// limit is the quota that is asked.
func (g *growth) limit() (quota compute.Quota, project string) {
	if g == nil || g.more == (compute.Use{}) {
		return compute.NoQuota, ""
	}
	return g.quota, g.project
}

// growthOf asks for the quota of a server that is to take more.
func (a *API) growthOf(ctx context.Context, s schema.Server, more compute.Use) (*growth, error) {
	g := &growth{project: s.ProjectID, quota: compute.NoQuota, more: compute.Use{
		Cores: max(more.Cores, 0), MemoryMB: max(more.MemoryMB, 0), DiskGB: max(more.DiskGB, 0),
	}}
	if g.more == (compute.Use{}) {
		return g, nil
	}
	quota, err := a.quotaOf(ctx, s.ProjectID)
	g.quota = quota.Quota
	return g, err
}

// growthTo is growthOf for a server that is to hold what a flavor says.
func (a *API) growthTo(ctx context.Context, s schema.Server, f compute.Flavor) (*growth, error) {
	will := compute.UseOf(f, s.Image)
	return a.growthOf(ctx, s, compute.Use{Cores: will.Cores - s.VCPUs, MemoryMB: will.MemoryMB - s.MemoryMB, DiskGB: will.DiskGB - s.DiskGB})
}

// check asks the quota. It comes before the server's row is written: who waits for the
// project's lock holds no row that others want.
func (g *growth) check(ctx context.Context, q *schema.Queries) error {
	quota, project := g.limit()
	if quota.IsNone() {
		return nil
	}
	if err := lockQuota(ctx, q, project); err != nil {
		return err
	}
	used, err := projectUse(ctx, q, project)
	if err != nil {
		return err
	}
	return quota.Grow(used, g.more)
}

// reserve puts on record what is taken, for as long as the operation has the server, and
// as it is rescued.
func (g *growth) reserve(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	if g == nil {
		return nil
	}
	return q.Reserve(ctx, schema.ReserveParams{
		ID: op.ServerID, ReservedVCPUs: g.more.Cores, ReservedMemoryMB: g.more.MemoryMB, ReservedGB: g.more.DiskGB, OperationID: op.ID,
	})
}

func projectUse(ctx context.Context, q *schema.Queries, project string) (compute.Use, error) {
	use, err := q.ProjectUse(ctx, project)
	return compute.Use{Instances: use.Servers, Cores: use.VCPUs, MemoryMB: use.MemoryMB, DiskGB: use.DiskGB}, err
}

// shownUse is projectUse with what only views show.
func (a *API) shownUse(ctx context.Context, project string) (compute.Use, error) {
	use, err := projectUse(ctx, a.db, project)
	if err != nil {
		return use, err
	}
	use.Groups, err = a.db.CountServerGroups(ctx, project)
	return use, err
}
