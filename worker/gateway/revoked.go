package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"strongroom/schema"
	"strongroom/worker/pki"
)

// revoked answers everybody with the authority's list of hosts' certificates that were
// revoked: it is signed, and says nothing but their numbers.
func (s *Server) revoked(in turns) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := s.revokedList(r.Context(), in)
		if err != nil {
			s.refuse(w, r, unavailable(err))
			return
		}
		w.Header().Set("Content-Type", "application/pkix-crl")
		_, _ = w.Write(list)
	}
}

// revokedList gives the list, which is made again for one of those who wait for it, once it is not fresh.
func (s *Server) revokedList(ctx context.Context, in turns) ([]byte, error) {
	if list := s.list.get(time.Now()); list != nil {
		return list, nil
	}
	end, err := in.take(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	began := time.Now()
	if list := s.list.get(began); list != nil { // of who was before
		return list, nil
	}
	list, err := revocationList(ctx, schema.New(s.Pool), s.Authority)
	if err == nil {
		s.list.put(list, began.Add(cmp.Or(s.Fresh, listFresh)))
	}
	return list, err
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
