package local

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"strongroom/activities/folder"
	"strongroom/compute"
)

const masterKeyBytes = 32 // AES-256

// openMasterKey reads the master key, base64 text in a file. Where there is
// none it makes one if mayCreate: a new key beside secrets of an old one would
// hide that the old one is lost.
func openMasterKey(file string, mayCreate bool) (cipher.AEAD, error) {
	key, err := readMasterKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		if !mayCreate {
			return nil, compute.Errorf(compute.Corrupt, "the master key file %s is missing, and there are secrets that only it can open", file)
		}
		key, err = createMasterKey(file)
	}
	if err != nil {
		return nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, compute.Errorf(compute.Corrupt, "the master key file %s holds no key", file)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "make the cipher: %w", err)
	}
	return aead, nil
}

func readMasterKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "read the master key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, compute.Errorf(compute.Forbidden, "the master key file %s is open to others (mode %04o): make it 0600", file, info.Mode().Perm())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "read the master key: %w", err)
	}
	defer clear(text)
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != masterKeyBytes {
		return nil, compute.Errorf(compute.Corrupt, "the master key file %s is damaged: it should hold %d bytes in base64", file, masterKeyBytes)
	}
	return key, nil
}

func createMasterKey(file string) ([]byte, error) {
	key := make([]byte, masterKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "make a master key: %w", err)
	}
	// The folder may be one that others must reach too: it keeps its mode.
	dir := folder.Folder{Path: filepath.Dir(file)}
	if err := os.MkdirAll(dir.Path, 0o700); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "make the master key's folder: %w", err)
	}
	text := make([]byte, base64.StdEncoding.EncodedLen(len(key))+1)
	defer clear(text)
	base64.StdEncoding.Encode(text, key)
	text[len(text)-1] = '\n'
	if err := dir.Write(filepath.Base(file), text); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "store the master key: %w", err)
	}
	return key, nil
}
