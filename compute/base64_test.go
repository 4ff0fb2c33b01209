package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// K26: each text is read as Python's base64.b64decode reads it.
func TestK26Base64IsReadAsNovaReadsIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "=": "", "====": "", "!": "", "AA==": "\x00", "aGVsbA==": "hell",
		"aGVsbG8=": "hello", "aGVs bG8=": "hello", " aGVs\r\n\tbG8 =\n": "hello", "aGVsbA= =": "hell",
		"aGVs-bG8_=": "hello", "aGVs!bG8=.": "hello", "a\x00GVsbG8=": "hello", "no base64!": "\x9e\x86\xda\xb1\xee\xb8", // other characters
		"aGVsbG8==": "hello", "aGVsbG8=aGVs": "hello", "aGVsbG8=A": "hello", // behind the end
		"=aGVsbG8=": "hello", "aG=VsbG8=": "hello", "AA=A=": "\x00\x00", "AAA=A": "\x00\x00", "A=AAA": "\x00\x00\x00", "aGVsbA=x=": "hell\x0c", // where no group ends
		"aGVsbG9=": "hello", // bits that are left over
	} {
		got, err := compute.DecodeBase64(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, string(got), "%q", text)
	}
	for _, text := range []string{"A", "A===", "AA", "AA=A", "AAA", "AAAAA", "AAAAA===", "aGVsbG8", "aGVs bG8", "aGVsbA=", "a-b_", "aGVsbG8=é", "aGVs\xffbG8="} {
		_, err := compute.DecodeBase64(text)
		require.True(t, compute.Is(err, compute.Invalid), "%q: %v", text, err)
	}
}
