// Package keypair reads and makes the key pairs that users log in with.
package keypair

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the fingerprint that clients know, no protection
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"strongroom/compute"
)

// The types of key pairs.
const (
	SSH  = "ssh"
	X509 = "x509"
)

// Pair is a key pair. Private is set only where it was made here.
type Pair struct {
	Public      string
	Fingerprint string // MD5 of an ssh key, SHA-1 of a certificate: hex with colons
	Private     string // PEM of PKCS#1
}

const comment = "Generated-by-strongroom"

// Import reads a public key or certificate. Invalid: it is not one, or it is
// more than one.
func Import(kind, text string) (Pair, error) {
	if kind == X509 {
		return importCertificate(text)
	}
	return importKey(text)
}

// importKey takes the line of a key, as Nova does, with two exceptions (K21). What would be further lines of the guest's list of keys, where the text is
// written as it is, is refused. And the fingerprint is that of the key, also where Nova's is that of other text.
func importKey(text string) (Pair, error) {
	line := strings.TrimRightFunc(text, unicode.IsSpace)
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || strings.ContainsFunc(line, endsLine) || !readByNova(line, key) {
		return Pair{}, unreadable()
	}
	return Pair{Public: text, Fingerprint: ssh.FingerprintLegacyMD5(key)}, nil
}

// endsLine: cloud-init begins another line at some control characters, and at the separators of Unicode, too.
func endsLine(r rune) bool {
	return unicode.IsControl(r) && r != '\t' || r == '\u2028' || r == '\u2029'
}

// readByNova says whether Nova finds the key in the line: its type begins it, without options before it, and is followed by a blank.
func readByNova(line string, key ssh.PublicKey) bool {
	kind, rest, _ := strings.Cut(line, " ")
	field, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	raw, err := compute.DecodeBase64(field)
	return kind == key.Type() && err == nil && bytes.Equal(raw, key.Marshal())
}

func importCertificate(text string) (Pair, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || len(strings.TrimSpace(string(rest))) > 0 {
		return Pair{}, unreadable()
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Pair{}, unreadable()
	}
	sum := sha1.Sum(certificate.Raw) //nolint:gosec // as above
	return Pair{Public: text, Fingerprint: colons(sum[:])}, nil
}

func unreadable() error {
	return compute.Errorf(compute.Invalid, "Keypair data is invalid: failed to generate fingerprint")
}

// keyBits is Nova's size. It takes some tenths of a second to make.
const keyBits = 2048

// Generate makes an RSA key pair, whose private key has the PEM form of PKCS#1: all clients,
// old ones too, can read it (P18). Invalid: certificates are imported only.
func Generate(kind string) (Pair, error) {
	if kind != SSH {
		return Pair{}, compute.Errorf(compute.Invalid, "Keypair data is invalid: a key pair of type %s must be imported", kind)
	}
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return Pair{}, err
	}
	key, err := ssh.NewPublicKey(&private.PublicKey)
	if err != nil {
		return Pair{}, err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	return Pair{
		Public: line + " " + comment, Fingerprint: ssh.FingerprintLegacyMD5(key), Private: string(pem.EncodeToMemory(block)),
	}, nil
}

func colons(sum []byte) string {
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = hex.EncodeToString([]byte{b})
	}
	return strings.Join(parts, ":")
}
