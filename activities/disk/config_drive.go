package disk

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/compute/metadata"
)

// MetadataSource reads what a guest may know of itself, as it will be when an
// operation that is ahead of the record has come to its decision; nil: as it is.
// NotFound: no such server.
type MetadataSource interface {
	MetadataAfter(ctx context.Context, id compute.ServerID, ahead *compute.OperationID) (metadata.Server, error)
}

// ConfigDriveInput asks that a server's folder has its config drive. What is on it
// is no part of the input: a host reads it for itself, so it is in no history.
type ConfigDriveInput struct {
	Server     compute.Server       `json:"server"`          // as it is to boot: its disks, and what opens the root disk
	Ahead      *compute.OperationID `json:"ahead,omitempty"` // whose change of the server is not on record yet
	Credential compute.Credential   `json:"credential"`      // to read the root disk's secret with
	Began      time.Time            `json:"began,omitzero"`  // when the operation did that boots it
}

// CreateConfigDrive is the activity disk.CreateConfigDrive: an ISO 9660 image with
// the server's metadata as they are now, in a LUKS container if its root disk is
// encrypted. One that is there is replaced; who has it open keeps what he has.
//
// NotFound: no such server; NoHost: no room, or no xorriso; otherwise as the key manager and the
// source of metadata say.
func (a *Activities) CreateConfigDrive(ctx context.Context, in ConfigDriveInput) error {
	id := in.Server.ID
	dir, err := a.serverDir(id)
	if err != nil {
		return err
	}
	var key *secret.Passphrase
	if opens := in.Server.ConfigDriveSecret(); opens != nil {
		if key, err = a.Keys.Passphrase(ctx, in.Credential, *opens); err != nil {
			return err
		}
		defer key.Wipe()
	}
	known, err := a.Metadata.MetadataAfter(ctx, id, in.Ahead)
	if err != nil {
		return err
	}
	files, err := known.As(in.Server).Drive(rand.Reader)
	if err != nil {
		return err
	}
	if err := a.NoteBoot(ctx, id, in.Began); err != nil {
		return err
	}
	path := filepath.Join(dir, compute.ConfigDriveFile)
	unlock, err := lockFile(ctx, path, true)
	if err != nil {
		return failed(ctx, err, "server %s: lock of its config drive", id)
	}
	defer unlock()
	if err := room(a.InstancesDir, configDriveRoom); err != nil {
		return compute.Errorf(compute.KindOf(err), "server %s: its config drive: %w", id, err)
	}
	iso, err := a.isoImage(ctx, id, files)
	if err == nil {
		err = a.writeConfigDrive(path, iso, key)
	}
	clear(iso)
	if err != nil {
		return failed(ctx, err, "server %s: its config drive", id)
	}
	a.Logger.InfoContext(ctx, "made config drive", "server", id, "bytes", len(iso), "encrypted", key != nil)
	return nil
}

// configDriveRoom is what the largest config drive takes: the API takes 64 KiB of
// user data, which are there once for each version.
const configDriveRoom = 8 * mib

func (a *Activities) writeConfigDrive(path string, iso []byte, key *secret.Passphrase) error {
	return a.writeWhole(path, func(f *os.File) error {
		if key == nil {
			_, err := bytes.NewReader(iso).WriteTo(f)
			return err
		}
		return key.Use(func(value []byte) error { return luks.WriteContainer(f, value, iso) })
	})
}
