package agent

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/activities/domain"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker/gateway"
)

const (
	// keyTime is how long a host may take to hand on a key, or to say which it has.
	keyTime = 10 * time.Second
	// maxKeyAnswer bounds what is believed of it.
	maxKeyAnswer = 1 << 20
)

// Kept gives the secrets of a server whose keys its host, at url, keeps; none where it keeps no
// keys. Unavailable: the host does not answer, or it is another that does.
func (c Client) Kept(ctx context.Context, host compute.HostID, url string, server compute.ServerID) ([]compute.SecretID, error) {
	var out keptSecrets
	err := c.to(compute.Agent{Host: host, Name: host.String(), URL: url}, ofHost).askKeys(ctx, http.MethodGet, pathKept+server.String(), nil, &out)
	return out.Secrets, err
}

// ofHost accepts whatever certificate a host shows: it is given nothing.
func ofHost(context.Context, *x509.Certificate) error { return nil }

// askKeys calls the agent of the host with JSON and reads its answer.
func (h *called) askKeys(ctx context.Context, method, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(h.URL, "/")+path, bytes.NewReader(body))
	if err != nil || r.URL.Scheme != "https" {
		return compute.Errorf(compute.Conflict, "host %s has no https address (host.agent_url)", h.Name)
	}
	resp, err := h.do(r, &http.Transport{})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		kind, said := refusal(resp)
		return compute.Errorf(kind, "host %s: %w", h.Name, said)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxKeyAnswer)).Decode(out); err != nil {
		return compute.Errorf(compute.Unavailable, "host %s broke off: %w", h.Name, err)
	}
	return nil
}

// HandedKeys reads passphrases: those of a running server that comes to this host, of the host that it
// comes from, where an order says so (compute.KeptCredential), and all others as ever.
type HandedKeys struct {
	domain.KeySource
	Client
	Host compute.HostID // this one
	// From gives the host that a running server comes from, the operation that moves it here, and what one of its keys is compared with.
	// Forbidden: none does.
	From func(ctx context.Context, server compute.ServerID, id compute.SecretID) (gateway.Handed, error)
	// Open opens what was sealed to this host's key.
	Open func(bound string, id compute.SecretID, sealed []byte) (*secret.Passphrase, error)
}

// Passphrase implements domain.KeySource. Forbidden: no operation moves the server here, or the
// other host's certificate was revoked; NotFound: the
// other host does not keep the key any more; Corrupt: it handed on another one than the key manager has.
func (k HandedKeys) Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	if !cred.IsKept() {
		return k.KeySource.Passphrase(ctx, cred, id)
	}
	if !activity.IsActivity(ctx) {
		return nil, compute.Errorf(compute.Forbidden, "secret %s: only an operation on a server has keys handed on", id)
	}
	server, ok := durable.ServerOf(activity.GetInfo(ctx).WorkflowExecution.ID)
	if !ok {
		return nil, compute.Errorf(compute.Forbidden, "secret %s: only an operation on a server has keys handed on", id)
	}
	handed, err := k.From(ctx, server, id)
	if err != nil {
		return nil, err
	}
	ask := handOn{compute.Arrival{Server: server, Operation: handed.Operation}, id}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	var out sealedKey
	accepts := func(_ context.Context, shown *x509.Certificate) error { return handed.Accepts(shown) }
	if err := k.to(handed.From, accepts).askKeys(ctx, http.MethodPost, pathHandOn, body, &out); err != nil {
		return nil, err
	}
	p, err := k.Open(handedContext(k.Host, ask), id, out.Sealed)
	if err != nil {
		return nil, err
	}
	if err := handed.Check(id, p); err != nil {
		p.Wipe()
		return nil, err
	}
	return p, nil
}
