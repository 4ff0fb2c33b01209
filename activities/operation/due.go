package operation

import (
	"context"

	"strongroom/compute"
)

// due begins operations that nobody asks for: their time has come. What has begun is
// started by the next pass if not now.
func (a *Activities) due(begin func(context.Context) ([]compute.Operation, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		begun, err := begin(ctx)
		for _, op := range begun {
			if err := a.Starter.Start(ctx, op); err != nil {
				a.Logger.WarnContext(ctx, "watch: an operation will be started later", "kind", op.Kind, "server", op.ServerID, "operation", op.ID, "error", err)
			}
		}
		return err
	}
}
