package initializer

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// newMemory gives a file that is nowhere but in memory, and which nobody else can change: between
// its check and its use, a header must stay as it is. It ends with the process.
func newMemory() (*os.File, error) {
	n, err := unix.MemfdCreate("luks2-header", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(n), "luks2-header")
	if err := f.Truncate(headerBytes); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return f, nil
}

// toMemory copies a header, and from the volume the material of its key slot.
func (h *header) toMemory(from io.ReaderAt) (*os.File, error) {
	material, err := h.material(from)
	if err != nil {
		return nil, err
	}
	f, err := newMemory()
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(h.copies, 0)
	if err == nil {
		_, err = f.WriteAt(material, h.area[0])
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write a file in memory: %w", err)
	}
	return f, nil
}

// material reads the key material that belongs to a header.
func (h *header) material(from io.ReaderAt) ([]byte, error) {
	material := make([]byte, h.area[1])
	if _, err := from.ReadAt(material, h.area[0]); err != nil {
		return nil, fmt.Errorf("read the key material of the header: %w", err)
	}
	return material, nil
}

// readHeader reads a header and checks it.
func readHeader(from io.ReaderAt) (*header, error) {
	begin := make([]byte, 2*metadataBytes)
	n, err := from.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return parseHeader(begin[:n])
}
