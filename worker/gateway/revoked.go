package gateway

import (
	"context"
	"fmt"
	"math/big"
	"net/http"

	"strongroom/schema"
	"strongroom/worker/pki"
)

// revoked answers everybody with the authority's list of hosts' certificates that were
// revoked: it is signed, and says nothing but their numbers.
func (s *Server) revoked(w http.ResponseWriter, r *http.Request) {
	list, err := revocationList(r.Context(), schema.New(s.Pool), s.Authority)
	if err != nil {
		s.refuse(w, r, unavailable(err))
		return
	}
	w.Header().Set("Content-Type", "application/pkix-crl")
	_, _ = w.Write(list)
}

func revocationList(ctx context.Context, q *schema.Queries, a *pki.Authority) ([]byte, error) {
	row, err := q.RevokedCertificates(ctx)
	if err != nil {
		return nil, err
	}
	revoked := make([]pki.Revoked, len(row.Serials))
	for i, text := range row.Serials {
		serial, ok := new(big.Int).SetString(text, 16)
		if !ok {
			return nil, fmt.Errorf("the certificate %q has no number", text)
		}
		revoked[i] = pki.Revoked{Serial: serial, At: row.RevokedAt[i]}
	}
	return a.RevocationList(revoked, row.AskedAt)
}
