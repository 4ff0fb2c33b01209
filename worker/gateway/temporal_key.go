package gateway

import (
	"context"
	"net/http"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker/pki"
)

// TemporalKeys are the keys of the control plane's processes, with which what is said
// through Temporal is authenticated. They go with the certificate authority.
func TemporalKeys(a *pki.Authority) (durable.Keys, error) {
	secret, err := a.Secret("strongroom temporal")
	return durable.ControlKeys(secret), err
}

// temporalKeyAnswer has the host's own key, sealed to it.
type temporalKeyAnswer struct {
	Sealed []byte `json:"sealed"`
}

func temporalKeyContext(host compute.HostID) string {
	return "strongroom temporal key " + host.String()
}

func (s *Server) temporalKey(c *call) (any, error) {
	keys, err := TemporalKeys(s.Authority)
	if err != nil {
		return nil, err
	}
	sealed, err := pki.Seal(c.sealingKey, temporalKeyContext(c.Records.Host), keys.Host(c.Records.Host))
	return temporalKeyAnswer{Sealed: sealed}, err
}

// TemporalKeys asks for the host's key, with which what is said between it and the control
// plane through Temporal is authenticated.
func (k *HostKeys) TemporalKeys(ctx context.Context) (durable.Keys, error) {
	var answer temporalKeyAnswer
	if err := k.ask(ctx, http.MethodGet, pathTemporalKey, nil, &answer); err != nil {
		return durable.Keys{}, err
	}
	key, err := (*k.keys.Load())[0].Open(temporalKeyContext(k.host), answer.Sealed)
	if err != nil {
		return durable.Keys{}, compute.Errorf(compute.Unavailable, "the key for Temporal was not sealed to a key of this host")
	}
	return durable.HostKeys(k.host, key), nil
}
