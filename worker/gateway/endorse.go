package gateway

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/worker/pki"
)

type endorsementRequest struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"`
	Keys      [][]byte            `json:"keys"` // PKIX
}

// endorsementAnswer has a certificate for each key.
type endorsementAnswer struct {
	On           bool     `json:"on"`           // the cloud certifies endorsement keys
	Certificates [][]byte `json:"certificates"` // DER
}

// mostEndorsed is how many endorsement keys a vTPM has at most. swtpm makes two.
const mostEndorsed = 4

// Endorses reports whether the cloud certifies the endorsement keys of the vTPM that an operation makes.
func (c *Client) Endorses(ctx context.Context, server compute.ServerID, op compute.OperationID) (bool, error) {
	var answer endorsementAnswer
	err := c.ask(ctx, http.MethodPost, pathEndorsement, endorsementRequest{Server: server, Operation: op}, &answer)
	return answer.On, err
}

// Endorse gives a certificate, as DER, for each of the endorsement keys, as PKIX, of the vTPM that an operation makes. Those are
// from then on the ones of that vTPM.
func (c *Client) Endorse(ctx context.Context, server compute.ServerID, op compute.OperationID, keys [][]byte) ([][]byte, error) {
	var answer endorsementAnswer
	err := c.ask(ctx, http.MethodPost, pathEndorsement, endorsementRequest{server, op, keys}, &answer)
	if err == nil && len(answer.Certificates) != len(keys) {
		err = compute.Errorf(compute.Unavailable, "the gateway gave %d certificates for %d endorsement keys", len(answer.Certificates), len(keys))
	}
	return answer.Certificates, err
}

// endorse certifies the keys of a vTPM that an operation is about to start with a server on the host that asks, and of no other one: all that a
// certificate says, but for the key, is the record's. A host that lies has keys of its own certified for a server that it runs anyway.
func (s *Server) endorse(c *call) (any, error) {
	in, err := read[endorsementRequest](c.body)
	if err != nil {
		return nil, err
	}
	if len(in.Keys) > mostEndorsed {
		return nil, compute.Errorf(compute.Invalid, "%d endorsement keys are more than a vTPM has", len(in.Keys))
	}
	if s.Endorser == nil {
		return endorsementAnswer{}, nil
	}
	if err := c.makesTPM(c.Context(), in); err != nil {
		return nil, err
	}
	answer := endorsementAnswer{On: true, Certificates: [][]byte{}}
	if len(in.Keys) == 0 {
		return answer, nil
	}
	for _, der := range in.Keys {
		cert, err := certify(s.Endorser, in.Server, der)
		if err != nil {
			return nil, err
		}
		answer.Certificates = append(answer.Certificates, cert.Raw)
	}
	return answer, c.keepEndorsement(c.Context(), in, answer.Certificates, s.Endorser.Chain())
}

func certify(by *pki.Endorser, server compute.ServerID, der []byte) (*x509.Certificate, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, compute.Errorf(compute.Invalid, "an endorsement key cannot be read: %w", err)
	}
	return by.Endorse(server, key)
}

// makesTPM fails with Forbidden unless the operation runs and is to make a new vTPM for the server, on this host.
func (r Records) makesTPM(ctx context.Context, in endorsementRequest) error {
	w, err := r.work(ctx, purpose{Server: in.Server})
	if err != nil {
		return err
	}
	refused := compute.Errorf(compute.Forbidden, "operation %q does not make a vTPM for server %s on host %s", in.Operation, in.Server, r.Name)
	i := slices.IndexFunc(w.operations, func(op compute.Operation) bool { return op.ID == in.Operation })
	if i < 0 {
		return refused
	}
	q := schema.New(r.Pool)
	if !w.newTPM(w.operations[i]) {
		if w.operations[i].Kind != compute.OpRebuild {
			return refused
		}
		// Its host may have lost the state (K20). What a rebuild keeps of that is on the ledger before.
		renews, err := q.RenewsTPM(ctx, schema.RenewsTPMParams{Host: r.Host.String(), Kept: compute.KeptTPM(in.Server, in.Operation), Operation: string(in.Operation)})
		if err != nil {
			return unavailable(err)
		}
		if !renews {
			return refused
		}
	}
	starts, err := q.StartsOn(ctx, schema.StartsOnParams{Host: r.Host.String(), Server: in.Server.UUID, Operation: string(in.Operation)})
	if err != nil {
		return unavailable(err)
	}
	if !starts {
		return refused
	}
	return nil
}

// newTPM reports whether the vTPM that the server has after an operation is, or may be, a new one.
func (w work) newTPM(op compute.Operation) bool {
	switch op.Kind {
	case compute.OpCreate, compute.OpEvacuate:
		return w.server.TPM != nil
	case compute.OpRebuild:
		return w.server.TPM == nil || w.server.HasNewTPM()
	case compute.OpResize:
		if will, ok := w.resized(op); ok && will.TPM != nil && !will.SameTPM(w.server) {
			return true
		}
	case compute.OpRevertResize:
		if w.server.Former != nil && w.server.Before().HasNewTPM() {
			return true
		}
	}
	return w.server.HasNewTPM()
}

// keepEndorsement keeps the certificates with the operation, which has not ended.
func (r Records) keepEndorsement(ctx context.Context, in endorsementRequest, certificates [][]byte, chain []*x509.Certificate) error {
	issuers := make([][]byte, len(chain))
	for i, cert := range chain {
		issuers[i] = cert.Raw
	}
	return pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		q := schema.New(tx)
		if err := q.DeleteOtherEndorsements(ctx, schema.DeleteOtherEndorsementsParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
			return unavailable(err)
		}
		kept, err := q.PutEndorsement(ctx, schema.PutEndorsementParams{
			ServerID: in.Server, OperationID: in.Operation, Certificates: certificates, Issuers: issuers,
		})
		if err == nil && kept == 0 {
			err = compute.Errorf(compute.Forbidden, "operation %q on server %s has ended", in.Operation, in.Server)
		}
		return unavailable(err)
	})
}
