package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// reopenPause is how long a host waits after its volume could not be opened.
const reopenPause = 30 * time.Second

// StateVolume is the volume with a host's own state, as the record has it.
type StateVolume struct {
	Known   bool   `json:"known"`             // there is one
	Wanted  bool   `json:"wanted"`            // and it is to be open
	Message string `json:"message,omitempty"` // why it could not be opened
}

type volumeReport struct {
	Open bool `json:"open"` // and mounted
}

// StateVolume says whether the volume with the host's state is open, and gives what the record has of it. One that is
// to be open and is not is then opened by an operation.
func (c *Client) StateVolume(ctx context.Context, open bool) (out StateVolume, err error) {
	return out, c.ask(ctx, http.MethodPost, pathVolume, volumeReport{open}, &out)
}

func volume(c *call) (any, error) {
	in, err := read[volumeReport](c.body)
	if err != nil {
		return nil, err
	}
	return c.StateVolume(c.Context(), in.Open)
}

// StateVolume is Client.StateVolume. Of the operation only the row is written: a control worker starts it.
func (r Records) StateVolume(ctx context.Context, open bool) (out StateVolume, err error) {
	q := schema.New(r.Pool)
	row, err := q.FindSecureVolume(ctx, r.Host.String())
	if errors.Is(err, pgx.ErrNoRows) {
		return out, nil
	}
	if err != nil {
		return out, unavailable(err)
	}
	out = StateVolume{Known: true, Wanted: row.Wanted}
	if open || !row.Wanted {
		return out, nil
	}
	last, err := q.NewestVolumeOperation(ctx, row.ID.UUID)
	if err != nil {
		return out, unavailable(err)
	}
	out.Message = last.Operation().Message
	if !last.State.Settled() || last.State != compute.OperationSucceeded && time.Since(*last.FinishedAt) < reopenPause {
		return out, nil
	}
	_, _, err = record.AskVolume(ctx, r.Pool, durable.Host{ID: r.Host, Name: r.Name}, compute.OpSecureVolumeOpen, "")
	if compute.Is(err, compute.Conflict) { // another operation has begun
		err = nil
	}
	return out, unavailable(err)
}

// requireVolumeKey fails with Forbidden unless an operation that runs reads the secret as a key of this host's volume.
func (r Records) requireVolumeKey(ctx context.Context, in passphraseRequest) error {
	granted, err := schema.New(r.Pool).VolumeKeyGranted(ctx, schema.VolumeKeyGrantedParams{Volume: in.Volume, HostID: r.Host, Secret: in.Secret.UUID})
	if err != nil {
		return unavailable(err)
	}
	if !granted || !in.Credential.IsDeployment() {
		return compute.Errorf(compute.Forbidden, "no operation that runs on volume %s of host %s uses secret %s with credential %s", in.Volume, r.Name, in.Secret, in.Credential.ID)
	}
	return nil
}
