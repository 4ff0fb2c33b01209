package initializer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// A device that is closed is free at once, also while a program that is just being started still has
// the descriptor, as between fork and exec.
func TestPV11ACloseGivesTheLockBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(path, make([]byte, blockBytes), 0o600))
	first, err := openVolume(path, os.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, first.lock())
	child, err := unix.FcntlInt(first.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(child)) }()

	second, err := openVolume(path, os.O_RDWR)
	require.NoError(t, err)
	defer second.Close()
	require.ErrorIs(t, second.lock(), ErrBusy)
	require.NoError(t, first.Close())
	require.NoError(t, second.lock())
}

// S7: the note on the storage helps nobody to guess a secret: of one that is text, each try costs what the header's Argon2id costs in memory, and
// passes through it.
func TestS7TheNoteOfATextIsDearToTry(t *testing.T) {
	t.Parallel()
	nonce := bytes.Repeat([]byte{7}, nonceBytes)
	public := append([]byte(note), nonce...)
	proof := func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(public)
		return mac.Sum(nil)
	}
	for text, dear := range map[string]bool{
		"correct horse battery staple":                                     true,
		"00112233445566778899aabbccddeeff":                                 true, // 16 bytes of digits may be anything
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff": false,
	} {
		block, err := noteOf(secret.New([]byte(text)), nonce)
		require.NoError(t, err)
		require.Len(t, block, blockBytes)
		has := block[len(public):][:sha256.Size]
		require.Equal(t, !dear, bytes.Equal(proof([]byte(text)), has), text)
		require.Equal(t, dear, bytes.Equal(proof(argon2.IDKey([]byte(text), nonce, 32, 10<<10, 1, 32)), has), text)
		again, err := noteOf(secret.New([]byte(text)), nonce)
		require.NoError(t, err)
		require.Equal(t, block, again)
	}
}
