package main

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"strings"

	own "strongroom/client"
)

type serverTPMCertificates struct {
	cloud
	output
	Server string `arg:"" help:"Server, by id or name."`
}

// Help is shown by --help.
func (serverTPMCertificates) Help() string {
	return `With them a tenant tells that a TPM is the one of his server (docs/vtpm.md, "Attest a guest"). The table has the SHA-256 of each
certificate, as openssl x509 -fingerprint -sha256 shows it of what the guest reads at the NV index; json and yaml have the certificates
themselves, and those of who signed them, as PEM.

  strongroom server tpm-certificates vault
  strongroom server tpm-certificates vault -o json | jq -r .issuers > issuers.pem`
}

// certified is a server's vTPM as the JSON of the API has it.
type certified struct {
	Certificates []own.TPMCertificate `json:"tpm_certificates"`
	Issuers      string               `json:"issuers"`
}

func (c serverTPMCertificates) Run(r *run) error {
	compute, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	var has certified
	if has.Certificates, has.Issuers, err = own.TPMCertificates(r, own.Extend(compute), s.ID); err != nil {
		return explain(err)
	}
	return c.print(has, func(w *sheet) {
		w.header("KEY", "NV INDEX", "SHA-256")
		for _, one := range has.Certificates {
			w.row(one.Key, one.NVIndex, fingerprint(one.Certificate))
		}
	})
}

// fingerprint is the SHA-256 of a certificate, in hexadecimal; "": it is none.
func fingerprint(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(block.Bytes)), " ", ":")
}
