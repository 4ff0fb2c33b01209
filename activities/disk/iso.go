package disk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

// isoImage makes the file system of a config drive, with the long names of Rock
// Ridge for Unix and of Joliet for Windows. What is to be on it lies in memory
// meanwhile, never on a disk.
func (a *Activities) isoImage(ctx context.Context, id compute.ServerID, files map[string][]byte) ([]byte, error) {
	folder := a.scratch(id)
	if err := os.RemoveAll(folder); err != nil { // of an attempt that was killed
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	for name, body := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			return nil, err
		}
	}
	iso, err := a.Runner.Run(ctx, Command{Name: "xorriso", Args: []string{
		"-as", "mkisofs", "-quiet", "-J", "-r", "-no-pad", "-V", metadata.Label, "-o", "-", folder}})
	if errors.Is(err, exec.ErrNotFound) {
		return nil, compute.Errorf(compute.NoHost, "the host has no xorriso: install it")
	}
	return iso, err
}

// scratch is a folder in the machine's memory for what is not to lie on a disk.
// What a killed attempt leaves there goes with the next one, or with the file.
func (a *Activities) scratch(id compute.ServerID) string {
	return filepath.Join(a.MemoryDir, "strongroom-"+id.String())
}
