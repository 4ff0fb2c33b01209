package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"strongroom/compute"
)

// Endorser certifies the endorsement keys of vTPMs. It is another authority than that of strongroom's own processes: those
// believe nothing that it has signed.
type Endorser struct {
	authority *Authority
	chain     []*x509.Certificate
}

// EnsureEndorser opens the endorser of a folder, and makes it if there is none, as Ensure does. Certificates after the first in
// its file are those of the authorities above it.
func EnsureEndorser(dir string) (*Endorser, error) {
	a, err := ensure(dir, "strongroom vTPM endorsement")
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	e := &Endorser{authority: a}
	for _, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, certFile), err)
		}
		if time.Now().After(cert.NotAfter) {
			return nil, fmt.Errorf("%s: the certificate of %s has ended", filepath.Join(dir, certFile), cert.Subject)
		}
		e.chain = append(e.chain, cert)
	}
	return e, nil
}

// Chain is its own certificate, and those of the authorities above it.
func (e *Endorser) Chain() []*x509.Certificate { return slices.Clone(e.chain) }

// What the certificates say of every vTPM: that it is one of libtpms. None of it is a host's word.
const (
	tpmManufacturer = "id:00001014" // IBM's, as libtpms has it
	tpmModel        = "swtpm"
	tpmVersion      = "id:20191023"
	tpmFamily       = "2.0"
	tpmRevision     = 164
)

// Of the TCG EK Credential Profile for TPM Family 2.0.
var (
	oidEK                = asn1.ObjectIdentifier{2, 23, 133, 8, 1}
	oidManufacturer      = asn1.ObjectIdentifier{2, 23, 133, 2, 1}
	oidModel             = asn1.ObjectIdentifier{2, 23, 133, 2, 2}
	oidVersion           = asn1.ObjectIdentifier{2, 23, 133, 2, 3}
	oidSpecification     = asn1.ObjectIdentifier{2, 23, 133, 2, 16}
	oidSubjectAltName    = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidSubjectAttributes = asn1.ObjectIdentifier{2, 5, 29, 9}
)

// Endorse gives a certificate for an endorsement key of a server's TPM 2.0. Invalid: it is no such key.
func (e *Endorser) Endorse(server compute.ServerID, key crypto.PublicKey) (*x509.Certificate, error) {
	usage, err := usageOf(key)
	if err != nil {
		return nil, err
	}
	extensions, err := endorsementExtensions()
	if err != nil {
		return nil, err
	}
	own := e.authority.Cert
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: server.String()},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: own.NotAfter, // the TPM lives as long as its server
		KeyUsage: usage, UnknownExtKeyUsage: []asn1.ObjectIdentifier{oidEK}, BasicConstraintsValid: true, ExtraExtensions: extensions,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, own, key, e.authority.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// usageOf is what an endorsement key is for: to decrypt what is for its TPM alone.
func usageOf(key crypto.PublicKey) (x509.KeyUsage, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= 2048 && bits <= 4096 {
			return x509.KeyUsageKeyEncipherment, nil
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() {
			return x509.KeyUsageKeyAgreement, nil
		}
	}
	return 0, compute.Errorf(compute.Invalid, "a %T, or one of that size, is no endorsement key", key)
}

// endorsementExtensions say what the TPM is, and by which specification.
func endorsementExtensions() ([]pkix.Extension, error) {
	text := func(value string) asn1.RawValue { return asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(value)} }
	name, err := asn1.Marshal(pkix.RDNSequence{
		{{Type: oidManufacturer, Value: text(tpmManufacturer)}}, {{Type: oidModel, Value: text(tpmModel)}}, {{Type: oidVersion, Value: text(tpmVersion)}},
	})
	if err != nil {
		return nil, err
	}
	const directoryName = 4
	alt, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: directoryName, IsCompound: true, Bytes: name}})
	if err != nil {
		return nil, err
	}
	type specification struct {
		Family          asn1.RawValue
		Level, Revision int
	}
	type attribute struct {
		Type   asn1.ObjectIdentifier
		Values []specification `asn1:"set"`
	}
	attributes, err := asn1.Marshal([]attribute{{oidSpecification, []specification{{text(tpmFamily), 0, tpmRevision}}}})
	if err != nil {
		return nil, err
	}
	return []pkix.Extension{{Id: oidSubjectAltName, Value: alt}, {Id: oidSubjectAttributes, Value: attributes}}, nil
}
