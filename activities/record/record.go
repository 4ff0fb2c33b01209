package record

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/legacy"
	"strongroom/activities/notification"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Activities are the local activities on operations and servers.
type Activities struct {
	Pool   *pgxpool.Pool
	Legacy compute.DMCrypt // of disks with a legacy key; default compute.DefaultLegacyEncryption
	// TPMBackupInterval is how often the state of a server's vTPM is backed up; 0: never.
	TPMBackupInterval time.Duration
	// Notifications tells of operations; nil: nobody is told.
	Notifications *notification.Writer

	unpurged unpurged
}

// Register registers the activities under their names.
func (a *Activities) Register(r durable.Registry) {
	Begin.Register(r, a.Begin)
	BeginVolume.Register(r, a.BeginVolume)
	SetVolume.Register(r, durable.NoResult(a.SetVolume))
	Advance.Register(r, a.Advance)
	ClearSecrets.Register(r, durable.NoResult(a.ClearSecrets))
	ClearPorts.Register(r, durable.NoResult(a.ClearPorts))
	DropPort.Register(r, durable.NoResult(a.DropPort))
	Settle.Register(r, durable.NoResult(a.Settle))
	FinishDelete.Register(r, durable.NoResult(a.FinishDelete))
	HandOver.Register(r, durable.NoResult(a.HandOver))
	Rebuild.Register(r, durable.NoResult(a.Rebuild))
	Rotate.Register(r, durable.NoResult(a.Rotate))
	Unrescue.Register(r, durable.NoResult(a.Unrescue))
	Shelve.Register(r, durable.NoResult(a.Shelve))
	Unshelve.Register(r, durable.NoResult(a.Unshelve))
	ConfirmResize.Register(r, durable.NoResult(a.ConfirmResize))
	RevertResize.Register(r, durable.NoResult(a.RevertResize))
	LeaveHost.Register(r, durable.NoResult(a.LeaveHost))
	Evacuate.Register(r, durable.NoResult(a.Evacuate))
	TPMBackup.Register(r, durable.NoResult(a.TPMBackup))
	LiveMigrated.Register(r, durable.NoResult(a.LiveMigrated))
	NoteFenced.Register(r, durable.NoResult(a.NoteFenced))
	UseSecret.Register(r, durable.NoResult(a.UseSecret))
	ForgetTrust.Register(r, durable.NoResult(a.ForgetTrust))
}

func (a *Activities) legacyKeys() legacy.Keys { return legacy.Keys{Pool: a.Pool, Encryption: a.Legacy} }

// Superseded is the error of a write by an operation that has lost its server.
func Superseded() error { return fence.Superseded() }

// IsSuperseded reports whether err says that the operation lost its server.
func IsSuperseded(err error) bool {
	e := durable.FromTemporal(err)
	return e != nil && e.Kind == compute.Superseded
}

func (a *Activities) transaction(ctx context.Context, do func(*schema.Queries) error) error {
	return fence.Transaction(ctx, a.Pool, do)
}

// optionsText is a disk's encryption options as its row has them.
func optionsText(options map[string]string) (string, error) {
	if len(options) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(options)
	return string(text), err
}

func parseDisk(text string) (compute.DiskID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return compute.DiskID{}, compute.Errorf(compute.Invalid, "%q is no disk id", text)
	}
	return compute.DiskID{UUID: id}, nil
}

func pointer[T any](v T) *T { return &v }
