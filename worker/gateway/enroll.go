package gateway

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/worker/pki"
)

// Token is what a host gets its first certificate with, once. As text it is two parts of
// base64: the secret, and the fingerprint of the authority, by which the host knows the
// gateway.
type Token struct {
	Secret      [32]byte
	Fingerprint [sha256.Size]byte
}

// NewToken makes a token.
func NewToken(fingerprint [sha256.Size]byte) Token {
	t := Token{Fingerprint: fingerprint}
	_, _ = rand.Read(t.Secret[:]) // never fails
	return t
}

// sum is what the database has of a token.
func (t Token) sum() []byte {
	sum := sha256.Sum256(t.Secret[:])
	return sum[:]
}

// Text is the token as hosts are given it.
func (t Token) Text() string {
	return base64.RawURLEncoding.EncodeToString(t.Secret[:]) + "." + base64.RawURLEncoding.EncodeToString(t.Fingerprint[:])
}

// ParseToken reads what Text gave. Its errors do not show it.
func ParseToken(text string) (t Token, err error) {
	first, second, ok := strings.Cut(strings.TrimSpace(text), ".")
	bad := errors.New("this is no token of strongroom host token: it may have been cut off")
	if !ok {
		return t, bad
	}
	for _, part := range []struct {
		to   []byte
		text string
	}{{t.Secret[:], first}, {t.Fingerprint[:], second}} {
		b, err := base64.RawURLEncoding.DecodeString(part.text)
		if err != nil || len(b) != len(part.to) {
			return Token{}, bad
		}
		copy(part.to, b)
	}
	return t, nil
}

// Offer lets a host of that name enroll with a new token, within a time; sameKeys: also with
// keys that were revoked.
func Offer(ctx context.Context, db schema.DBTX, a *pki.Authority, host string, within time.Duration, sameKeys bool) (Token, error) {
	t := NewToken(a.Fingerprint())
	q := schema.New(db)
	if err := q.DeleteOldEnrollments(ctx); err != nil {
		return Token{}, unavailable(err)
	}
	return t, unavailable(q.AddEnrollment(ctx, schema.AddEnrollmentParams{TokenSha256: t.sum(), HostName: host, Seconds: within.Seconds(), SameKeys: sameKeys}))
}

// Revoke makes gateways refuse a host, by its name or uuid, from now on, and the tokens
// that it has not used. NotFound: there is no certificate and no token of such a host.
func Revoke(ctx context.Context, db schema.DBTX, host string) error {
	found, err := schema.LockOut(ctx, schema.New(db), host)
	if err == nil && found == 0 {
		return compute.Errorf(compute.NotFound, "host %s has no certificate", host)
	}
	return unavailable(err)
}

// enroll gives hosts their first certificates, some at once.
func (s *Server) enroll(in turns) handler {
	return func(_ http.ResponseWriter, r *http.Request, body []byte) (any, error) {
		asked, err := read[EnrollRequest](body)
		if err != nil {
			return nil, err
		}
		token, err := ParseToken(asked.Token)
		if err != nil {
			return nil, compute.Errorf(compute.Invalid, "%w", err)
		}
		end, err := in.take(r.Context())
		if err != nil {
			return nil, err
		}
		defer end()
		return s.enrollBy(r, asked, token)
	}
}

func (s *Server) enrollBy(r *http.Request, in EnrollRequest, token Token) (any, error) {
	var out EnrollAnswer
	err := pgx.BeginFunc(r.Context(), s.Pool, func(tx pgx.Tx) (err error) {
		q := schema.New(tx)
		offer, err := q.UseEnrollment(r.Context(), token.sum())
		if errors.Is(err, pgx.ErrNoRows) {
			return compute.Errorf(compute.Forbidden, "the token is unknown, was used or has expired: strongroom host token makes another")
		}
		if err != nil {
			return err
		}
		out.Name = offer.HostName
		other, err := q.OtherHost(r.Context(), schema.OtherHostParams{HostName: out.Name, HostID: in.Host})
		if err != nil {
			return err
		}
		if other {
			return compute.Errorf(compute.Conflict, "there is another host %s, or %s is the id of another host: "+
				"if it is gone, revoke it (strongroom host revoke) and delete it (openstack compute service delete); if host.id_file was copied, remove the copy", out.Name, in.Host)
		}
		if !offer.SameKeys {
			if err := refuseRevokedKeys(r.Context(), q, in, keyPair{}); err != nil {
				return err
			}
		}
		if _, err := schema.RevokeAll(r.Context(), q, in.Host.String()); err != nil { // those of keys that it has no more
			return err
		}
		out.Certificate, err = s.issue(r.Context(), q, in, out.Name)
		return err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	s.Logger.InfoContext(r.Context(), "host enrolled", "host", out.Name, "id", in.Host, "address", r.RemoteAddr)
	return out, nil
}

// mostCertificates are how many certificates a host gets within a week. A host needs one in two
// months; one that cannot store what it gets, for its file system is full, asks each hour of its last
// month. Who has its certificate could else have so many that a revocation, or the list of them, takes
// too long.
const mostCertificates = 4

// renew gives a host a newer certificate; the older one is good until it ends. It may keep
// the older one's keys, which were accepted with it; other keys that were revoked do not come
// back by it. Conflict: those, or the host got too many certificates of late.
func (s *Server) renew(c *call) (any, error) {
	in, err := read[EnrollRequest](c.body)
	if err != nil {
		return nil, err
	}
	in.Host = c.Records.Host
	out := EnrollAnswer{Name: c.Name}
	_, with := pki.Peer(c.TLS)
	err = pgx.BeginFunc(c.Context(), s.Pool, func(tx pgx.Tx) (err error) {
		q := schema.New(tx)
		sealing, err := q.LockHostCertificate(c.Context(), serial(with))
		if errors.Is(err, pgx.ErrNoRows) {
			return compute.Errorf(compute.Forbidden, "the certificate of host %s was revoked", c.Name)
		}
		if err != nil {
			return err
		}
		if err := refuseRevokedKeys(c.Context(), q, in, keyPair{with.RawSubjectPublicKeyInfo, sealing}); err != nil {
			return err
		}
		if err := q.DeleteEndedCertificates(c.Context(), in.Host); err != nil {
			return err
		}
		if err := refuseMany(c.Context(), q, in.Host); err != nil {
			return err
		}
		out.Certificate, err = s.issue(c.Context(), q, in, c.Name)
		return err
	})
	err = unavailable(err)
	switch {
	case err == nil:
		s.Logger.InfoContext(c.Context(), "host renewed its certificate", "host", c.Name, "id", in.Host, "address", c.RemoteAddr)
	case compute.Is(err, compute.Conflict):
		s.logRefusal(c.Request, err)
	}
	return out, err
}

// refuseMany fails with Conflict if the host got too many certificates of late. Until the transaction
// ends it gets no other one by a renewal.
func refuseMany(ctx context.Context, q *schema.Queries, host compute.HostID) error {
	if err := q.LockRenewals(ctx, host.UUID); err != nil {
		return err
	}
	issued, err := q.CertificatesOfAWeek(ctx, host)
	if err == nil && issued >= mostCertificates {
		return compute.Errorf(compute.Conflict, "host %s got %d certificates within a week, and gets no more yet; the one with which it asks is good until it ends: "+
			"see why it does not keep them, and if it was not the host that asked, revoke it", host, issued)
	}
	return err
}

// keyPair are the public keys of a host: the one of its certificate (PKIX), and the one to
// which passphrases are sealed.
type keyPair struct{ sign, seal []byte }

// refuseRevokedKeys fails with Conflict if the host's keys were revoked: an attacker may have
// them still, and with them what is sealed to the host. Of the keys that it has, nothing is
// asked: an operator may have let it keep them.
func refuseRevokedKeys(ctx context.Context, q *schema.Queries, in EnrollRequest, has keyPair) error {
	key, err := publicKey(in)
	if err != nil {
		return err
	}
	asked := schema.KeysWereRevokedParams{PublicKey: key.der, SealingKey: in.SealingKey}
	if bytes.Equal(asked.PublicKey, has.sign) {
		asked.PublicKey = nil // no row has this
	}
	if bytes.Equal(asked.SealingKey, has.seal) {
		asked.SealingKey = nil
	}
	revoked, err := q.KeysWereRevoked(ctx, asked)
	if err == nil && revoked {
		return compute.Errorf(compute.Conflict, "the keys of host %s were revoked and may be in other hands: "+
			"enroll it with new ones; if they were never lost, a token of strongroom host token --same-keys takes them", in.Host)
	}
	return err
}

// signingKey is the public key of a request, and its one form as bytes.
type signingKey struct {
	crypto.PublicKey
	der []byte
}

func publicKey(in EnrollRequest) (k signingKey, err error) {
	if k.PublicKey, err = x509.ParsePKIXPublicKey(in.PublicKey); err == nil {
		k.der, err = x509.MarshalPKIXPublicKey(k.PublicKey)
	}
	if err != nil {
		return k, compute.Errorf(compute.Invalid, "public_key: %w", err)
	}
	return k, nil
}

func (s *Server) issue(ctx context.Context, q *schema.Queries, in EnrollRequest, name string) ([]byte, error) {
	key, err := publicKey(in)
	if err != nil {
		return nil, err
	}
	if _, err := pki.Seal(in.SealingKey, "", nil); err != nil {
		return nil, compute.Errorf(compute.Invalid, "sealing_key: %w", err)
	}
	cert, err := s.Authority.Issue(pki.HostName(in.Host), key.PublicKey, pki.HostLifetime)
	if err != nil {
		return nil, compute.Errorf(compute.Invalid, "public_key: %w", err)
	}
	return cert.Raw, q.AddHostCertificate(ctx, schema.AddHostCertificateParams{
		Serial: serial(cert), HostID: in.Host, HostName: name, PublicKey: key.der, SealingKey: in.SealingKey, NotAfter: cert.NotAfter,
	})
}

func serial(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// KeepAuthority notes which authority the gateways of this database have, the first time,
// and fails with Conflict where this is another: hosts would know the one or the other.
func KeepAuthority(ctx context.Context, db schema.DBTX, a *pki.Authority) error {
	own := a.Fingerprint()
	kept, err := schema.New(db).KeepAuthority(ctx, own[:])
	if err == nil && !bytes.Equal(kept, own[:]) {
		return compute.Errorf(compute.Conflict, "this is not the certificate authority of this cloud's gateways: copy the folder from a machine that has it "+
			"(or, if it is lost: DELETE FROM gateway_authority, and enroll all hosts again)")
	}
	return unavailable(err)
}
