package initializer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer"
)

// attestVariable makes the test's binary an attestation command: a coordinator that believes it.
const attestVariable = "STRONGROOM_INITIALIZER_ATTEST"

func attest(kind string) int {
	switch kind {
	case "unreachable":
		fmt.Fprintln(os.Stderr, "dial coordinator: connection refused")
		return 1
	case "garbage":
		fmt.Println(`{"workloadSecret": "` + seed + `", oops`)
		return 0
	case "digits":
		fmt.Println(`{"workloadSecret": "secret and no digits"}`)
		return 0
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	key, _ := pem.Decode(text)
	public, err := x509.ParsePKIXPublicKey(key.Bytes)
	if err != nil {
		panic(err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	if kind == "foreign" {
		public = own.Public()
	}
	about := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{os.Getenv("COORDINATOR_HOST")}}
	der, err := x509.CreateCertificate(rand.Reader, &about, &about, public, own)
	if err != nil {
		panic(err)
	}
	answer := map[string]string{"meshCACert": "mesh", "rootCACert": "root", "certChain": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
	if kind != "without" {
		answer["workloadSecret"] = strings.ToUpper(seed)
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer)
	return 0
}

func textOf(t *testing.T, p *secret.Passphrase) (text string) {
	t.Helper()
	require.NoError(t, p.Use(func(value []byte) error { text = string(value); return nil }))
	return text
}

// PV-11: a coordinator's secrets come through the attestation command, and the private key stays here.
func TestPV11Coordinator(t *testing.T) {
	t.Parallel()
	of := func(kind string) initializer.Coordinator {
		self, err := os.Executable()
		require.NoError(t, err)
		return initializer.Coordinator{Host: "coordinator-ready.shop", Command: []string{"env", attestVariable + "=" + kind, self}}
	}
	s, err := of("all").Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, seed, textOf(t, s.Seed))
	require.Equal(t, "mesh root", string(s.MeshCA)+" "+string(s.RootCA))
	pair, err := tls.X509KeyPair(s.CertChain, []byte(textOf(t, s.Key)))
	require.NoError(t, err)
	require.Equal(t, []string{"coordinator-ready.shop"}, pair.Leaf.DNSNames)

	s, err = of("without").Fetch(t.Context())
	require.NoError(t, err)
	require.Nil(t, s.Seed)

	for kind, says := range map[string]string{
		"unreachable": "connection refused", "garbage": "it is no JSON", "digits": `at "/workloadSecret"`, "foreign": "not one for the key",
	} {
		_, err := of(kind).Fetch(t.Context())
		require.ErrorContains(t, err, says)
		require.False(t, initializer.Final(err), "it is asked again")
		require.NotContains(t, err.Error(), seed)
		require.NotContains(t, err.Error(), "no digits")
	}
	for _, c := range []initializer.Coordinator{{}, {Host: "host"}, {Host: "host", Command: []string{"/nowhere/attest"}}} {
		_, err := c.Fetch(t.Context())
		require.True(t, initializer.Final(err), "%v", err)
		require.ErrorContains(t, err, "--attestation-command")
	}
}

// A secret of Barbican is read with an application credential, as text or as bytes. What is refused for good
// is not asked again, what the service cannot do now is, and no answer's body is shown.
func TestPV11Barbican(t *testing.T) {
	t.Parallel()
	const id = "b9a3f0f2-2a7c-4d8f-9e52-0f6d4c1a7b11"
	status, isText := http.StatusOK, true
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("POST /v3/auth/tokens", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"application_credential"`) || !strings.Contains(string(body), "s3cret") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":{"expires_at":"2099-01-01T00:00:00.000000Z","catalog":[{"type":"key-manager","endpoints":[{"interface":"public","region":"R","region_id":"R","url":%q}]}]}}`, server.URL)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"versions":[{"id":"v1","status":"CURRENT","links":[{"rel":"self","href":"%s/v1/"}]}]}`, server.URL)
	})
	mux.HandleFunc("GET /v1/secrets/"+id+"/payload", func(w http.ResponseWriter, r *http.Request) {
		kind := r.Header.Get("Accept")
		switch {
		case r.Header.Get("X-Auth-Token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		case status != http.StatusOK:
			w.WriteHeader(status)
			fmt.Fprint(w, "the answer's body")
		case isText && kind == "text/plain":
			fmt.Fprint(w, seed)
		case !isText && kind == "application/octet-stream":
			_, _ = w.Write([]byte(strings.Repeat("\xfe\x0a", 16)))
		default:
			w.WriteHeader(http.StatusNotAcceptable)
		}
	})
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	write := func(auth string) {
		require.NoError(t, os.WriteFile(clouds, []byte(fmt.Sprintf("clouds: {openstack: {region_name: R, auth_type: v3applicationcredential, auth: {auth_url: %s/v3, %s}}}", server.URL, auth)), 0o600))
	}
	write("application_credential_id: a, application_credential_secret: s3cret")
	b := initializer.Barbican{Secret: id, Clouds: clouds, Cloud: "openstack"}
	s, err := b.Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, seed, textOf(t, s.Seed))
	isText = false
	s, err = b.Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("fe0a", 16), textOf(t, s.Seed))

	for code, final := range map[int]bool{http.StatusForbidden: true, http.StatusNotFound: true, http.StatusServiceUnavailable: false} {
		status = code
		_, err = b.Fetch(t.Context())
		require.ErrorContains(t, err, fmt.Sprintf("read secret %s: %d", id, code))
		require.Equal(t, final, initializer.Final(err))
		require.NotContains(t, err.Error(), "body")
	}
	for auth, says := range map[string]string{
		"application_credential_id: a, application_credential_secret: wrong":                     "log in to the key manager: 401",
		"username: u, password: p, project_name: x, user_domain_name: d, project_domain_name: d": "no application credential",
	} {
		write(auth)
		_, err = b.Fetch(t.Context())
		require.ErrorContains(t, err, says)
		require.True(t, initializer.Final(err))
	}
	_, err = initializer.Barbican{Secret: id, Clouds: "/nowhere", Cloud: "openstack"}.Fetch(t.Context())
	require.ErrorContains(t, err, "/nowhere")
}
