package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/server/common/authorization"
	"google.golang.org/grpc/peer"
)

// Guard is Temporal's authorizer, and knows who calls.
type Guard struct {
	Namespaces  []string // those of strongroom
	Revocations *Revocations
	Log         *slog.Logger
}

// caller is whom a certificate was issued to.
type caller struct {
	name Name
	cert *x509.Certificate
}

// GetClaims gives what the authorizer decides by. TLS has verified the certificate.
func (g *Guard) GetClaims(info *authorization.AuthInfo) (*authorization.Claims, error) {
	c := caller{}
	if info.TLSConnection != nil && len(info.TLSConnection.State.PeerCertificates) > 0 {
		c.cert = info.TLSConnection.State.PeerCertificates[0]
		c.name = nameOf(c.cert)
	}
	return &authorization.Claims{Subject: string(c.name), Extensions: c}, nil
}

// AuthInfoRequired lets GetClaims be called for everybody.
func (g *Guard) AuthInfoRequired() bool { return false }

// Authorize allows what the caller's table lists.
func (g *Guard) Authorize(ctx context.Context, claims *authorization.Claims, target *authorization.CallTarget) (authorization.Result, error) {
	if claims != nil && claims.Extensions == nil && claims.System == authorization.RoleAdmin {
		// The frontend for Temporal's own workers, which has a port of its own, where TLS lets
		// nobody in but Temporal's servers.
		return authorization.Result{Decision: authorization.DecisionAllow}, nil
	}
	c, err := g.caller(claims)
	if err == nil {
		err = g.decide(c, target)
	}
	if err != nil {
		g.refused(ctx, c.name, target.APIName, target.Request, target.Namespace, err)
		return authorization.Result{Decision: authorization.DecisionDeny}, nil
	}
	return authorization.Result{Decision: authorization.DecisionAllow}, nil
}

var errNoCertificate = errors.New("no certificate")

// caller is the one of the claims, whose certificate must be good now: connections last.
func (g *Guard) caller(claims *authorization.Claims) (caller, error) {
	if claims == nil {
		return caller{}, errNoCertificate
	}
	c, ok := claims.Extensions.(caller)
	if !ok || c.cert == nil {
		return caller{}, errNoCertificate
	}
	if time.Now().After(c.cert.NotAfter) {
		return c, errors.New("the certificate has ended")
	}
	if g.Revocations.Has(c.cert) {
		return c, errRevoked
	}
	return c, nil
}

func (g *Guard) decide(c caller, target *authorization.CallTarget) error {
	if c.name == Operator {
		if !operatorMay(target.APIName) {
			return errors.New("not for operators")
		}
		return nil
	}
	r, listed := tableOf(c.name)[target.APIName]
	if !listed {
		return fmt.Errorf("not for %q", c.name)
	}
	if in, ok := target.Request.(interface{ GetNamespace() string }); ok && !r.anywhere {
		if !slices.Contains(g.Namespaces, target.Namespace) || !slices.Contains(g.Namespaces, in.GetNamespace()) {
			return fmt.Errorf("the namespace %q is not strongroom's", target.Namespace)
		}
	}
	if r.look == nil {
		return nil
	}
	return r.look(c.name, target.Request)
}

// refused is the one line that each refusal has in the log.
func (g *Guard) refused(ctx context.Context, name Name, api string, request any, namespace string, why error) {
	g.Log.WarnContext(ctx, "refused", "certificate", name, "api", api, "queue", queueOf(request), "namespace", namespace, "address", address(ctx), "error", why)
}

func address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

func denied() error {
	return serviceerror.NewPermissionDenied(authorization.RequestUnauthorized, "")
}
