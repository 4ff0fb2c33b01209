package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"strongroom/compute"
)

const pathDiagnostics = "/diagnostics/"

// Diagnose tells what a host counts of a server's machine.
type Diagnose func(ctx context.Context, server compute.ServerID) (compute.Diagnostics, error)

// diagnostics tells the api what this host counts of a server's machine.
func (s Server) diagnostics(w http.ResponseWriter, r *http.Request) {
	var server compute.ServerID
	if err := server.UnmarshalText([]byte(r.PathValue("server"))); err != nil {
		http.Error(w, "no server id", http.StatusBadRequest)
		return
	}
	got, err := s.Diagnose(r.Context(), server)
	switch {
	case compute.Is(err, compute.NotFound):
		http.Error(w, "the server has no machine here", http.StatusGone) // hosts of earlier releases answer 404 to all of this
	case err != nil:
		s.Logger.ErrorContext(r.Context(), "looking at a server's machine", "server", server, "error", err)
		http.Error(w, "the machine could not be looked at", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got)
	}
}

// Diagnostics gives what a server's host, at url, counts of its machine. NotFound: it has none;
// Unavailable: the host does not answer, or it is another that does.
func (c Client) Diagnostics(ctx context.Context, host compute.HostID, url string, server compute.ServerID) (out compute.Diagnostics, err error) {
	text, err := c.read(ctx, host, fmt.Sprintf("%s%s%s", url, pathDiagnostics, server), server, http.StatusGone, "machine on its host")
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, compute.Errorf(compute.Unavailable, "the host of server %s answered something else: %w", server, err)
	}
	return out, nil
}
