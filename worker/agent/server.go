package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/worker/pki"
)

// Console reads the end of a server's console log: its last lines, or all that
// a host hands out when lines is negative.
type Console func(ctx context.Context, server compute.ServerID, lines int) (string, error)

// Server answers the api and other hosts.
type Server struct {
	Console   Console
	Diagnose  Diagnose
	Consoles  *Consoles
	Transfers *Transfers // nil: other hosts get nothing
	Arrivals  *Arrivals  // nil: no running server comes here
	Kept      *Kept      // nil: no keys of guests are kept
	Logger    *slog.Logger
}

// Handler is the service. It must be served over TLS, as pki.Identity.Server says.
func (s Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathLayout, s.forHosts(compute.ThingDiskFile, s.layout))
	mux.HandleFunc("POST "+pathSegments, s.forHosts(compute.ThingDiskFile, s.segments))
	mux.HandleFunc("GET "+pathImage, s.forHosts(compute.ThingCachedImage, s.image))
	mux.HandleFunc("GET "+pathTPM, s.forHosts(compute.ThingTPMState, s.tpm))
	mux.HandleFunc("POST "+pathPrepare, s.forLeaving(s.prepare))
	mux.HandleFunc("POST "+pathStream, s.forLeaving(s.stream))
	mux.HandleFunc("POST "+pathFinish, s.forLeaving(s.finish))
	mux.HandleFunc("POST "+pathHandOn, s.handOn)
	mux.HandleFunc("GET "+pathKept+"{server}", s.forAPI(s.kept))
	mux.HandleFunc("/", s.forAPI(http.NotFound))
	mux.HandleFunc("GET /console/{server}", s.forAPI(s.console))
	mux.HandleFunc("GET "+pathDiagnostics+"{server}", s.forAPI(s.diagnostics))
	mux.HandleFunc("GET "+pathConsoles+"{server}", s.forAPI(s.listConsoles))
	mux.HandleFunc("POST "+pathConsoles+"{server}/{type}", s.forConsoles(s.openConsole))
	return mux
}

// forAPI lets in the api alone.
func (s Server) forAPI(h http.HandlerFunc) http.HandlerFunc { return s.forOne(pki.API, h) }

// forOne lets in those of one name alone.
func (s Server) forOne(name pki.Name, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, _ := pki.Peer(r.TLS)
		if peer == name {
			h(w, r)
			return
		}
		who := []any{"peer", peer, "address", r.RemoteAddr, "request", r.URL.Path}
		if name == pki.API {
			s.Logger.WarnContext(r.Context(), "refused: not this cloud's api", who...)
		} else {
			s.Logger.WarnContext(r.Context(), "refused: not this cloud's console proxy", who...)
		}
		http.Error(w, "no certificate of this cloud's "+string(name), http.StatusForbidden)
	}
}

func (s Server) console(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("server"))
	if err != nil {
		http.Error(w, "no server id", http.StatusBadRequest)
		return
	}
	lines, err := strconv.Atoi(r.URL.Query().Get("lines"))
	if err != nil {
		lines = -1
	}
	text, err := s.Console(r.Context(), compute.ServerID{UUID: id}, lines)
	var own *compute.Error
	switch {
	case errors.As(err, &own) && own.Kind == compute.NotFound:
		http.Error(w, own.Message, http.StatusNotFound)
	case err != nil:
		s.Logger.ErrorContext(r.Context(), "reading a console log", "server", id, "error", err)
		http.Error(w, "the console log could not be read", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, text)
	}
}
