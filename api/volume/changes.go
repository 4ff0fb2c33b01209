package volume

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// changes is the record of who changed what of a type. It is strongroom's own,
// for those who speak its extensions, and tells everything of a type: whoever
// reads it must be allowed to read every extra spec.
func (a *API) changes() []route {
	return []route{{method: http.MethodGet, path: "/types/:id/changes", also: changesRules, handle: a.listChanges}}
}

// changesRules: changes tell of every extra spec.
var changesRules = []string{ruleChanges, ruleReadSensitive}

type changeView struct {
	Action    string          `json:"action"`
	Name      string          `json:"name"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	RequestID string          `json:"request_id"`
	UserID    string          `json:"user_id"`
	ProjectID string          `json:"project_id"`
	MadeAt    time.Time       `json:"made_at"`
}

// listChanges also knows types that are deleted by now.
func (a *API) listChanges(r *request) (any, error) {
	if !r.extended {
		return nil, echo.ErrNotFound
	}
	for _, rule := range changesRules {
		if err := r.enforce(rule); err != nil {
			return nil, err
		}
	}
	id, err := r.typeID()
	if err != nil {
		return nil, err
	}
	rows, err := a.db.VolumeTypeChanges(r.context(), id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, notFound(id.String())
	}
	views := make([]changeView, len(rows))
	for i, row := range rows {
		views[i] = changeView{row.Action, row.Name, row.Before, row.After, row.RequestID, row.UserID, row.ProjectID, row.MadeAt.UTC()}
	}
	return map[string]any{"changes": views}, nil
}
