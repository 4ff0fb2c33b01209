package imagefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"strongroom/activities/disk/luks"
)

// NamesDataFile reports whether the header of a qcow2 file says that its data are in another file,
// which whoever opens it opens, too. No program is started to tell. Of a file that is not there, or
// is no qcow2, it says nothing.
func NamesDataFile(path string) (names bool, err error) {
	err = withHead(path, qcow2HeaderV3, func(q qcow2, _ *os.File) error {
		names = q.u32(qcow2Version) >= 3 && q.u64(qcow2Incompatible)&qcow2BitDataFile != 0
		return nil
	})
	return names, err
}

// CheckCrypto looks at the LUKS header of a qcow2 file as Check does, and at nothing else: the file may
// lean on another one. Of a file that is not there, is no qcow2 or is not encrypted with LUKS, it says
// nothing.
func CheckCrypto(path string) error {
	return withHead(path, HeadBytes, func(q qcow2, f *os.File) error {
		if q.u32(qcow2CryptMethod) != qcow2CryptLUKS {
			return nil
		}
		at := uint64(qcow2HeaderV2)
		if q.u32(qcow2Version) >= 3 && len(q.head) >= qcow2HeaderV3 {
			at = uint64(q.u32(qcow2HeaderLength))
		}
		if err := q.extensions(at); err != nil {
			return err
		}
		return luks.Check(f, q.crypto, q.room)
	})
}

// withHead gives the header of a qcow2 file, of so many bytes at most.
func withHead(path string, bytes int, look func(q qcow2, f *os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, bytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	q := qcow2{head: head[:n]}
	if !IsQcow2(q.head) || n < qcow2HeaderV2+8 {
		return nil
	}
	return look(q, f)
}
