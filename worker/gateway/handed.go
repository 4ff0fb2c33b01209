package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema"
)

// handedAnswer has the key to which passphrases are sealed of a host.
type handedAnswer struct {
	SealingKey []byte `json:"sealing_key"`
}

// GrantsKeys fails with Forbidden unless an operation that runs moves a running server from this host
// to the one with a certificate, and is about to make its disks or to run it there. It gives the key
// to which that host's passphrases are sealed.
func (c *Client) GrantsKeys(ctx context.Context, of compute.Arrival, to *x509.Certificate) ([]byte, error) {
	var out handedAnswer
	err := c.ask(ctx, http.MethodPost, pathHanded, arrivalRequest{of, serial(to)}, &out)
	return out.SealingKey, err
}

func handed(c *call) (any, error) {
	in, err := read[arrivalRequest](c.body)
	if err != nil {
		return nil, err
	}
	return c.grantKeys(c.Context(), in)
}

func (r Records) grantKeys(ctx context.Context, in arrivalRequest) (out handedAnswer, err error) {
	out.SealingKey, err = schema.New(r.Pool).KeysGranted(ctx, schema.KeysGrantedParams{
		Serial: in.Serial, Source: r.Host, ServerID: in.Server.UUID, OperationID: in.Operation,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return out, compute.Errorf(compute.Forbidden, "no operation %q that runs moves server %s from this host to the one with certificate %q",
			in.Operation, in.Server, in.Serial)
	}
	if err != nil {
		return out, unavailable(err)
	}
	return out, nil
}

// Handed is where a running server comes from, and by which operation.
type Handed struct {
	Operation compute.OperationID `json:"operation"`
	From      compute.Agent       `json:"from"`
	Serials   []string            `json:"serials"` // of that host's certificates that are good
	Sum       []byte              `json:"sum"`     // of the passphrase that is asked for, as the key manager has it; none: no gateway has read it yet
}

// Accepts fails with Forbidden where a certificate is not, or no more, one of the host that the server comes
// from: who shows it may have stolen it.
func (h Handed) Accepts(cert *x509.Certificate) error {
	if !slices.Contains(h.Serials, serial(cert)) {
		return compute.Errorf(compute.Forbidden, "the certificate %q of host %s was revoked, or has ended", serial(cert), h.From.Name)
	}
	return nil
}

// Check fails with Corrupt where a passphrase is not the one that the key manager has: the host that handed it on lies. Forbidden: what
// the key manager has is not known.
func (h Handed) Check(id compute.SecretID, p *secret.Passphrase) error {
	if len(h.Sum) == 0 {
		return compute.Errorf(compute.Forbidden, "secret %s: no gateway of this release has read it, so that what host %s hands on cannot be checked: who may read it can move the server, and the server's next start mends it", id, h.From.Name)
	}
	fits, err := p.Fits(h.Sum)
	if err == nil && !fits {
		err = compute.Errorf(compute.Corrupt, "secret %s: what host %s handed on is not what the key manager has: trust that host no more", id, h.From.Name)
	}
	return err
}

type handedFromRequest struct {
	Server compute.ServerID `json:"server"`
	Secret compute.SecretID `json:"secret"`
}

// HandedFrom gives the host that keeps a key of a running server which comes to this one.
// Forbidden: no operation that runs moves it here.
func (c *Client) HandedFrom(ctx context.Context, server compute.ServerID, id compute.SecretID) (out Handed, err error) {
	return out, c.ask(ctx, http.MethodPost, pathHandedFrom, handedFromRequest{server, id}, &out)
}

func (s *Server) handedFrom(c *call) (any, error) {
	in, err := read[handedFromRequest](c.body)
	if err != nil {
		return nil, err
	}
	out, err := c.handedFrom(c.Context(), in.Server)
	if err == nil {
		out.Sum, err = s.sumOf(c.Context(), in.Server, in.Secret)
	}
	return out, err
}

func (r Records) handedFrom(ctx context.Context, server compute.ServerID) (Handed, error) {
	row, err := schema.New(r.Pool).KeysSource(ctx, schema.KeysSourceParams{Destination: r.Host.UUID, ServerID: server.UUID})
	if errors.Is(err, pgx.ErrNoRows) {
		return Handed{}, compute.Errorf(compute.Forbidden, "no operation that runs moves server %s to this host while it runs", server)
	}
	if err != nil {
		return Handed{}, unavailable(err)
	}
	return Handed{
		Operation: row.OperationID, From: compute.Agent{Host: row.HostID, Name: row.Name, URL: row.AgentURL}, Serials: row.Serials,
	}, nil
}
