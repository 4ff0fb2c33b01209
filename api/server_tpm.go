package api

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/schema"
)

const ruleTPMCertificates = "strongroom:servers:tpm_certificates"

// endorsedKeyView is a certificate of an endorsement key of a vTPM, and where the guest finds it in that.
type endorsedKeyView struct {
	Key         string  `json:"key"`
	NVIndex     *string `json:"nv_index"`
	Certificate string  `json:"certificate"` // PEM
}

// listTPMCertificates shows the certificates of the endorsement keys of the vTPM that the server has, and those of who issued them.
func (a *API) listTPMCertificates(r *Request) (any, error) {
	row, err := a.findServer(r, ruleTPMCertificates)
	if err != nil {
		return nil, err
	}
	none := fault.NotFound("Instance %s has no vTPM with certificates.", row.Server.ID)
	if row.Server.TPM == nil || row.Server.TPM.Endorsed == "" {
		return nil, none
	}
	has, err := a.db.GetEndorsement(r.Context(), schema.GetEndorsementParams{ServerID: row.Server.ID, OperationID: row.Server.TPM.Endorsed})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	views := []endorsedKeyView{}
	for _, der := range has.Certificates {
		view, err := viewEndorsedKey(der)
		if err != nil {
			return nil, err
		}
		views = append(views, view)
	}
	return map[string]any{"tpm_certificates": views, "issuers": pemOf(has.Issuers...)}, nil
}

func viewEndorsedKey(der []byte) (endorsedKeyView, error) {
	view := endorsedKeyView{Certificate: pemOf(der)}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return view, err
	}
	index := ""
	switch key := cert.PublicKey.(type) {
	case *rsa.PublicKey:
		view.Key = "RSA " + strconv.Itoa(key.N.BitLen())
		if key.N.BitLen() == 2048 {
			index = "0x01c00002"
		}
	case *ecdsa.PublicKey:
		view.Key = "ECC NIST " + strings.ReplaceAll(key.Params().Name, "-", "")
		if key.Params().BitSize == 384 {
			index = "0x01c00016"
		}
	}
	if index != "" {
		view.NVIndex = &index
	}
	return view, nil
}

func pemOf(certificates ...[]byte) string {
	var out strings.Builder
	for _, der := range certificates {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a Builder takes all
	}
	return out.String()
}
