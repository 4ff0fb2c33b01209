package api_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api/microversion"
	"strongroom/client"
	"strongroom/compute"
	"strongroom/worker/pki/pkitest"
)

// hasTPMCertificates gives a server a vTPM that an operation has made, with certificates.
func (c *tenants) hasTPMCertificates(t *testing.T, id, op string) (certificates, issuers [][]byte) {
	t.Helper()
	certificates, issuers = pkitest.Endorsed(t, compute.ServerID{UUID: uuid.MustParse(id)})
	c.exec(`UPDATE servers SET tpm = jsonb_build_object('version', '2.0', 'model', 'tpm-crb', 'security', 'user', 'endorsed', $2::text) WHERE id = $1`, id, op)
	c.exec("INSERT INTO tpm_endorsements (server_id, operation_id, certificates, issuers) VALUES ($1, $2, $3, $4)", id, op, certificates, issuers)
	return certificates, issuers
}

// A server's certificates are those of the vTPM that it has, for who reads the server, and in strongroom 1.0 alone.
func TestTPMCertificates(t *testing.T) {
	t.Parallel()
	c := setupTenants(t)
	path := "/servers/" + c.home.server + "/tpm-certificates"
	ask := func(speaks string) (int, string) {
		got := c.do(t, creator, http.MethodGet, path, "", header(microversion.Header, "compute 2.97"+speaks))
		return got.code, got.body
	}
	code, _ := ask(", strongroom 1.0")
	require.Equal(t, http.StatusNotFound, code, "it has none")
	certificates, issuers := c.hasTPMCertificates(t, c.home.server, "req-made")
	code, _ = ask("")
	require.Equal(t, http.StatusNotFound, code)
	code, text := ask(", strongroom 1.0")
	require.Equal(t, http.StatusOK, code)
	var shown struct {
		Certificates []struct {
			Key         string `json:"key"`
			NVIndex     string `json:"nv_index"`
			Certificate string `json:"certificate"`
		} `json:"tpm_certificates"`
		Issuers string `json:"issuers"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &shown))
	require.Len(t, shown.Certificates, 2)
	for i, want := range [][2]string{{"RSA 2048", "0x01c00002"}, {"ECC NIST P384", "0x01c00016"}} {
		require.Equal(t, want, [2]string{shown.Certificates[i].Key, shown.Certificates[i].NVIndex})
		block, _ := pem.Decode([]byte(shown.Certificates[i].Certificate))
		require.Equal(t, certificates[i], block.Bytes)
	}
	block, _ := pem.Decode([]byte(shown.Issuers))
	require.Equal(t, issuers[0], block.Bytes)
	got, by, err := client.TPMCertificates(t.Context(), client.Extend(c.clientOf(t, creator)), c.home.server)
	require.NoError(t, err)
	require.Equal(t, shown.Issuers, by)
	require.Len(t, got, 2)
	require.Equal(t, client.TPMCertificate(shown.Certificates[1]), got[1])
	c.exec(`UPDATE servers SET tpm = tpm || '{"endorsed": "req-another"}' WHERE id = $1`, c.home.server)
	code, _ = ask(", strongroom 1.0")
	require.Equal(t, http.StatusNotFound, code, "it has another vTPM now")
}
