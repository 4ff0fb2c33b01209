package gateway

import (
	"net/http"
	"sync"

	"strongroom/worker/pki"
)

// mostUnknown is how many paths of one name are logged.
const mostUnknown = 100

// unknown are the paths that somebody asked for and that there are not, by the names of certificates.
type unknown struct {
	mu    sync.Mutex
	paths map[pki.Name]map[string]bool
}

// isNew reports whether a path is asked for for the first time under a name, and whether it is the last one
// that is remembered.
func (u *unknown) isNew(by pki.Name, path string) (isNew, last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.paths[by]
	if seen[path] || len(seen) == mostUnknown {
		return false, false
	}
	if seen == nil {
		if u.paths == nil {
			u.paths = map[pki.Name]map[string]bool{}
		}
		seen = map[string]bool{}
		u.paths[by] = seen
	}
	seen[path] = true
	return true, len(seen) == mostUnknown
}

// noRoute answers requests for what there is not. Who has the certificate of a host and looks about is for the
// operator to see, each path once.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	peer, _ := pki.Peer(r.TLS)
	path := r.Method + " " + r.URL.Path[:min(len(r.URL.Path), 200)]
	if isNew, last := s.unknown.isNew(peer, path); isNew {
		s.Logger.WarnContext(r.Context(), "asked for what there is not", "peer", peer, "address", r.RemoteAddr, "request", path, "more_are_not_logged", last)
	}
	http.NotFound(w, r) // hosts of a newer release take it as no answer
}
