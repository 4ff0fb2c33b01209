package api

import (
	"context"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	"github.com/sapcc/go-bits/gopherpolicy"

	"strongroom/compute"
	"strongroom/schema"
)

// Where nobody's credential could remove a thing, the next request of its project
// whose token may be good for it leaves that token, sealed, for the reaper. It is
// tried once and wiped. A token that is good for more than that is not kept, whatever
// waits: with it, who has the database and credentials.key would have more than the
// keys of a project (H1).

// offer leaves the token of a request where something of its project waits for
// one. That it cannot is no matter of the request's.
func (a *API) offer(ctx context.Context, token *gopherpolicy.Token, text string) {
	project := token.ProjectScopeUUID()
	if project == "" || !a.mayBeKept(token.Context.Roles) || !a.waits(ctx, project) {
		return
	}
	offered := compute.Credential{ID: uuid.New(), ProjectID: project, UserID: token.UserUUID()}
	rows, err := a.db.OfferCredential(ctx, schema.OfferCredentialParams{
		ID: offered.ID, ProjectID: project, UserID: offered.UserID, Sealed: a.config.Seal.Seal(offered, []byte(text)),
	})
	if err != nil {
		a.config.Logger.WarnContext(ctx, "a credential could not be kept for what waits for one", "project_id", project, "error", err)
	} else if rows > 0 {
		a.config.Logger.LogAttrs(ctx, slog.LevelInfo, "a credential is kept for what waits for one", slog.String("project_id", project))
	}
}

// mayBeKept reports whether a token of these roles may remove keys, and no more.
func (a *API) mayBeKept(roles []string) (may bool) {
	for _, role := range roles {
		switch {
		case slices.Contains(a.config.KeyRoles, role):
			may = true
		case !slices.Contains(a.config.OtherRoles, role):
			return false
		}
	}
	return may
}

// waits reports whether something in a project waits for a credential. There is
// an index of what waits, and it is empty as a rule.
func (a *API) waits(ctx context.Context, project string) bool {
	waits, err := a.db.ProjectWaits(ctx, project)
	if err != nil {
		a.config.Logger.WarnContext(ctx, "what waits for a credential cannot be looked up", "error", err)
	}
	return waits
}
