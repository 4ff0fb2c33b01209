package integration_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"
)

// tpmCertificates are what the API shows of a server's vTPM.
type tpmCertificates struct {
	Certificates []struct {
		Key         string `json:"key"`
		NVIndex     string `json:"nv_index"`
		Certificate string `json:"certificate"`
	} `json:"tpm_certificates"`
	Issuers string `json:"issuers"`
}

// requireCertified requires that the guest finds in its vTPM the certificates that the API shows, which the cloud's authority has
// issued for that server; a server without such a vTPM has none.
func (c *testCloud) requireCertified(t *testing.T, id string, certified bool) {
	t.Helper()
	if !certified {
		_, err := c.askCertificates(t, id, extended)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
		return
	}
	_, err := c.askCertificates(t, id, nil)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "it is strongroom's own: %v", err)
	shown, err := c.askCertificates(t, id, extended)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(shown.Issuers)))
	require.Len(t, shown.Certificates, 2)
	for i, index := range []string{"0x01c00002", "0x01c00016"} {
		has := shown.Certificates[i]
		require.Equal(t, index, has.NVIndex)
		block, rest := pem.Decode([]byte(has.Certificate))
		require.NotNil(t, block)
		require.Empty(t, rest)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.Equal(t, id, cert.Subject.CommonName)
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		require.NoError(t, err)
		c.console(t, id, fmt.Sprintf("TG tpm certificate=%s sha256=%x err=<nil>", index, sha256.Sum256(block.Bytes)), 1)
	}
}

func (c *testCloud) askCertificates(t *testing.T, id string, headers map[string]string) (shown tpmCertificates, err error) {
	t.Helper()
	client := c.compute(t, "-demo")
	client.Microversion = "" // the headers say it
	response, err := client.Get(t.Context(), client.ServiceURL("servers", id, "tpm-certificates"), &shown, &gophercloud.RequestOpts{MoreHeaders: headers})
	if err == nil {
		require.NoError(t, response.Body.Close())
	}
	return shown, err
}
