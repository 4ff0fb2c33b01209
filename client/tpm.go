package client

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
)

// TPMCertificate is of one endorsement key of a server's vTPM.
type TPMCertificate struct {
	Key         string `json:"key"`         // RSA 2048 or ECC NIST P384
	NVIndex     string `json:"nv_index"`    // where the guest has the certificate: 0x01c00002
	Certificate string `json:"certificate"` // PEM; its subject's CN is the server's id
}

// TPMCertificates gives the certificates of a server's vTPM, and those of who signed them and of the authorities above, as PEM.
// 404: the server's vTPM has none, or it has no vTPM.
func TPMCertificates(ctx context.Context, c *gophercloud.ServiceClient, server string) (all []TPMCertificate, issuers string, err error) {
	var body struct {
		Certificates []TPMCertificate `json:"tpm_certificates"`
		Issuers      string           `json:"issuers"`
	}
	err = get(ctx, c, &body, "servers", server, "tpm-certificates")
	return body.Certificates, body.Issuers, err
}
