package tpm

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// endorsementKeys are the endorsement keys that swtpm_setup makes, and where a TPM has the certificate of each, by the TCG's EK Credential
// Profile and by swtpm's use (ECC NIST P384).
var endorsementKeys = []struct {
	key, certificate tpm2.TPMHandle
}{
	{0x81010001, 0x01c00002}, // RSA 2048
	{0x81010016, 0x01c00016}, // ECC NIST P384
}

// endorse has the endorsement keys of a new TPM certified, and keeps the certificates in it. Two runs, for the cloud may take longer to answer
// than a TPM may be waited for.
func (a *Activities) endorse(ctx context.Context, of compute.FreshTPM, state string, passphrase *secret.Passphrase) error {
	var keys [][]byte
	err := a.onChip(ctx, state, passphrase, func(chip net.Conn) error {
		for _, ek := range endorsementKeys {
			key, err := readKey(transport.FromReadWriter(chip), ek.key)
			if err != nil {
				return fmt.Errorf("endorsement key %#x: %w", ek.key, err)
			}
			der, err := x509.MarshalPKIXPublicKey(key)
			if err != nil {
				return err
			}
			keys = append(keys, der)
		}
		return nil
	})
	if err != nil {
		return err
	}
	certificates, err := a.Endorser.Endorse(ctx, of.Server, of.Operation, keys)
	if err != nil {
		return err
	}
	return a.onChip(ctx, state, passphrase, func(chip net.Conn) error {
		t := transport.FromReadWriter(chip)
		for i, ek := range endorsementKeys {
			if err := writeNV(t, ek.certificate, certificates[i]); err != nil {
				return fmt.Errorf("certificate %#x: %w", ek.certificate, err)
			}
		}
		_, err := tpm2.Shutdown{ShutdownType: tpm2.TPMSUClear}.Execute(t)
		return err
	})
}

func readKey(t transport.TPM, handle tpm2.TPMHandle) (crypto.PublicKey, error) {
	got, err := tpm2.ReadPublic{ObjectHandle: handle}.Execute(t)
	if err != nil {
		return nil, err
	}
	public, err := got.OutPublic.Contents()
	if err != nil {
		return nil, err
	}
	return tpm2.Pub(*public)
}

// mostWritten is how many bytes a TPM takes at once.
const mostWritten = 1024

// writeNV keeps data in a TPM at an index that there was not, which the guest can read and neither write nor remove: the platform alone may,
// which the firmware closes when the guest boots.
func writeNV(t transport.TPM, index tpm2.TPMHandle, data []byte) error {
	platform := tpm2.AuthHandle{Handle: tpm2.TPMRHPlatform, Auth: tpm2.PasswordAuth(nil)}
	area := tpm2.New2B(tpm2.TPMSNVPublic{
		NVIndex: index, NameAlg: tpm2.TPMAlgSHA256, DataSize: uint16(len(data)),
		Attributes: tpm2.TPMANV{
			PlatformCreate: true, AuthRead: true, OwnerRead: true, PPRead: true, PPWrite: true, NoDA: true, WriteDefine: true,
		},
	})
	if _, err := (tpm2.NVDefineSpace{AuthHandle: platform, PublicInfo: area}).Execute(t); err != nil {
		return err
	}
	named := func() (tpm2.NamedHandle, error) { // its name changes with what was written
		public, err := tpm2.NVReadPublic{NVIndex: index}.Execute(t)
		if err != nil {
			return tpm2.NamedHandle{}, err
		}
		return tpm2.NamedHandle{Handle: index, Name: public.NVName}, nil
	}
	for offset := 0; offset < len(data); offset += mostWritten {
		at, err := named()
		if err != nil {
			return err
		}
		part := tpm2.NVWrite{
			AuthHandle: platform, NVIndex: at, Offset: uint16(offset),
			Data: tpm2.TPM2BMaxNVBuffer{Buffer: data[offset:min(offset+mostWritten, len(data))]},
		}
		if _, err := part.Execute(t); err != nil {
			return err
		}
	}
	at, err := named()
	if err != nil {
		return err
	}
	_, err = tpm2.NVWriteLock{AuthHandle: platform, NVIndex: at}.Execute(t)
	return err
}
