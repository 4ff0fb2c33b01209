// Package quota says how much projects may hold: what is configured, or the identity
// service's limits.
package quota

import (
	"context"

	"strongroom/compute"
)

// Fixed is one quota for every project.
type Fixed compute.Quota

// Of gives the quota of a project.
func (f Fixed) Of(context.Context, string) compute.Quota { return compute.Quota(f) }

// Default gives the quota of projects that have none of their own.
func (f Fixed) Default(context.Context) compute.Quota { return compute.Quota(f) }

// AreElsewhere implements api.Quotas: the compute API may write others for a project.
func (f Fixed) AreElsewhere() bool { return false }
