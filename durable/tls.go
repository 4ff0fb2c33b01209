package durable

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles say how Temporal is spoken to over TLS. All empty: in clear text.
type TLSFiles struct {
	Authority   string // PEM: whose certificate Temporal must have. Empty: one that the machine trusts
	Certificate string // PEM: what Temporal is shown, with its Key. Empty: nothing
	Key         string // PEM, mode 0600
	ServerName  string // in Temporal's certificate; empty: that of the address
}

// Config gives the configuration, nil for clear text. The certificate is read again for each
// connection, so that it can be replaced while the process runs.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.Authority != "" {
		text, err := os.ReadFile(f.Authority)
		if err != nil {
			return nil, fmt.Errorf("temporal.tls.authority: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("temporal.tls.authority: %s has no certificate", f.Authority)
		}
	}
	if (f.Certificate == "") != (f.Key == "") {
		return nil, errors.New("temporal.tls: certificate and key go together")
	}
	if f.Certificate == "" {
		return out, nil
	}
	if info, err := os.Stat(f.Key); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("temporal.tls.key: %s can be read by others: chmod 600 it", f.Key)
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return nil, fmt.Errorf("temporal.tls: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil { // rather now than at the first connection
		return nil, err
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return out, nil
}
