package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// NVRAMInput asks that a server's folder has the variables of its UEFI.
type NVRAMInput struct {
	Server   compute.ServerID `json:"server"`
	File     string           `json:"file"` // compute.Server.NVRAM
	Firmware compute.Firmware `json:"firmware"`
	Machine  string           `json:"machine,omitempty"` // compute.Server.MachineType
	Of       string           `json:"of,omitempty"`      // the file of the folder that it is a copy of; "": those of a new machine
	Bytes    int64            `json:"bytes,omitempty"`   // that those of the new machine have, since a guest that runs brings its own; 0: any
}

// CreateNVRAM is the activity disk.CreateNVRAM. A file that is there is left alone: it appeared
// under its name when it was whole, and a guest may have written to it.
//
// Invalid: the name is none of such a file; NoHost: the host has no such firmware, or no room; Conflict: its firmware
// has variables of another size; Corrupt: what it is a copy of is missing, or the firmware that is asked for is not known.
func (a *Activities) CreateNVRAM(ctx context.Context, in NVRAMInput) error {
	return a.ensureNVRAM(ctx, in.Server, in.File, func(path string) error {
		source, err := a.nvramSource(in)
		if err != nil {
			return err
		}
		from, err := openNVRAM(in.Server, source)
		if err == nil {
			err = a.writeNVRAM(path, from)
			from.Close()
		}
		if err != nil {
			return failed(ctx, err, "server %s: its UEFI variables", in.Server)
		}
		a.Logger.InfoContext(ctx, "made UEFI variables", "server", in.Server, "file", in.File, "of", source)
		return nil
	})
}

// ensureNVRAM makes a server's variables where they are not there, one call at a time.
func (a *Activities) ensureNVRAM(ctx context.Context, server compute.ServerID, file string, create func(path string) error) error {
	path, err := a.nvramPath(server, file)
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, path, true)
	if err != nil {
		return failed(ctx, err, "server %s: lock of its UEFI variables", server)
	}
	defer unlock()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return create(path)
}

// openNVRAM opens a server's variables, or what they are made of. Corrupt: they are missing.
func openNVRAM(server compute.ServerID, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.Errorf(compute.Corrupt, "server %s: its UEFI variables are missing", server)
	}
	return f, err
}

func (a *Activities) nvramPath(server compute.ServerID, file string) (string, error) {
	if !compute.IsNVRAM(file) {
		return "", compute.Errorf(compute.Invalid, "server %s: %q are no UEFI variables", server, file)
	}
	return a.filePath(server, file)
}

// nvramBytes are those of a server's variables. Corrupt: they are not there, or are none.
func (a *Activities) nvramBytes(server compute.ServerID, file string) (int64, error) {
	path, err := a.nvramPath(server, file)
	if err != nil {
		return 0, err
	}
	switch is, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return 0, compute.Errorf(compute.Corrupt, "server %s: its UEFI variables are missing", server)
	case err != nil:
		return 0, compute.Errorf(compute.Unavailable, "server %s: its UEFI variables: %w", server, err)
	case !is.Mode().IsRegular(), is.Size() == 0, is.Size() > mostNVRAMBytes:
		return 0, compute.Errorf(compute.Corrupt, "server %s: its UEFI variables have %d bytes, or are no file", server, is.Size())
	default:
		return is.Size(), nil
	}
}

func (a *Activities) nvramSource(in NVRAMInput) (string, error) {
	if in.Of != "" {
		return a.nvramPath(in.Server, in.Of)
	}
	build, err := a.Firmware.For(in.Firmware, in.Machine, in.Bytes)
	if err != nil {
		return "", compute.Errorf(compute.KindOf(err), "server %s: %w", in.Server, err)
	}
	// The template may be a link of the distribution's, the file of a server never is one.
	return filepath.EvalSymlinks(build.Vars)
}

func (a *Activities) writeNVRAM(path string, from io.Reader) error {
	if err := room(a.InstancesDir, mostNVRAMBytes); err != nil {
		return err
	}
	return a.writeWhole(path, func(f *os.File) error {
		n, err := io.Copy(f, io.LimitReader(from, mostNVRAMBytes+1))
		if err == nil && (n == 0 || n > mostNVRAMBytes) {
			err = compute.Errorf(compute.Corrupt, "they have %d bytes", n)
		}
		return err
	})
}

// mostNVRAMBytes bounds such a file: OVMF's has half a MiB.
const mostNVRAMBytes = 16 * mib

// ReceiveNVRAMInput asks for the variables that another host has.
type ReceiveNVRAMInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"` // that intends the disk_file here, on the ledger
	File      string              `json:"file"`      // its name, here and there
	From      compute.Agent       `json:"from"`
}

// ReceiveNVRAM is the activity disk.ReceiveNVRAM: it ensures that the server's folder has the
// variables as another host has them, byte for byte. It is Receive for a file of another kind, and
// fails as that does.
func (a *Activities) ReceiveNVRAM(ctx context.Context, in ReceiveNVRAMInput) error {
	path, err := a.nvramPath(in.Server, in.File)
	if err != nil {
		return err
	}
	unlock, err := tryLockFile(path)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return busy{compute.Errorf(compute.Unavailable, "server %s: another attempt is receiving its UEFI variables", in.Server)}
	}
	if err != nil {
		return failed(ctx, err, "server %s: lock of its UEFI variables", in.Server)
	}
	defer unlock()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil { // it got its name when it was whole
			err = removeNote(path)
		}
		if err != nil {
			return failed(ctx, err, "server %s: its UEFI variables", in.Server)
		}
		return nil
	}
	from := incoming{
		Transfer: compute.Transfer{Server: in.Server, Operation: in.Operation, Kind: compute.ThingDiskFile, Name: in.Server.String() + "/" + in.File},
		from:     in.From, most: mostNVRAMBytes,
	}
	if err := a.receive(ctx, from, path, func(string) error { return nil }); err != nil {
		return failed(ctx, err, "server %s: its UEFI variables", in.Server)
	}
	return nil
}
