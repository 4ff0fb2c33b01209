package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestK26BlanksInUserDataDoNotCount(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"aGVsbG8=", "aGVs bG8=", " aGVs\r\n\tbG8 =\n"} {
		got, err := compute.DecodeUserData(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, "hello", string(got))
	}
	for _, text := range []string{"aGVsbG8", "a-b_", "no base64!", "="} {
		_, err := compute.DecodeUserData(text)
		require.Error(t, err, "%q", text)
	}
}
