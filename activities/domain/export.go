package domain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// ExportInput asks for a copy of a disk of a running server, as the disk was at
// one point in time. The target's secret is lent to libvirt as those of a start
// are, and taken back as soon as QEMU has it.
type ExportInput struct {
	Server    compute.ServerID     `json:"server"`
	Operation compute.OperationID  `json:"operation"` // names the folder of the copy
	Disk      compute.Disk         `json:"disk"`
	Target    compute.ExportTarget `json:"target"`
}

// AbortExportInput asks that QEMU copies no disk of a server and that libvirt
// knows no secret for it.
type AbortExportInput struct {
	Server  compute.ServerID   `json:"server"`
	Secrets []compute.SecretID `json:"secrets,omitempty"`
}

// Exports are the files that a host's disks are copied into. Each method takes the
// whole plan; who works on one holds its lock.
type Exports interface {
	// AllowExport refuses what cannot be made of the disk where it is.
	AllowExport(ctx context.Context, p compute.ExportPlan) error
	LockExport(ctx context.Context, p compute.ExportPlan) (unlock func(), err error)
	// FindExport gives an export that is whole, if there is one.
	FindExport(ctx context.Context, p compute.ExportPlan, key *secret.Passphrase) (done compute.Export, found bool, err error)
	// ExportDraft is the path at which an export is made.
	ExportDraft(p compute.ExportPlan) (string, error)
	// MakeExportDraft makes the file, empty, for a disk of so many bytes.
	MakeExportDraft(ctx context.Context, p compute.ExportPlan, bytes int64, key *secret.Passphrase) error
	// KeepExport gives the file its name and says what it is.
	KeepExport(ctx context.Context, p compute.ExportPlan) (compute.Export, error)
}

// Export is the activity domain.Export: it ensures that the operation's folder has
// a copy of a running server's disk that leans on no other file.
//
// QEMU's backup job makes it: the copy is the disk as it was when the job began,
// for what the guest overwrites is copied first. The target has a LUKS header of
// its own, also with the same passphrase. A job that an attempt before began is
// gone on with. Whatever comes of it libvirt is left with no secret; when the
// activity was cancelled, or failed, also with no job.
//
// Conflict: the server does not run, so that its disk can be copied at rest, or it
// stopped meanwhile, or its disk cannot have such a copy (EE-21); otherwise as
// disk.Export.
func (a *Activities) Export(ctx context.Context, in ExportInput) (compute.Export, error) {
	plan := compute.ExportPlan{Server: in.Server, Operation: in.Operation, Disk: in.Disk, Target: in.Target}
	if err := a.Exports.AllowExport(ctx, plan); err != nil {
		return compute.Export{}, err
	}
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return compute.Export{}, err
	}
	defer unlock()
	unlockFile, err := a.Exports.LockExport(ctx, plan)
	if err != nil {
		return compute.Export{}, err
	}
	defer unlockFile()
	var key *secret.Passphrase
	if in.Target.Secret != nil {
		if key, err = a.Keys.Passphrase(ctx, in.Target.Credential, *in.Target.Secret); err != nil {
			return compute.Export{}, err
		}
		defer key.Wipe()
	}
	if done, found, err := a.Exports.FindExport(ctx, plan, key); err != nil || found {
		return done, err
	}
	b, err := a.newBackup(plan)
	if err != nil {
		return compute.Export{}, err
	}
	if err := b.run(ctx, key); err != nil {
		return compute.Export{}, b.giveUp(ctx, err)
	}
	done, err := a.Exports.KeepExport(ctx, plan)
	if err == nil {
		a.Logger.InfoContext(ctx, "exported disk of a running server", "server", in.Server, "disk", in.Disk.ID, "format", done.Format, "bytes", done.Bytes)
	}
	return done, err
}

// giveUp ends a copy that failed. Only a worker that stops leaves the job to its
// successor.
func (b *backup) giveUp(ctx context.Context, failure error) error {
	stops := activity.IsActivity(ctx) && ctx.Err() != nil && !temporal.IsCanceledError(context.Cause(ctx))
	if stops {
		return ctx.Err()
	}
	aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	if err := b.abort(aside); err != nil {
		b.Logger.WarnContext(ctx, "QEMU may still copy a disk", "server", b.plan.Server, "error", err)
	} else {
		os.Remove(b.path)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return exportFailure(b.plan, failure)
}

// AbortExport is the activity domain.AbortExport, the undo of Export beside the removal
// of what it wrote (disk.Remove).
func (a *Activities) AbortExport(ctx context.Context, in AbortExportInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	b := backup{Activities: a, plan: compute.ExportPlan{Server: in.Server}}
	if err := errors.Join(b.abort(ctx), a.takeBack(ctx, in.Server, in.Secrets)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return compute.Errorf(kind(err), "server %s: end of the copy of a disk: %w", in.Server, err)
	}
	return nil
}

// EndCopy ensures that no job copies a disk of a server into a folder: its operation may
// have ended while the host did not answer. A job of another operation goes on.
func (a *Activities) EndCopy(ctx context.Context, server compute.ServerID, folder string) error {
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	b := backup{Activities: a, plan: compute.ExportPlan{Server: server}}
	file, err := b.target(ctx)
	if err == nil && filepath.Dir(file) == filepath.Clean(folder) {
		err = b.abort(ctx)
	}
	if err == nil || compute.Is(err, compute.NotFound) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return compute.Errorf(kind(err), "server %s: end of the copy of a disk: %w", server, err)
}

// exportFailure gives a failed copy its kind.
func exportFailure(p compute.ExportPlan, err error) error {
	k := kind(err)
	if isCode(err, libvirt.ErrOperationInvalid) || isCode(err, libvirt.ErrNoDomain) {
		k = compute.Conflict
	}
	return compute.Errorf(k, "copy of disk %s of server %s: %w", p.Disk.ID, p.Server, err)
}

// backupPoll is how often a copy is looked at.
const backupPoll = 250 * time.Millisecond
