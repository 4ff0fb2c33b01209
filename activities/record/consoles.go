package record

import (
	"context"

	"strongroom/schema"
)

// ForgetConsoleTokens removes the tokens of consoles that open nothing any more: they ended unused, or their
// servers left the hosts that they are for.
func (a *Activities) ForgetConsoleTokens(ctx context.Context) error {
	return schema.New(a.Pool).ForgetConsoleTokens(ctx)
}
