package luks

import (
	"crypto/rand"
	"fmt"
	"io"

	"golang.org/x/crypto/xts"
)

// WriteContainer writes a whole container: a header that the passphrase opens,
// and the content, filled up with zeros to a sector's end, under its master key.
func WriteContainer(w io.WriterAt, passphrase, content []byte) error {
	master := make([]byte, KeyBytes)
	defer clear(master)
	_, _ = rand.Read(master) // never fails
	if err := writeHeader(w, 0, master, passphrase); err != nil {
		return err
	}
	cipher, err := xts.NewCipher(newAES, master)
	if err != nil {
		return fmt.Errorf("luks: %w", err)
	}
	sealed := make([]byte, (len(content)+sectorSize-1)/sectorSize*sectorSize)
	copy(sealed, content)
	for sector := 0; sector*sectorSize < len(sealed); sector++ {
		block := sealed[sector*sectorSize : (sector+1)*sectorSize]
		cipher.Encrypt(block, block, uint64(sector))
	}
	if _, err := w.WriteAt(sealed, Bytes); err != nil {
		return fmt.Errorf("luks: content: %w", err)
	}
	return nil
}
