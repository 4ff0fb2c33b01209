package auth

import "context"

// Presented is the token that a request came with, once it was found valid.
type Presented struct {
	Token     string
	ProjectID string // that it is scoped to
}

type presentedKey struct{}

// With gives a context that carries a request's token, for calls of other services
// while the request lasts.
func With(ctx context.Context, p Presented) context.Context {
	return context.WithValue(ctx, presentedKey{}, p)
}

// From gives the token of the request that a context belongs to.
func From(ctx context.Context) (Presented, bool) {
	p, ok := ctx.Value(presentedKey{}).(Presented)
	return p, ok
}
