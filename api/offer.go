package api

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sapcc/go-bits/gopherpolicy"

	"strongroom/schema"
)

// Where nobody's credential could remove a thing, the next request of its project
// whose token may be good for it leaves that token, sealed, for the reaper. It is
// tried once and wiped.

// offersEvery is how often the projects are looked up in which something waits.
const offersEvery = 5 * time.Second

// offers knows the projects in which something waits for a credential.
type offers struct {
	mu       sync.Mutex
	projects map[string]bool
	looked   time.Time
}

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

// waits reports whether something in a project waits for a credential, as of a few
// seconds ago.
func (a *API) waits(ctx context.Context, project string) bool {
	o := &a.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := a.config.Now(); now.Sub(o.looked) >= offersEvery {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		o.projects, o.looked = map[string]bool{}, now
		ids, err := a.db.ProjectsWaiting(ctx)
		if err != nil {
			a.config.Logger.WarnContext(ctx, "what waits for a credential cannot be looked up", "error", err)
		}
		for _, id := range ids {
			o.projects[id] = true
		}
	}
	waits := o.projects[project]
	delete(o.projects, project) // one offer is enough until the next look
	return waits
}
