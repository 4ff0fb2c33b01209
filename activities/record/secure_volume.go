package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The record of hosts' own volumes.
var (
	// BeginVolume gives an operation on a volume its volume.
	BeginVolume = durable.Activity[durable.OperationInput, BeginVolumeResult]{
		Name: "record.BeginVolume", Queue: durable.RecordQueue,
		Summary: func(durable.OperationInput) string { return "begin the operation" },
	}
	// SetVolume writes what became of a volume.
	SetVolume = durable.Activity[SetVolumeInput, durable.None]{
		Name: "record.SetVolume", Queue: durable.RecordQueue,
		Summary: func(in SetVolumeInput) string { return stepSummary("write down the volume", in.Close, nil) },
	}
)

// BeginVolumeResult is what an operation on a volume works with.
type BeginVolumeResult struct {
	Superseded bool                  `json:"superseded,omitempty"` // it has ended
	Kind       compute.OperationKind `json:"kind,omitempty"`
	Volume     compute.SecureVolume  `json:"volume"` // its device is the one that was asked for
	Host       durable.Host          `json:"host"`
	// NeverFormat: there is a key of the volume already, and no device was named for it. One that is new is refused.
	NeverFormat bool      `json:"neverFormat,omitempty"`
	Began       time.Time `json:"began,omitzero"` // as that of BeginResult
}

// VolumeKeys are the ids of a volume's secrets (compute.SecureVolume), never their values, and the device that they open.
type VolumeKeys struct {
	Secret *compute.SecretID `json:"secret,omitempty"`
	Next   *compute.SecretID `json:"next,omitempty"`
	Device string            `json:"device,omitempty"` // "": as it was
}

// SetVolumeInput is what to write, all of it in one transaction.
type SetVolumeInput struct {
	durable.OperationInput
	Close    *Close      `json:"close,omitempty"` // the last step
	Keys     *VolumeKeys `json:"keys,omitempty"`
	Wanted   bool        `json:"wanted,omitempty"`   // it is to be open after all
	Unopened bool        `json:"unopened,omitempty"` // if it has no key, its row goes
}

// BeginVolume is the activity record.BeginVolume. Run again for an operation that has begun, it gives the same.
func (a *Activities) BeginVolume(ctx context.Context, in durable.OperationInput) (out BeginVolumeResult, err error) {
	err = a.transaction(ctx, func(q *schema.Queries) error {
		rows, err := q.BeginOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		if out = (BeginVolumeResult{Superseded: rows == 0}); out.Superseded {
			return nil
		}
		op, err := q.GetOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		if on := op.Operation().On(); on != in.Subject || on.Kind != compute.OwnerVolume {
			return compute.Errorf(compute.Invalid, "operation %s works on no %s", op.ID, in.Subject)
		}
		row, err := q.LockSecureVolume(ctx, compute.VolumeID{UUID: in.Subject.ID})
		if err != nil {
			return err
		}
		out.Kind, out.Volume, out.Host = op.Kind, row.Volume(), durable.Host{ID: row.HostID, Name: row.HostName}
		if op.StartedAt != nil {
			out.Began = *op.StartedAt
		}
		if op.Kind == compute.OpSecureVolumeOpen {
			return out.open(op)
		}
		return nil
	})
	return out, err
}

// open says on which device the volume is opened, and whether that may be a new one: once the volume has a key, an empty disk in its
// place is formatted where somebody names that disk, and not whenever the host's worker starts.
func (r *BeginVolumeResult) open(op schema.Operation) error {
	device, err := askedDevice(op)
	r.NeverFormat = r.Volume.Secret != nil && device == ""
	r.Volume.Device = cmp.Or(device, r.Volume.Device)
	return err
}

// askedDevice is the device that was named for an operation; "": none was.
func askedDevice(op schema.Operation) (string, error) {
	var asked compute.SecureVolumeOpenArguments
	if err := json.Unmarshal(op.Arguments, &asked); err != nil {
		return "", compute.Errorf(compute.Invalid, "the arguments of operation %s: %w", op.ID, err)
	}
	return asked.Device, nil
}

// SetVolume is the activity record.SetVolume. Superseded: the operation has ended, and nothing but Close was written.
func (a *Activities) SetVolume(ctx context.Context, in SetVolumeInput) error {
	id := compute.VolumeID{UUID: in.Subject.ID}
	return a.closing(ctx, in.Operation, in.Close, func() error {
		return fence.Owned(ctx, a.Pool, in.Operation, compute.ServerID{}, func(q *schema.Queries) error {
			if err := closeStep(ctx, q, in.Operation, in.Close); err != nil {
				return err
			}
			_, err := q.LockSecureVolume(ctx, id)
			switch {
			case errors.Is(err, pgx.ErrNoRows) && in.Keys != nil: // given up with its host: its keys go
				return fence.Superseded()
			case errors.Is(err, pgx.ErrNoRows):
				return nil
			case err != nil:
				return err
			}
			if in.Keys != nil {
				if err := q.SetVolumeKeys(ctx, schema.SetVolumeKeysParams{ID: id, Secret: in.Keys.Secret, Next: in.Keys.Next, Device: in.Keys.Device}); err != nil {
					return err
				}
			}
			if in.Wanted {
				if err := q.WantSecureVolume(ctx, schema.WantSecureVolumeParams{ID: id, Wanted: true}); err != nil {
					return err
				}
			}
			if in.Unopened {
				return q.DeleteUnopenedVolume(ctx, id)
			}
			return nil
		})
	})
}

// AskVolume begins an operation on the volume with a host's state, which is still to be started. While one of the kind is
// under way it gives that one: begun is false. device is the volume's path on the host; "": as it was. Once the volume has a key,
// the device is written down with the success of the operation. Invalid:
// it is no path, or the first one is missing; NotFound: the host has no volume; Conflict: another operation is at work on it, or one
// that opens it on another device, or it was never opened.
func AskVolume(ctx context.Context, pool *pgxpool.Pool, host durable.Host, kind compute.OperationKind, device string) (op compute.Operation, begun bool, err error) {
	if device != "" && (!filepath.IsAbs(device) || filepath.Clean(device) != device) {
		return op, false, compute.Errorf(compute.Invalid, "the device %q is no absolute path", device)
	}
	err = fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		op, begun, err = askVolume(ctx, q, host, kind, device)
		return err
	})
	return op, begun && err == nil, err
}

func askVolume(ctx context.Context, q *schema.Queries, host durable.Host, kind compute.OperationKind, device string) (op compute.Operation, begun bool, err error) {
	id := compute.StateVolume(host.ID)
	put := func(device string) error {
		return q.PutSecureVolume(ctx, schema.PutSecureVolumeParams{ID: id, HostID: host.ID, HostName: host.Name, Device: device})
	}
	row, err := q.LockSecureVolume(ctx, id)
	switch {
	case err == nil:
	case !errors.Is(err, pgx.ErrNoRows):
		return op, false, err
	case kind != compute.OpSecureVolumeOpen:
		return op, false, compute.Errorf(compute.NotFound, "host %s has no volume for its state", host.Name)
	case device == "":
		return op, false, compute.Errorf(compute.Invalid, "host %s has no volume for its state yet: --device says which it is to be", host.Name)
	default:
		if err := put(device); err != nil {
			return op, false, err
		}
	}
	last, err := q.NewestVolumeOperation(ctx, id.UUID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return op, false, err
	}
	if err == nil && !last.State.Settled() {
		if last.Kind == kind {
			return last.Operation(), false, isFor(last, device)
		}
		return op, false, compute.Errorf(compute.Conflict, "operation %s (%s) is at work on the volume of host %s", last.ID, last.Kind, host.Name)
	}
	arguments := []byte("{}")
	switch kind {
	case compute.OpSecureVolumeOpen:
		if arguments, err = json.Marshal(compute.SecureVolumeOpenArguments{Device: device}); err != nil {
			return op, false, err
		}
		if device == "" || row.Secret != nil {
			device = row.Device
		}
		err = put(device)
	case compute.OpSecureVolumeClose:
		err = q.WantSecureVolume(ctx, schema.WantSecureVolumeParams{ID: id, Wanted: false})
	default:
		err = nil
		if row.Secret == nil {
			err = compute.Errorf(compute.Conflict, "the volume of host %s was never opened", host.Name)
		}
	}
	if err != nil {
		return op, false, err
	}
	op = compute.Operation{
		ID: compute.NewOperationID(), Subject: compute.VolumeOwner(id), Kind: kind, State: compute.OperationAccepted,
		Credential: compute.DeploymentCredential(), Arguments: arguments,
	}
	return op, true, outbox.Accept(ctx, q, op, nil)
}

// isFor sees that an operation which is under way does what is asked for again: the host may have asked for its volume, as it was.
func isFor(last schema.Operation, device string) error {
	asked, err := askedDevice(last)
	if err == nil && device != "" && device != asked {
		err = compute.Errorf(compute.Conflict, "operation %s opens the volume already, and not for --device %s: ask again when it has ended", last.ID, device)
	}
	return err
}

// VolumeReport is how a host's volume is, and what was done to it last.
type VolumeReport struct {
	Host      durable.Host           `json:"host"`
	Volume    compute.SecureVolume   `json:"volume"`
	Open      bool                   `json:"open"` // as the ledger says
	Operation compute.OperationID    `json:"operation_id"`
	Kind      compute.OperationKind  `json:"kind"`
	State     compute.OperationState `json:"state"`
	Message   string                 `json:"message,omitempty"`
}

// LookAtVolume reads how the volume of a host is, by the host's name or uuid. NotFound: it has none.
func LookAtVolume(ctx context.Context, pool *pgxpool.Pool, host string) (out VolumeReport, err error) {
	err = fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		row, err := q.FindSecureVolume(ctx, host)
		if errors.Is(err, pgx.ErrNoRows) {
			return compute.Errorf(compute.NotFound, "host %s has no volume for its state", host)
		}
		if err != nil {
			return err
		}
		op, err := q.NewestVolumeOperation(ctx, row.ID.UUID)
		if err != nil {
			return err
		}
		out = VolumeReport{
			Host: durable.Host{ID: row.HostID, Name: row.HostName}, Volume: row.Volume(),
			Operation: op.ID, Kind: op.Kind, State: op.State, Message: op.Operation().Message,
		}
		has, err := q.ThingsOf(ctx, schema.ThingsOfParams{OwnerKind: compute.OwnerVolume, OwnerID: row.ID.UUID})
		for _, t := range has {
			out.Open = out.Open || t.Ledger.Kind == compute.ThingVolumeMount && t.Ledger.State == compute.ThingPresent
		}
		return err
	})
	return out, err
}
