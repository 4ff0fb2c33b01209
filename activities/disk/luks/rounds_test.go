package luks_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk/luks"
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// M1: a text of a user's gets the rounds that a weak one needs.
func TestM1WeakPassphrasesGetMoreRounds(t *testing.T) {
	t.Parallel()
	own := base64.StdEncoding.EncodeToString(random(64))
	for name, c := range map[string]struct {
		passphrase string
		rounds     int
	}{
		"our own":                 {own, 10_000},
		"empty":                   {"", 600_000},
		"a word":                  {"summer", 600_000},
		"a sentence":              {"correct horse battery staple", 600_000},
		"as long as our own":      {strings.Repeat("a", 86) + "==", 600_000},
		"our own's form, of text": {base64.StdEncoding.EncodeToString([]byte(strings.Repeat("correct horse battery staple ", 3)[:64])), 600_000},
		"our own, cut off":        {own[:84], 600_000},
		"random hex":              {hex.EncodeToString(random(64)), 600_000},
		"random, 32 bytes":        {base64.StdEncoding.EncodeToString(random(32)), 600_000},
	} {
		require.Equal(t, c.rounds, luks.Rounds([]byte(c.passphrase)), name)
	}
	for range 1000 {
		require.Equal(t, 10_000, luks.Rounds([]byte(base64.StdEncoding.EncodeToString(random(64)))))
	}
}

// M1: what a header says, as cryptsetup reads it, of the first slot and of one that was
// added.
func TestM1HeadersOfWeakPassphrases(t *testing.T) {
	t.Parallel()
	weak, strong := []byte("summer"), []byte(base64.StdEncoding.EncodeToString(random(64)))
	for _, c := range []struct {
		have, add []byte
		want      []string
	}{
		{weak, strong, []string{"600000", "10000"}},
		{strong, weak, []string{"10000", "600000"}},
	} {
		path := newDisk(t, c.have)
		_, err := open(t, path).AddSlot([]int{0}, c.have, c.add)
		require.NoError(t, err)
		out, err := run(nil, "cryptsetup", "luksDump", path)
		require.NoError(t, err, "%s", out)
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^\s+Iterations:\s+(\d+)`).FindAllStringSubmatch(string(out), -1) {
			got = append(got, m[1])
		}
		require.Equal(t, c.want, got, "%s", out)
		require.True(t, opens(path, c.have))
		require.True(t, opens(path, c.add))
	}
	container := filepath.Join(t.TempDir(), "container")
	f, err := os.Create(container)
	require.NoError(t, err)
	require.NoError(t, luks.WriteContainer(f, weak, []byte("what is in it")))
	require.NoError(t, f.Close())
	out, err := run(nil, "cryptsetup", "luksDump", container)
	require.NoError(t, err)
	require.Contains(t, string(out), "600000")
}
