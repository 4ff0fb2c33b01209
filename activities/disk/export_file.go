package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// exportFile is where an export lies: <server>/export.<operation>/<disk>.<boot>.<format>.
//
// The file is needed until it is uploaded, and is not forced onto the disk: that
// would often take longer than to write it. So its name holds the host's boot. A
// file of an earlier boot may have lost what was not yet written when the host
// went down, and does not count.
type exportFile struct {
	folder string
	final  string
	draft  string // while it is made
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// boot names the host's present boot.
func boot() (string, error) {
	id, err := os.ReadFile(bootIDFile)
	if err != nil || len(id) < 8 {
		return "", compute.Errorf(compute.Unavailable, "the host's boot id: %w", err)
	}
	return string(id[:8]), nil
}

// exportFile checks a plan and gives its places.
func (a *Activities) exportFile(p compute.ExportPlan) (exportFile, error) {
	dir, err := a.serverDir(p.Server)
	if err != nil {
		return exportFile{}, err
	}
	if err := p.Target.Check(p.Disk); err != nil {
		return exportFile{}, err
	}
	folder := compute.ExportFolder(p.Operation)
	if !fileName.MatchString(folder) || p.Operation == "" {
		return exportFile{}, compute.Errorf(compute.Invalid, "disk %s: an export of no operation", p.Disk.ID)
	}
	now, err := boot()
	if err != nil {
		return exportFile{}, err
	}
	x := exportFile{folder: filepath.Join(dir, folder)}
	x.final = filepath.Join(x.folder, p.Disk.Name()+"."+now+"."+p.Target.Format)
	x.draft = hidden(x.final, ".new")
	return x, nil
}

func (x exportFile) discard() { os.Remove(x.draft) }

// LockExport lets one attempt at a time work on what an operation exports of a
// server, and makes the folder for it. Corrupt: the server has no disks here.
func (a *Activities) LockExport(ctx context.Context, p compute.ExportPlan) (unlock func(), err error) {
	x, err := a.exportFile(p)
	if err != nil {
		return nil, err
	}
	unlock, err = lockFile(ctx, x.folder, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, compute.Errorf(compute.Corrupt, "server %s has no disks on this host", p.Server)
	case err != nil:
		return nil, failed(ctx, err, "server %s: lock of an export", p.Server)
	}
	// QEMU's user must get through to the file that a live copy is written to.
	if err := os.Mkdir(x.folder, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		unlock()
		return nil, failed(ctx, err, "server %s: folder of an export", p.Server)
	}
	return unlock, nil
}

// FindExport gives an export that is whole, if there is one, and sees that its
// key opens it. The caller holds the lock.
func (a *Activities) FindExport(ctx context.Context, p compute.ExportPlan, key *secret.Passphrase) (done compute.Export, found bool, err error) {
	x, err := a.exportFile(p)
	if err != nil {
		return done, false, err
	}
	if _, err := os.Stat(x.final); errors.Is(err, fs.ErrNotExist) {
		return done, false, nil
	}
	i, err := a.idle(ctx, x.final, p.Target.Format)
	if err == nil && key != nil {
		err = a.exportOpens(ctx, x.final, p.Target.Format, key)
	}
	if says(err, "Invalid password") {
		return done, false, compute.Errorf(compute.Conflict, "disk %s was exported under another key than secret %s", p.Disk.ID, p.Target.Secret)
	}
	if err == nil {
		done, err = x.describe(p, i)
	}
	if err != nil {
		return done, false, failed(ctx, err, "copy of disk %s", p.Disk.ID)
	}
	return done, true, nil
}

// exportOpens tries a key on an export.
func (a *Activities) exportOpens(ctx context.Context, path, format string, key *secret.Passphrase) error {
	if format != compute.ImageLUKS {
		return a.opens(ctx, path, key)
	}
	var c Command
	c.lend("key", key)
	return a.reads(ctx, c, luksNode(path, "key"))
}

// ExportDraft is the path at which an export is made.
func (a *Activities) ExportDraft(p compute.ExportPlan) (string, error) {
	x, err := a.exportFile(p)
	return x.draft, err
}

// MakeExportDraft makes an export's file with nothing in it yet, for a disk of so
// many bytes, in place of what an attempt before left. It has a LUKS header with a
// master key of its own, which key opens; nil: it is not encrypted. The caller
// holds the lock.
func (a *Activities) MakeExportDraft(ctx context.Context, p compute.ExportPlan, bytes int64, key *secret.Passphrase) error {
	x, err := a.exportFile(p)
	if err != nil {
		return err
	}
	if err := x.clear(p.Disk); err != nil {
		return failed(ctx, err, "copy of disk %s", p.Disk.ID)
	}
	want := newDisk{path: x.draft, bytes: bytes, passphrase: key}
	switch {
	case p.Target.Format == compute.ImageQcow2 && key != nil:
		err = a.copyTemplate(ctx, want)
	case p.Target.Format == compute.ImageQcow2:
		if err = a.createFile(ctx, want); err == nil {
			err = os.Chmod(x.draft, 0o600)
		}
	default:
		err = makeRaw(want)
	}
	if err != nil {
		return failed(ctx, err, "copy of disk %s", p.Disk.ID)
	}
	return nil
}

// clear removes what earlier attempts, and earlier boots, left of a disk's export.
func (x exportFile) clear(d compute.Disk) error {
	ofDisk := regexp.MustCompile(`^\.?` + regexp.QuoteMeta(d.Name()) + `\.[0-9a-f]{8}\.`)
	entries, err := os.ReadDir(x.folder)
	for _, e := range entries {
		if ofDisk.MatchString(e.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(x.folder, e.Name())))
		}
	}
	return err
}

// makeRaw makes a file of raw bytes, in a LUKS container if it has a passphrase.
func makeRaw(want newDisk) error {
	f, err := os.OpenFile(want.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	bytes := want.bytes
	if want.passphrase != nil {
		bytes += luks.Bytes
		err = want.passphrase.Use(func(value []byte) error { return luks.Write(f, 0, value) })
	}
	return errors.Join(err, f.Truncate(bytes), f.Close())
}

// KeepExport gives an export that QEMU made for libvirt its name, and says what it
// is. The caller holds the lock.
func (a *Activities) KeepExport(ctx context.Context, p compute.ExportPlan) (compute.Export, error) {
	x, err := a.exportFile(p)
	if err != nil {
		return compute.Export{}, err
	}
	i, err := a.letGo(ctx, x.draft, p.Target.Format)
	var done compute.Export
	if err == nil {
		done, err = x.keep(p, i)
	}
	if err != nil {
		return done, failed(ctx, err, "copy of disk %s", p.Disk.ID)
	}
	return done, nil
}

// keep gives an export that was made its name.
func (x exportFile) keep(p compute.ExportPlan, i imageInfo) (compute.Export, error) {
	if err := os.Rename(x.draft, x.final); err != nil {
		return compute.Export{}, err
	}
	return x.describe(p, i)
}

// describe says what a whole export is.
func (x exportFile) describe(p compute.ExportPlan, i imageInfo) (compute.Export, error) {
	file, err := os.Stat(x.final)
	if err != nil {
		return compute.Export{}, err
	}
	if i.Encrypted != (p.Target.Secret != nil) || i.BackingFilename != "" {
		return compute.Export{}, compute.Errorf(compute.Corrupt, "it is encrypted: %t, its backing file is %q", i.Encrypted, i.BackingFilename)
	}
	return compute.Export{
		File: x.name(), Format: p.Target.Format, VirtualBytes: i.VirtualSize, Bytes: file.Size(), EncryptionOptions: i.usedOptions(),
	}, nil
}

var exportName = regexp.MustCompile(`^[0-9a-f-]{36}/export\.[a-z0-9.-]+/[a-z0-9][a-z0-9.-]*\.([0-9a-f]{8})\.[a-z0-9]+$`)

// OpenExport opens an export by compute.Export.File. NotFound: it is not there;
// Conflict: the host was restarted since it was made, and it must be made anew.
func (a *Activities) OpenExport(file string) (*os.File, error) {
	name := exportName.FindStringSubmatch(file)
	if name == nil {
		return nil, compute.Errorf(compute.Invalid, "%q is no export", file)
	}
	now, err := boot()
	if err != nil {
		return nil, err
	}
	if name[1] != now {
		return nil, compute.Errorf(compute.Conflict, "the host was restarted since %s was made", file)
	}
	f, err := os.Open(filepath.Join(a.InstancesDir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.Errorf(compute.NotFound, "export %s is not on this host", file)
	}
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "export %s: %w", file, err)
	}
	return f, nil
}
