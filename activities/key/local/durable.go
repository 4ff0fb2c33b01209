package local

import (
	"errors"
	"os"
	"path/filepath"
)

// writeFile makes dir/name hold data, mode 0600: whole after a crash, or absent.
func writeFile(dir, name string, data []byte) error {
	temp, err := writeTemp(dir, data)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncDir(dir)
}

// writeTemp writes and syncs a file of a passing name; on an error none is left.
func writeTemp(dir string, data []byte) (string, error) {
	temp, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

// syncDir makes the folder's entries last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
