package initializer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"strongroom/activities/secret"
)

// Coordinator is a Source: what hands out secrets to workloads that prove what they are. The proof is
// the platform's, and so is the way to hand it over: a command has both. It gets the host's name
// as COORDINATOR_HOST, and on its standard input the public key, in PEM, for which the coordinator
// issues a certificate; it prints
//
//	{"workloadSecret": "hex digits", "meshCACert": "PEM", "certChain": "PEM", "rootCACert": "PEM"}
//
// The private key stays here. An empty workloadSecret is that of a workload that has none.
type Coordinator struct {
	Host    string
	Command []string
}

var _ Source = Coordinator{}

// attestationTime is how long a command may take.
const attestationTime = 2 * time.Minute

const mostAnswer = 1 << 20

// answer is what the command prints.
type answer struct {
	WorkloadSecret digits `json:"workloadSecret"`
	MeshCA         string `json:"meshCACert"`
	CertChain      string `json:"certChain"`
	RootCA         string `json:"rootCACert"`
}

// digits are hexadecimal. No error text has any of them.
type digits []byte

func (d *digits) UnmarshalText(text []byte) error {
	if _, err := hex.Decode(make([]byte, hex.DecodedLen(len(text))), text); err != nil {
		return errors.New("workloadSecret is not in hexadecimal digits")
	}
	*d = bytes.ToLower(text)
	return nil
}

// Fetch implements Source.
func (c Coordinator) Fetch(ctx context.Context) (*Secrets, error) {
	if c.Host == "" || len(c.Command) == 0 {
		return nil, final{errors.New("a coordinator needs its host (COORDINATOR_HOST) and a command that attests to it (--attestation-command)")}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	out, err := c.attest(ctx, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	defer clear(out)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		return nil, fmt.Errorf("%s: what it printed is not as it must be: %w", c.Command[0], hidden(err))
	}
	defer clear(a.WorkloadSecret)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if _, err := tls.X509KeyPair([]byte(a.CertChain), key); err != nil {
		clear(key)
		return nil, fmt.Errorf("%s: the certificate is not one for the key: %w", c.Command[0], err)
	}
	s := &Secrets{MeshCA: []byte(a.MeshCA), RootCA: []byte(a.RootCA), CertChain: []byte(a.CertChain), Key: secret.New(key)}
	if len(a.WorkloadSecret) > 0 {
		if s.Seed, err = seedOf(a.WorkloadSecret); err != nil {
			s.Wipe()
			return nil, fmt.Errorf("workloadSecret: %w", err)
		}
	}
	return s, nil
}

// hidden is an error of reading JSON without what was read, which may be a part of a secret.
func hidden(err error) error {
	var s *json.SemanticError
	if errors.As(err, &s) {
		return fmt.Errorf("at %q", s.JSONPointer)
	}
	return errors.New("it is no JSON")
}

// attest runs the command.
func (c Coordinator) attest(ctx context.Context, public []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attestationTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "COORDINATOR_HOST="+c.Host)
	cmd.Stdin = bytes.NewReader(public)
	out := &limited{}
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &messages
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, final{fmt.Errorf("--attestation-command: %w", err)}
	case err != nil:
		clear(out.kept)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &commandError{strings.Join(c.Command[:1], ""), lastWords(messages.String()), err}
	}
	return out.kept, nil
}

// limited keeps what a command prints in one buffer, so that no copy of it stays behind.
type limited struct{ kept []byte }

func (l *limited) Write(p []byte) (int, error) {
	if l.kept == nil {
		l.kept = make([]byte, 0, mostAnswer)
	}
	if len(l.kept)+len(p) > mostAnswer {
		return 0, errors.New("it prints too much")
	}
	l.kept = append(l.kept, p...)
	return len(p), nil
}
