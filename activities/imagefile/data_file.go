package imagefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// NamesDataFile reports whether the header of a qcow2 file says that its data are in another file,
// which whoever opens it opens, too. No program is started to tell. Of a file that is not there, or
// is no qcow2, it says nothing.
func NamesDataFile(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, qcow2HeaderV3)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	q := qcow2{head: head[:n]}
	if !IsQcow2(q.head) || n < qcow2HeaderV2+8 {
		return false, nil
	}
	return q.u32(qcow2Version) >= 3 && q.u64(qcow2Incompatible)&qcow2BitDataFile != 0, nil
}
