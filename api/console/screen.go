package console

import (
	"net/http"
	"os"
	"strings"
)

// screen serves Debian's noVNC, whose page vnc_lite.html shows the screen of the server whose token is in its address.
func (p proxy) screen() http.Handler {
	files := http.StripPrefix("/novnc/", http.FileServer(http.Dir(p.NoVNC)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(p.NoVNC); err != nil {
			http.Error(w, "Debian's package novnc is not there", http.StatusNotFound)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/") { // what else is in the folder is nobody's business
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", p.policy(r, "'self' 'unsafe-inline'")) // its page's script is in it
		files.ServeHTTP(w, r)
	})
}
