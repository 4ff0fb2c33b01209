package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/worker/pki"
)

type hostSecureState struct {
	output
	Host    string        `arg:"" name:"host" help:"Its name or uuid."`
	Do      string        `arg:"" name:"do" default:"status" enum:"open,close,rotate,status" help:"open, close, rotate or status."`
	Device  string        `help:"open: the volume's path on the host, /dev/disk/by-id/… say. Without it: as it was."`
	Wait    bool          `default:"true" negatable:"" help:"Wait until the operation has ended."`
	Timeout time.Duration `default:"10m" help:"How long to wait. The operation goes on after it."`
}

// Help is shown by --help.
func (hostSecureState) Help() string {
	return `The folders of a compute host that servers have, and its image cache, can lie on an
encrypted volume (host.secure_state). Its key is in the key manager, in strongroom's own
project, and on no host. Each of these is an operation of its own:

  open     a new device, all of zeroes, that --device names is formatted; one that was
           opened before is opened with its key. From then on the host's worker has it
           opened whenever it starts, before it takes anything else. An empty disk that
           is there in its place then is refused
  close    refused while guests run or something has files of it open. The host's
           worker ends and, started again, waits for "open"
  rotate   a new key, also while it is open. It may be interrupted: the volume opens
           with one of the two keys, and "rotate" goes on with the same one
  status   what the record has of it

  strongroom host secure-state compute1 open --device /dev/disk/by-id/nvme-1
  strongroom host secure-state compute1

Exit code 0: it is done; 1: it was refused, or could not be done.`
}

func (c hostSecureState) Run(r *run) error {
	b, err := r.openBackends(pki.Control, durable.DialLazily)
	if err != nil {
		return err
	}
	defer b.close()
	if c.Do == "status" {
		is, err := record.LookAtVolume(r, b.pool, c.Host)
		if err != nil {
			return err
		}
		return c.report(is)
	}
	kind := map[string]compute.OperationKind{
		"open": compute.OpSecureVolumeOpen, "close": compute.OpSecureVolumeClose, "rotate": compute.OpSecureVolumeRotateKey,
	}[c.Do]
	if c.Device != "" && kind != compute.OpSecureVolumeOpen {
		return errors.New("--device is for open")
	}
	row, err := schema.New(b.pool).CertifiedHost(r, c.Host)
	if errors.Is(err, pgx.ErrNoRows) {
		return compute.Errorf(compute.NotFound, "there is no host %s with a certificate that is good: was it enrolled, or revoked?", c.Host)
	}
	if err != nil {
		return err
	}
	op, begun, err := record.AskVolume(r, b.pool, durable.Host{ID: row.HostID, Name: row.HostName}, kind, c.Device)
	if err != nil {
		return err
	}
	if !begun {
		fmt.Fprintf(os.Stderr, "host %s: %s is under way already (%s)\n", row.HostName, c.Do, op.ID)
	}
	// What is not started now is by a control worker.
	launcher := outbox.Launcher{Starter: durable.Starter{Client: b.temporal}, Logger: r.log}
	launcher.Launch(r, []compute.Operation{op})
	launcher.Wait(r)
	if c.Wait {
		if op, err = c.await(r, b.pool, op.ID); err != nil {
			return err
		}
	}
	is, err := record.LookAtVolume(r, b.pool, c.Host)
	if err == nil {
		err = c.report(is)
	}
	if op.State == compute.OperationFailed || op.State == compute.OperationCancelled { // of a first open there may be no volume any more
		return fmt.Errorf("host %s: %s", row.HostName, op.Message)
	}
	return err
}

// await waits for the end of an operation.
func (c hostSecureState) await(ctx context.Context, pool *pgxpool.Pool, id compute.OperationID) (compute.Operation, error) {
	var op compute.Operation
	inTime, err := poll(ctx, c.Timeout, func(ctx context.Context) (bool, error) {
		row, err := schema.New(pool).GetOperation(ctx, id)
		op = row.Operation()
		return row.State.Settled(), err
	})
	if !inTime {
		return compute.Operation{}, fmt.Errorf("host %s: gave up waiting; the operation goes on", c.Host)
	}
	return op, err
}

func (c hostSecureState) report(is record.VolumeReport) error {
	state := "closed"
	if is.Open {
		state = "open"
	}
	if is.Volume.Next != nil {
		state += ", its key is being changed"
	}
	return c.print(is, func(w *sheet) {
		w.header("HOST", "DEVICE", "STATE", "LAST OPERATION", "RESULT")
		w.row(is.Host.Name, is.Volume.Device, state, fmt.Sprintf("%s (%s)", is.Kind, is.Operation), string(is.State)+" "+is.Message)
	})
}
