package domain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"go.temporal.io/sdk/activity"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// backup is QEMU's job that copies a disk of a running domain into a file.
type backup struct {
	*Activities
	plan compute.ExportPlan
	path string // of the file
	dev  string // the disk in the domain
	lent []loan
}

func (a *Activities) newBackup(p compute.ExportPlan) (*backup, error) {
	b := &backup{Activities: a, plan: p, dev: strings.TrimPrefix(p.Disk.DeviceName, "/dev/")}
	if p.Target.Secret != nil {
		use := p.Server.String() + "_" + p.Disk.ID.String() + "_export"
		b.lent = []loan{{*p.Target.Secret, p.Target.Credential, libvirt.SecretUsageTypeVolume, use}}
	}
	var err error
	b.path, err = a.Exports.ExportDraft(p)
	return b, err
}

// run sees the copy through, from wherever it is.
func (b *backup) run(ctx context.Context, key *secret.Passphrase) error {
	target, err := b.target(ctx)
	if err != nil {
		return err
	}
	if _, lost := os.Stat(b.path); target != b.path || lost != nil {
		err = b.abort(ctx) // of another operation, which did not live to do it
		if err == nil {
			err = b.begin(ctx, key)
		}
	}
	// Also after a begin of an attempt that was killed in the middle of it.
	if took := b.takeBack(ctx, b.plan.Server, ids(b.lent)); err == nil {
		err = took
	}
	if err != nil {
		return err
	}
	return b.await(ctx)
}

// target is the file that a job of the domain writes to, "" when there is no job.
func (b *backup) target(ctx context.Context) (file string, err error) {
	err = b.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		doc, err := l.DomainBackupGetXMLDesc(b.domain(), 0)
		if isCode(err, libvirt.ErrNoDomainBackup) {
			return nil
		}
		if err != nil {
			return err
		}
		file, err = targetOf(doc)
		return err
	})
	return file, err
}

func (b *backup) domain() libvirt.Domain {
	return libvirt.Domain{UUID: libvirt.UUID(b.plan.Server.UUID), Name: compute.InstanceName(b.plan.Server)}
}

// begin makes an empty file and starts the job.
func (b *backup) begin(ctx context.Context, key *secret.Passphrase) error {
	var bytes uint64
	err := b.Client.Do(ctx, func(l *libvirt.Libvirt) (err error) {
		if err := mustRun(l, b.plan.Server); err != nil {
			return err
		}
		_, bytes, _, err = l.DomainGetBlockInfo(b.domain(), b.dev, 0)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.Exports.MakeExportDraft(ctx, b.plan, int64(bytes), key); err != nil {
		return err
	}
	doc, err := backupXML(b.plan, b.dev, b.path)
	if err != nil {
		return err
	}
	return b.Client.Finish(ctx, func(l *libvirt.Libvirt) error {
		for _, n := range b.lent {
			if err := b.Client.lend(ctx, l, n, key); err != nil {
				return err
			}
		}
		// What an earlier job left to be told is not to be taken for this one's.
		if _, _, err := l.DomainGetJobStats(b.domain(), libvirt.DomainJobStatsCompleted); err != nil {
			return err
		}
		return l.DomainBackupBegin(b.domain(), doc, nil, libvirt.DomainBackupBeginReuseExternal)
	})
}

func mustRun(l *libvirt.Libvirt, id compute.ServerID) error {
	dom, found, err := lookup(l, id)
	if err != nil {
		return err
	}
	state := compute.PowerNone
	if found {
		if state, err = power(l, dom); err != nil {
			return err
		}
	}
	if state != compute.PowerRunning && state != compute.PowerPaused {
		return compute.Errorf(compute.Conflict, "it does not run")
	}
	return nil
}

// await waits for the end of the job and says how it ended.
func (b *backup) await(ctx context.Context) error {
	var told time.Time
	for {
		p, over, err := b.look(ctx)
		if err != nil || over {
			return err
		}
		if activity.IsActivity(ctx) && p.Total > 0 && time.Since(told) >= progressEvery { // QEMU may not know yet how much there is
			told = time.Now()
			activity.RecordHeartbeat(ctx, p)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backupPoll):
		}
	}
}

// look says how far the job is, or that it is over. Its failure is the error.
func (b *backup) look(ctx context.Context) (p Progress, over bool, err error) {
	err = b.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		_, err := l.DomainBackupGetXMLDesc(b.domain(), 0)
		flags := libvirt.DomainGetJobStatsFlags(0)
		switch {
		case isCode(err, libvirt.ErrNoDomainBackup):
			over, flags = true, libvirt.DomainJobStatsCompleted
		case err != nil:
			return err
		}
		state, params, err := l.DomainGetJobStats(b.domain(), flags)
		if err != nil {
			return err
		}
		stats := numbers(params)
		p = Progress{Phase: "backup", Done: stats[libvirt.DomainJobDiskProcessed], Total: stats[libvirt.DomainJobDiskTotal]}
		if over && (libvirt.DomainJobType(state) != libvirt.DomainJobCompleted || stats[libvirt.DomainJobSuccess] != 1) {
			if err := mustRun(l, b.plan.Server); err != nil {
				return err
			}
			return brokeOff(params)
		}
		return nil
	})
	return p, over, err
}

// abort ensures that no job copies a disk of the domain.
func (b *backup) abort(ctx context.Context) error {
	for {
		file, err := b.target(ctx)
		if compute.Is(err, compute.NotFound) || err == nil && file == "" {
			return nil
		}
		if err != nil {
			return err
		}
		err = b.Client.Do(ctx, func(l *libvirt.Libvirt) error { return gone(l.DomainAbortJob(b.domain())) })
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backupPoll):
		}
	}
}

// backupXML asks for a full copy of one disk, whatever lies under it, into a file
// that is there.
func backupXML(p compute.ExportPlan, dev, file string) (string, error) {
	format := "raw"
	if p.Target.Format == compute.ImageQcow2 {
		format = "qcow2"
	}
	target := &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: file}}
	if p.Target.Secret != nil {
		target.Encryption = luks(*p.Target.Secret)
	}
	doc := libvirtxml.DomainBackup{Push: &libvirtxml.DomainBackupPush{Disks: &libvirtxml.DomainBackupPushDisks{
		Disks: []libvirtxml.DomainBackupPushDisk{{
			Name: dev, Backup: "yes", BackupMode: "full",
			Driver: &libvirtxml.DomainBackupDiskDriver{Type: format}, Target: target,
		}},
	}}}
	return doc.Marshal()
}

// targetOf gives the file that a job's document names.
func targetOf(doc string) (string, error) {
	var b libvirtxml.DomainBackup
	if err := b.Unmarshal(doc); err != nil {
		return "", err
	}
	if b.Push != nil && b.Push.Disks != nil {
		for _, d := range b.Push.Disks.Disks {
			if d.Target != nil && d.Target.File != nil && d.Target.File.File != "" {
				return filepath.Clean(d.Target.File.File), nil
			}
		}
	}
	return "unknown", nil
}

// brokeOff says why a job failed.
func brokeOff(params []libvirt.TypedParam) error {
	why := errors.New("libvirt does not say why")
	for _, p := range params {
		if said, ok := p.Value.I.(string); ok && p.Field == libvirt.DomainJobErrmsg {
			why = errors.New(said)
		}
	}
	k := compute.Unavailable
	if strings.Contains(why.Error(), "No space left on device") {
		k = compute.NoHost
	}
	return compute.Errorf(k, "the job broke off: %w", why)
}

// numbers reads the parameters that are numbers.
func numbers(params []libvirt.TypedParam) map[string]int64 {
	out := map[string]int64{}
	for _, p := range params {
		switch v := p.Value.I.(type) {
		case uint64:
			out[p.Field] = int64(v)
		case int64:
			out[p.Field] = v
		case int32:
			out[p.Field] = int64(v)
		case uint32:
			out[p.Field] = int64(v)
		}
	}
	return out
}
