package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Revocations knows which certificates were revoked, by the authority's newest list.
type Revocations struct {
	mu      sync.Mutex
	number  *big.Int
	serials map[string]bool
	calls   map[string]map[*context.CancelFunc]bool // under way, by serial
}

var errRevoked = errors.New("the certificate was revoked")

// Has reports whether a certificate was revoked.
func (r *Revocations) Has(cert *x509.Certificate) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serials[cert.SerialNumber.Text(16)]
}

// watch gives a context that ends when the certificate is revoked: a host waits for a
// minute for its next task.
func (r *Revocations) watch(ctx context.Context, cert *x509.Certificate) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	serial := cert.SerialNumber.Text(16)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]map[*context.CancelFunc]bool{}
	}
	if r.calls[serial] == nil {
		r.calls[serial] = map[*context.CancelFunc]bool{}
	}
	r.calls[serial][&cancel] = true
	if r.serials[serial] {
		cancel()
	}
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.calls[serial], &cancel); len(r.calls[serial]) == 0 {
			delete(r.calls, serial)
		}
	}
}

// Take takes the authority's list, DER or PEM, unless a newer one is known.
func (r *Revocations) Take(list []byte, ca *x509.Certificate) (fresh bool, err error) {
	if block, _ := pem.Decode(list); block != nil {
		list = block.Bytes
	}
	parsed, err := x509.ParseRevocationList(list)
	if err != nil {
		return false, fmt.Errorf("the list of revoked certificates: %w", err)
	}
	// As CheckSignatureFrom does, which asks for a usage that older authorities do not name.
	if string(parsed.RawIssuer) != string(ca.RawSubject) || ca.CheckSignature(parsed.SignatureAlgorithm, parsed.RawTBSRevocationList, parsed.Signature) != nil {
		return false, errors.New("the list of revoked certificates is not the authority's")
	}
	if parsed.Number == nil {
		return false, errors.New("the list of revoked certificates has no number")
	}
	serials := map[string]bool{}
	for _, e := range parsed.RevokedCertificateEntries {
		serials[e.SerialNumber.Text(16)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.number != nil && parsed.Number.Cmp(r.number) < 0 {
		return false, nil
	}
	r.number, r.serials = parsed.Number, serials
	for serial, calls := range r.calls {
		if serials[serial] {
			for cancel := range calls {
				(*cancel)()
			}
		}
	}
	return true, nil
}

// Source says where the list comes from.
type Source struct {
	Gateway string // URL of a gateway; or
	File    string
	Keep    string // folder of the last one, for the next start
	Every   time.Duration
}

const (
	listPath = "/v1/revoked"
	maxList  = 64 << 20
	keepFile = "revoked.crl"
)

// Load takes the list that was kept last.
func (r *Revocations) Load(s Source, id *Identity) error {
	kept, err := os.ReadFile(filepath.Join(s.Keep, keepFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = r.Take(kept, id.CA)
	}
	return err
}

// Follow takes each newer list, until ctx ends. Without an answer the last one holds. That there is no
// source is told.
func (r *Revocations) Follow(ctx context.Context, s Source, id *Identity) {
	if s.Gateway == "" && s.File == "" {
		id.Log.WarnContext(ctx, "certificates of hosts are good here until they end, also those that strongroom host revoke took back: no revocations are configured")
		return
	}
	client := &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: id.client(gateway), TLSHandshakeTimeout: 5 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	last, failing := "", false
	for {
		list, err := s.get(ctx, client)
		if err == nil && string(list) != last {
			var fresh bool
			if fresh, err = r.Take(list, id.CA); fresh {
				last = string(list)
				err = keep(s.Keep, list)
			}
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			id.Log.WarnContext(ctx, "which certificates are revoked is known as of before", "error", err)
		case err == nil && failing:
			id.Log.InfoContext(ctx, "which certificates are revoked is known again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s Source) get(ctx context.Context, client *http.Client) ([]byte, error) {
	if s.File != "" {
		return os.ReadFile(s.File)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.Gateway, "/")+listPath, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the gateway answered %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxList))
}

// keep replaces the file at once: a start reads all of it.
func keep(folder string, list []byte) error {
	draft := filepath.Join(folder, "."+keepFile)
	if err := os.WriteFile(draft, list, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(folder, keepFile))
}
