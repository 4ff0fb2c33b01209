package initializer_test

import (
	"bytes"
	"crypto/aes"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/xts"
)

// A header as cryptsetup makes it. cryptsetup itself makes none with integrity on a kernel without a
// device mapper; it opens these, and changes their keys.
const (
	copyBytes  = 16 << 10
	headBytes  = 16 << 20
	volumeKey  = 96
	stripes    = 4000
	areaOffset = 2 * copyBytes
	areaBytes  = 385024
)

// object is JSON that tests change.
type object = map[string]any

func metadataOf(kdf, digest object) object {
	return object{
		"keyslots": object{"0": object{
			"type": "luks2", "key_size": volumeKey,
			"af":   object{"type": "luks1", "stripes": stripes, "hash": "sha256"},
			"area": object{"type": "raw", "offset": "32768", "size": "385024", "encryption": "aes-xts-plain64", "key_size": 64},
			"kdf":  kdf,
		}},
		"tokens": object{},
		"segments": object{"0": object{
			"type": "crypt", "offset": "16777216", "size": "dynamic", "iv_tweak": "0", "encryption": "aes-xts-plain64", "sector_size": 4096,
			"integrity": object{"type": "hmac(sha256)", "journal_encryption": "none", "journal_integrity": "none"},
		}},
		"digests": object{"0": digest},
		"config":  object{"json_size": "12288", "keyslots_size": "16744448"},
	}
}

// newHeader gives the 16 MiB of a header that a passphrase opens.
func newHeader(t require.TestingT, passphrase []byte, argon bool) (header []byte, metadata object) {
	key, salt := make([]byte, volumeKey), make([]byte, 32)
	_, _ = rand.Read(key)
	_, _ = rand.Read(salt)
	text := base64.StdEncoding.EncodeToString(salt)
	kdf := object{"type": "pbkdf2", "hash": "sha256", "iterations": 1000, "salt": text}
	derived, err := pbkdf2.Key(sha256.New, string(passphrase), salt, 1000, 64)
	require.NoError(t, err)
	if argon {
		kdf = object{"type": "argon2id", "time": 4, "memory": 1024, "cpus": 1, "salt": text}
		derived = argon2.IDKey(passphrase, salt, 4, 1024, 1, 64)
	}
	digest, err := pbkdf2.Key(sha256.New, string(key), salt, 1000, 32)
	require.NoError(t, err)
	metadata = metadataOf(kdf, object{
		"type": "pbkdf2", "keyslots": []string{"0"}, "segments": []string{"0"}, "hash": "sha256", "iterations": 1000,
		"salt": text, "digest": base64.StdEncoding.EncodeToString(digest),
	})
	header = make([]byte, headBytes)
	material := split(key)
	cipher, err := xts.NewCipher(aes.NewCipher, derived)
	require.NoError(t, err)
	for sector := 0; sector*512 < len(material); sector++ {
		cipher.Encrypt(header[areaOffset+sector*512:], material[sector*512:min((sector+1)*512, len(material))], uint64(sector))
	}
	putMetadata(t, header, metadata, uuid.NewString(), 3)
	return header, metadata
}

// split is the anti-forensic splitter of LUKS1.
func split(key []byte) []byte {
	out := make([]byte, 0, len(key)*stripes)
	last := make([]byte, len(key))
	for range stripes - 1 {
		stripe := make([]byte, len(key))
		_, _ = rand.Read(stripe)
		for i := range last {
			last[i] ^= stripe[i]
		}
		for i := 0; i < len(last); i += sha256.Size {
			sum := sha256.Sum256(append(binary.BigEndian.AppendUint32(nil, uint32(i/sha256.Size)), last[i:i+sha256.Size]...))
			copy(last[i:], sum[:])
		}
		out = append(out, stripe...)
	}
	for i := range last {
		last[i] ^= key[i]
	}
	return append(out, last...)
}

// putMetadata writes both copies, with their checksums.
func putMetadata(t require.TestingT, header []byte, metadata any, id string, sequence uint64) {
	text, is := metadata.([]byte)
	if !is {
		var err error
		text, err = json.Marshal(metadata)
		require.NoError(t, err)
	}
	putCopy(header, 0, text, id, sequence)
	putCopy(header, copyBytes, text, id, sequence)
}

func putCopy(header []byte, at int, text []byte, id string, sequence uint64) {
	part := header[at : at+copyBytes]
	clear(part)
	copy(part, map[bool]string{true: "LUKS\xba\xbe\x00\x02", false: "SKUL\xba\xbe\x00\x02"}[at == 0])
	binary.BigEndian.PutUint64(part[8:], copyBytes)
	binary.BigEndian.PutUint64(part[16:], sequence)
	copy(part[72:], "sha256")
	_, _ = rand.Read(part[104:168])
	copy(part[168:], id)
	binary.BigEndian.PutUint64(part[256:], uint64(at))
	copy(part[4096:], text)
	sum := sha256.Sum256(part)
	copy(part[448:], sum[:])
}

// idOf reads the UUID of a header.
func idOf(header []byte) string { return string(bytes.TrimRight(header[168:208], "\x00")) }

// changed gives a header with other metadata.
func changed(t *testing.T, header []byte, m object, change func(m object)) []byte {
	t.Helper()
	text, err := json.Marshal(m)
	require.NoError(t, err)
	var anew object
	require.NoError(t, json.Unmarshal(text, &anew))
	change(anew)
	out := bytes.Clone(header)
	putMetadata(t, out, anew, idOf(header), 3)
	return out
}
