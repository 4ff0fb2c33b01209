package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"strongroom/compute"
)

// Objects is what the activities need of an object store.
type Objects interface {
	// Put ensures that the object has the data; Conflict: it has other data.
	Put(ctx context.Context, cred compute.Credential, name string, size int64, data io.ReaderAt) error
	// Open streams the object. NotFound: there is none, or it is not whole.
	Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error)
}

// SaveNVRAMInput asks that the UEFI variables of a server that is off become an object.
type SaveNVRAMInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	File       string             `json:"file"` // compute.Server.NVRAM
	Object     string             `json:"object"`
}

// SaveNVRAMResult says what was stored.
type SaveNVRAMResult struct {
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"` // hex
}

// SaveNVRAM is the activity disk.SaveNVRAM: it ensures that the object has the file, byte for byte. Corrupt: it is
// not there, or is none of such a file; otherwise as the object store says.
func (a *Activities) SaveNVRAM(ctx context.Context, in SaveNVRAMInput) (SaveNVRAMResult, error) {
	if _, err := a.nvramBytes(in.Server, in.File); err != nil {
		return SaveNVRAMResult{}, err
	}
	path, err := a.nvramPath(in.Server, in.File)
	if err != nil {
		return SaveNVRAMResult{}, err
	}
	f, err := openNVRAM(in.Server, path)
	if err != nil {
		return SaveNVRAMResult{}, failed(ctx, err, "server %s: its UEFI variables", in.Server)
	}
	defer f.Close()
	data, err := readNVRAM(f)
	if err != nil {
		return SaveNVRAMResult{}, failed(ctx, err, "server %s: its UEFI variables", in.Server)
	}
	if err := a.Objects.Put(ctx, in.Credential, in.Object, int64(len(data)), bytes.NewReader(data)); err != nil {
		return SaveNVRAMResult{}, err
	}
	sum := sha256.Sum256(data)
	return SaveNVRAMResult{SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, nil
}

// RestoreNVRAMInput asks for the UEFI variables of a shelved server.
type RestoreNVRAMInput struct {
	Credential compute.Credential  `json:"credential"`
	Server     compute.ServerID    `json:"server"`
	File       string              `json:"file"` // compute.Server.NVRAM
	Stored     compute.StoredNVRAM `json:"stored"`
	Firmware   compute.Firmware    `json:"firmware"`
	Machine    string              `json:"machine,omitempty"` // compute.Server.MachineType
}

// RestoreNVRAM is the activity disk.RestoreNVRAM: it ensures that the server's folder has the variables that the object
// keeps. A file that is there is left alone, as CreateNVRAM does.
//
// NotFound: the object is not there; Corrupt: it is not what was stored; NoHost: the host has no firmware that reads
// them, or no room; otherwise as the object store says.
func (a *Activities) RestoreNVRAM(ctx context.Context, in RestoreNVRAMInput) error {
	return a.ensureNVRAM(ctx, in.Server, in.File, func(path string) error {
		data, err := a.fetchNVRAM(ctx, in)
		if err != nil {
			return err
		}
		if _, err := a.Firmware.For(in.Firmware, in.Machine, int64(len(data))); err != nil { // another host may have it
			return compute.Errorf(compute.NoHost, "server %s: %w", in.Server, err)
		}
		if err := a.writeNVRAM(path, bytes.NewReader(data)); err != nil {
			return failed(ctx, err, "server %s: its UEFI variables", in.Server)
		}
		return nil
	})
}

// fetchNVRAM reads the object and compares it with what the server's record says.
func (a *Activities) fetchNVRAM(ctx context.Context, in RestoreNVRAMInput) ([]byte, error) {
	from, err := a.Objects.Open(ctx, in.Credential, in.Stored.Object)
	if compute.Is(err, compute.NotFound) {
		return nil, compute.Errorf(compute.NotFound, "object %s, which keeps the server's UEFI variables, is not there", in.Stored.Object)
	}
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := readNVRAM(from)
	if err != nil {
		return nil, failed(ctx, err, "object %s", in.Stored.Object)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != in.Stored.SHA256 {
		return nil, compute.Errorf(compute.Corrupt, "object %s does not have the server's UEFI variables: its sha256 is another one than %s", in.Stored.Object, in.Stored.SHA256)
	}
	return data, nil
}

// readNVRAM reads no more than variables may have.
func readNVRAM(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, mostNVRAMBytes+1))
	if err == nil && (len(data) == 0 || len(data) > mostNVRAMBytes) {
		err = compute.Errorf(compute.Corrupt, "UEFI variables do not have %d bytes", len(data))
	}
	return data, err
}
