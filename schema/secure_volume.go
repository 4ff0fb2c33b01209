package schema

import (
	"context"

	"strongroom/compute"
)

// Volume gives the row as the field knows it.
func (row SecureVolume) Volume() compute.SecureVolume {
	return compute.SecureVolume{ID: row.ID, Host: row.HostID, Device: row.Device, Wanted: row.Wanted, Secret: row.Secret, Next: row.Next}
}

// GiveUpVolume gives up the volume with the state of a host that never comes back, if it has one: its keys are removed, so
// that nobody reads it into whose hands its disk falls, and an operation that is at work on it is cancelled.
func GiveUpVolume(ctx context.Context, q *Queries, host compute.HostID) error {
	id := compute.StateVolume(host)
	// The row first, which an operation locks that writes down a key.
	if err := q.DeleteSecureVolume(ctx, id); err != nil {
		return err
	}
	if err := q.ReleaseOpenVolume(ctx, id.UUID); err != nil {
		return err
	}
	return q.DiscardVolumeKeys(ctx, DiscardVolumeKeysParams{Volume: id.UUID, Reason: "its host was forgotten"})
}
