package api

import (
	"context"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	"github.com/sapcc/go-bits/gopherpolicy"

	"strongroom/schema"
)

// Where nobody's credential could remove a thing, the next request of its project
// whose token may be good for it leaves that token, sealed, for the reaper. It is
// tried once and wiped.

// offer leaves the token of a request where something of its project waits for
// one. That it cannot is no matter of the request's.
func (a *API) offer(ctx context.Context, token *gopherpolicy.Token, text string) {
	project := token.ProjectScopeUUID()
	if project == "" || !slices.ContainsFunc(token.Context.Roles, a.mayKeepKeys) || !a.waits(ctx, project) {
		return
	}
	id := uuid.New()
	rows, err := a.db.OfferCredential(ctx, schema.OfferCredentialParams{
		ID: id, ProjectID: project, UserID: token.UserUUID(), Sealed: a.config.Seal.Seal(id, []byte(text)),
	})
	if err != nil {
		a.config.Logger.WarnContext(ctx, "a credential could not be kept for what waits for one", "project_id", project, "error", err)
	} else if rows > 0 {
		a.config.Logger.LogAttrs(ctx, slog.LevelInfo, "a credential is kept for what waits for one", slog.String("project_id", project))
	}
}

func (a *API) mayKeepKeys(role string) bool { return slices.Contains(a.config.KeyRoles, role) }

// waits reports whether something in a project waits for a credential. There is
// an index of what waits, and it is empty as a rule.
func (a *API) waits(ctx context.Context, project string) bool {
	waits, err := a.db.ProjectWaits(ctx, project)
	if err != nil {
		a.config.Logger.WarnContext(ctx, "what waits for a credential cannot be looked up", "error", err)
	}
	return waits
}
