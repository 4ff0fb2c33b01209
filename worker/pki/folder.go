package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Keys are a host's private keys: one to sign with, for its certificate, and one to open
// what is sealed to it with. They never leave the host.
type Keys struct {
	Sign *ecdsa.PrivateKey
	Seal hpke.PrivateKey
}

// GenerateKeys makes new ones.
func GenerateKeys() (Keys, error) {
	sign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Keys{}, err
	}
	seal, err := kem.GenerateKey()
	return Keys{Sign: sign, Seal: seal}, err
}

// kem resists a recording that is opened with a quantum computer later.
var kem = hpke.MLKEM768X25519()

// Folder is where a host keeps its certificate and keys.
type Folder string

// A certificate and its keys are one file: they are replaced together.
const hostFile = "host.pem" // mode 0600

// Save replaces what the folder has.
func (f Folder) Save(cert, ca *x509.Certificate, keys Keys) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	sign, err := x509.MarshalPKCS8PrivateKey(keys.Sign)
	if err != nil {
		return err
	}
	seal, err := keys.Seal.Bytes()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(string(f), hostFile+".") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	for _, b := range []*pem.Block{
		{Type: "CERTIFICATE", Bytes: cert.Raw}, {Type: "CERTIFICATE", Bytes: ca.Raw},
		{Type: "PRIVATE KEY", Bytes: sign}, {Type: sealingKey, Bytes: seal},
	} {
		if err := pem.Encode(temp, b); err != nil {
			return errors.Join(err, temp.Close())
		}
	}
	if err := errors.Join(temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(string(f), hostFile))
}

const sealingKey = "STRONGROOM SEALING KEY"

// Load reads what Save wrote.
func (f Folder) Load() (*Identity, Keys, error) {
	path := filepath.Join(string(f), hostFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Keys{}, fmt.Errorf("this host has no certificate in %s: strongroom host enroll --help tells how it gets one", f)
	}
	if err != nil {
		return nil, Keys{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, Keys{}, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Keys{}, err
	}
	defer clear(text)
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, Keys{}, fmt.Errorf("%s: %w", path, err)
	}
	damaged := fmt.Errorf("%s is damaged: enroll the host again", path)
	if len(pair.Certificate) != 2 {
		return nil, Keys{}, damaged
	}
	ca, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		return nil, Keys{}, damaged
	}
	sign, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	seal, err := sealing(text)
	if !ok || err != nil {
		return nil, Keys{}, damaged
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, Keys{}, fmt.Errorf("the certificate in %s ended at %s: strongroom host enroll --replace gets another", f, pair.Leaf.NotAfter.Format(time.DateOnly))
	}
	return NewIdentity(pair.Leaf, sign, ca), Keys{Sign: sign, Seal: seal}, nil
}

func sealing(text []byte) (hpke.PrivateKey, error) {
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type == sealingKey {
			return kem.NewPrivateKey(b.Bytes)
		}
	}
	return nil, errors.New("no sealing key")
}
