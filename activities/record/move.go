package record

import (
	"context"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// The points of no return of what is decided on a server that was resized or migrated.
var (
	ConfirmResize = durable.Activity[DecideMoveInput, durable.None]{
		Name: "record.ConfirmResize", Queue: durable.RecordQueue,
		Summary: func(in DecideMoveInput) string { return stepSummary("decide that the move stays", in.Close, nil) },
	}
	RevertResize = durable.Activity[DecideMoveInput, durable.None]{
		Name: "record.RevertResize", Queue: durable.RecordQueue,
		Summary: func(in DecideMoveInput) string { return stepSummary("decide that the move is reverted", in.Close, nil) },
	}
)

// Migration is a move of the server to a host that has taken it.
type Migration struct {
	Type   string         `json:"type"` // resize, migration, live-migration, evacuation
	To     compute.HostID `json:"to"`
	Flavor string         `json:"flavor"` // its id
}

// The statuses of migrations.
const (
	migrationBegun     = "pre-migrating"
	migrationFinished  = "finished"
	migrationConfirmed = "confirmed"
	migrationReverted  = "reverted"
)

// migrating are the statuses of a migration by the task_state of its server.
var migrating = map[compute.TaskState]string{
	compute.TaskResizeMigrating: "migrating", compute.TaskResizeMigrated: "post-migrating", compute.TaskResizeFinish: "post-migrating",
	compute.TaskMigrating: liveRunning,
}

// deciding are the statuses of a migration while it is decided on.
var deciding = map[compute.OperationKind]string{compute.OpConfirmResize: "confirming", compute.OpRevertResize: "reverting"}

// writeMigration writes where the server is moved, and how far that is.
func (in AdvanceInput) writeMigration(ctx context.Context, q *schema.Queries) error {
	if m := in.Migration; m != nil {
		id, err := uuid.Parse(in.Operation.Derive("migration").String())
		if err != nil {
			return err
		}
		status := migrationBegun
		switch m.Type {
		case EvacuationType:
			status = evacuationAccepted
		case TypeLiveMigration:
			status = livePreparing
		}
		if err := q.PutMigration(ctx, schema.PutMigrationParams{
			UUID: id, Type: m.Type, Status: status, NewFlavor: m.Flavor, Destination: m.To, OperationID: in.Operation,
		}); err != nil {
			return err
		}
	}
	if in.Task == nil || migrating[*in.Task] == "" {
		return nil
	}
	return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: migrating[*in.Task], OperationID: in.Operation})
}

// Move is what a server is after a resize or a migration. What it was is kept (compute.Former).
type Move struct {
	To           compute.Server `json:"to"`
	DiskConfig   *string        `json:"disk_config,omitempty"`
	ConfirmAfter int            `json:"confirm_after"` // seconds; 0: nobody confirms it but its owner
	SharedTPM    bool           `json:"shared_tpm,omitempty"`
}

func (m Move) save(ctx context.Context, q *schema.Queries, in durable.OperationInput) error {
	row, err := q.GetServer(ctx, in.Server)
	if err != nil {
		return err
	}
	was, err := schema.LoadServer(ctx, q, in.Server)
	if err != nil {
		return err
	}
	var from string
	if was.Host != nil {
		if from, err = q.HostName(ctx, *was.Host); err != nil {
			return err
		}
	}
	former := was.FormerOf(in.Operation, from, row.DiskConfig)
	former.SharedTPM = m.SharedTPM
	write := schema.MoveServerParams{DiskConfig: m.DiskConfig, Former: &former}
	if m.ConfirmAfter > 0 {
		write.ConfirmSeconds = pointer(float64(m.ConfirmAfter))
	}
	if err := moveServer(ctx, q, in, m.To, write); err != nil {
		return err
	}
	if m.SharedTPM {
		if err := passTPM(ctx, q, in.Server, was.Host, m.To.Host); err != nil {
			return err
		}
	}
	return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: migrationFinished, OperationID: in.Operation})
}

// passTPM says that the state of a server's vTPM, on storage that two hosts share, is the other one's
// from here on: whoever removes what the first has leaves it alone.
func passTPM(ctx context.Context, q *schema.Queries, server compute.ServerID, from, to *compute.HostID) error {
	if from == nil || to == nil {
		return compute.Errorf(compute.Corrupt, "server %s moves between hosts, and one is not known", server)
	}
	return q.PassTPM(ctx, schema.PassTPMParams{ServerID: server.UUID, FromHost: from.UUID, ToHost: to.UUID})
}

// moveServer writes what a server is from here on.
func moveServer(ctx context.Context, q *schema.Queries, in durable.OperationInput, is compute.Server, row schema.MoveServerParams) error {
	row.ID, row.OperationID, row.Flavor, row.HostID = in.Server, in.Operation, is.Flavor, is.Host
	row.RequiredTraits, row.ForbiddenTraits, row.TPM = is.Traits, is.Forbidden, is.TPM.WithoutSecret()
	if row.RequiredTraits == nil {
		row.RequiredTraits = []string{}
	}
	if row.ForbiddenTraits == nil {
		row.ForbiddenTraits = []string{}
	}
	if _, err := q.MoveServer(ctx, row); err != nil {
		return err
	}
	if err := noteEndorsement(ctx, q, in, false); err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(is.Disks))
	for i, d := range is.Disks {
		ids[i] = d.ID.UUID
	}
	if err := q.DeleteOtherDisks(ctx, schema.DeleteOtherDisksParams{ServerID: in.Server, Ids: ids}); err != nil {
		return err
	}
	for _, d := range is.Disks {
		if err := putDisk(ctx, q, in.Server, d); err != nil {
			return err
		}
	}
	if err := q.DecideKept(ctx, in.Server.UUID); err != nil {
		return err
	}
	if err := setUnbooted(ctx, q, in.Server, is.Unbooted()); err != nil {
		return err
	}
	if err := setNewTPM(ctx, q, in.Server, is.HasNewTPM()); err != nil {
		return err
	}
	return setTPMSecret(ctx, q, in.Server, is.TPM)
}

func putDisk(ctx context.Context, q *schema.Queries, server compute.ServerID, d compute.Disk) error {
	options, err := optionsText(d.EncryptionOptions)
	if err != nil {
		return err
	}
	return q.PutServerDisk(ctx, schema.PutServerDiskParams{
		ID: d.ID, ServerID: server, Role: d.Role, Index: int32(d.Index), DeviceName: d.DeviceName, Bus: d.Bus, SizeMB: d.SizeMB,
		BootIndex: int32(d.BootIndex), GuestFormat: d.GuestFormat, ImageID: d.Image, Source: d.Source, File: d.File, Encrypted: d.Encrypted,
		EncryptionSecret: d.Secret, BackingEncryptionSecret: d.BackingSecret, EncryptionFormat: d.Format, EncryptionOptions: options, Whole: d.Whole,
	})
}

func setUnbooted(ctx context.Context, q *schema.Queries, server compute.ServerID, unbooted bool) error {
	if unbooted {
		return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: server, Key: compute.SystemUnbooted, Value: "yes"})
	}
	return q.DeleteSystemMetadata(ctx, schema.DeleteSystemMetadataParams{ServerID: server, Key: compute.SystemUnbooted})
}

// DecideMoveInput names a server that was resized or migrated.
type DecideMoveInput struct {
	durable.OperationInput
	Close *Close `json:"close,omitempty"`
}

// ConfirmResize is the activity record.ConfirmResize: from here on the server cannot be
// reverted, and what it was is not needed any more; the claim on it is given back. Running
// again after it took effect is a success. Conflict: a revert failed and the state of the vTPM is still to be put back.
func (a *Activities) ConfirmResize(ctx context.Context, in DecideMoveInput) error {
	return a.decideMove(ctx, in, func(q *schema.Queries, is compute.Server) error {
		if err := schema.HasTPMBack(ctx, q, in.Server); err != nil {
			return err
		}
		if err := q.DeleteOtherClaims(ctx, schema.DeleteOtherClaimsParams{ServerID: in.Server, OperationID: is.Former.Operation}); err != nil {
			return err
		}
		if err := q.DecideKept(ctx, in.Server.UUID); err != nil {
			return err
		}
		if err := forgetTPMBackup(ctx, q, in.Server); err != nil {
			return err
		}
		if _, err := q.ForgetFormer(ctx, schema.ForgetFormerParams{ID: in.Server, OperationID: in.Operation}); err != nil {
			return err
		}
		return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: migrationConfirmed, OperationID: is.Former.Operation})
	})
}

// RevertResize is the activity record.RevertResize: from here on the server is what it was.
// What it had become is still there. Running again after it took effect is a success.
func (a *Activities) RevertResize(ctx context.Context, in DecideMoveInput) error {
	return a.decideMove(ctx, in, func(q *schema.Queries, is compute.Server) error {
		if err := q.DeleteClaimOf(ctx, schema.DeleteClaimOfParams{ServerID: in.Server, OperationID: is.Former.Operation}); err != nil {
			return err
		}
		if err := moveServer(ctx, q, in.OperationInput, is.Before(), schema.MoveServerParams{DiskConfig: &is.Former.DiskConfig}); err != nil {
			return err
		}
		if is.Former.SharedTPM {
			if err := passTPM(ctx, q, in.Server, is.Host, &is.Former.Host); err != nil {
				return err
			}
		}
		return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: migrationReverted, OperationID: is.Former.Operation})
	})
}

func (a *Activities) decideMove(ctx context.Context, in DecideMoveInput, do func(*schema.Queries, compute.Server) error) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		row, err := q.GetServer(ctx, in.Server)
		return row.Former == nil, err
	}
	d.do = func(q *schema.Queries) error {
		is, err := schema.LoadServer(ctx, q, in.Server)
		if err != nil || is.Former == nil { // an earlier attempt decided
			return err
		}
		return do(q, is)
	}
	return a.decide(ctx, d)
}
