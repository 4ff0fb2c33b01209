package imagefile_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/imagefile"
	"strongroom/activities/imagefile/hostile"
)

// H5, M3: what an image's own header shows is found without any program.
func TestH5CheckRefusesHostileHeaders(t *testing.T) {
	t.Parallel()
	for _, f := range hostile.Files("/etc/passwd") {
		if f.Deep || f.Format == "vmdk" {
			continue
		}
		require.Error(t, imagefile.Check(f.Format, bytes.NewReader(f.Data), int64(len(f.Data))), f.Name)
	}
	for _, f := range append(hostile.Sound(), hostile.Raws("/etc/passwd")...) {
		require.NoError(t, imagefile.Check(f.Format, bytes.NewReader(f.Data), int64(len(f.Data))), f.Name)
		require.NoError(t, imagefile.CheckHead(f.Format, f.Data[:min(len(f.Data), imagefile.HeadBytes)]), f.Name)
	}
}

// No header makes the check panic, run on or use memory.
func FuzzCheck(f *testing.F) {
	for _, file := range append(hostile.Files("/etc/passwd"), hostile.Sound()...) {
		f.Add(file.Format, file.Data)
	}
	f.Fuzz(func(_ *testing.T, format string, data []byte) {
		_ = imagefile.CheckHead(format, data[:min(len(data), imagefile.HeadBytes)])
		_ = imagefile.Check(format, bytes.NewReader(data), int64(len(data)))
	})
}
