package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	"strongroom/worker/pki"
)

type authorityCommand struct {
	Make  authorityMake  `cmd:"" help:"Make the certificate authority, if there is none, and print its fingerprint."`
	Issue authorityIssue `cmd:"" help:"Print a certificate and its key, for Temporal, a console proxy or a person."`
}

// Help is shown by --help.
func (authorityCommand) Help() string {
	return `The certificate authority of strongroom's own processes is in the folder
gateway.authority. Processes on machines with that folder make their certificates
themselves, and hosts get theirs by strongroom host enroll.`
}

type authorityMake struct{}

func (authorityMake) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	authority, err := pki.Ensure(cfg.Gateway.Authority)
	if err != nil {
		return fmt.Errorf("gateway.authority: %w", err)
	}
	_, err = fmt.Printf("%x\n", authority.Fingerprint())
	return err
}

type authorityIssue struct {
	Name   string        `arg:"" enum:"temporal,console-proxy,ui,operator,control" help:"What it is for: temporal (strongroom-temporal on a machine without the folder), console-proxy (what hosts let to their consoles), ui (a Temporal UI elsewhere: may read), operator (Temporal's command line: may do everything), control (a control worker's, for programs of your own)."`
	Within time.Duration `default:"2160h" help:"How long it is good for."`
}

// Help is shown by --help.
func (authorityIssue) Help() string {
	return `The certificate, that of the authority and the private key go to the standard output:

    umask 077; strongroom authority issue temporal > temporal.pem

Nothing keeps a copy. It cannot be revoked: choose a short time for a person.
console_proxy.identity and Temporal's certificate are read again when another file is moved to their place.`
}

func (c authorityIssue) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	authority, err := cfg.authority()
	if err != nil {
		return err
	}
	return issue(os.Stdout, authority, pki.Name(c.Name), c.Within)
}

// issue writes a certificate, that of the authority and the private key.
func issue(to io.Writer, authority *pki.Authority, name pki.Name, within time.Duration) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert, err := authority.Issue(name, key.Public(), within)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, b := range []*pem.Block{
		{Type: "CERTIFICATE", Bytes: cert.Raw}, {Type: "CERTIFICATE", Bytes: authority.Cert.Raw}, {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := pem.Encode(to, b); err != nil {
			return err
		}
	}
	return nil
}
