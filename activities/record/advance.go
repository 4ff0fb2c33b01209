package record

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Advance is the one write between two steps of an operation (C7).
var Advance = durable.Activity[AdvanceInput, AdvanceResult]{
	Name: "record.Advance", Queue: durable.RecordQueue, Summary: AdvanceInput.summary,
}

// AdvanceInput is what to write: all of it in one transaction. Close is always written,
// also when the rest is refused because another operation has taken over the server.
type AdvanceInput struct {
	durable.OperationInput
	Close   *Close   `json:"close,omitempty"` // the step before
	Secrets *Secrets `json:"secrets,omitempty"`
	Options []Option `json:"options,omitempty"`
	Trust   *Trust   `json:"trust,omitempty"`
	// Networks are the server's interfaces from here on, with their ports; nil: as before.
	Networks []compute.Network  `json:"networks,omitempty"`
	Task     *compute.TaskState `json:"task,omitempty"`
	// Migration is where the server is moved.
	Migration *Migration `json:"migration,omitempty"`
	Open      *Open      `json:"open,omitempty"` // the step that comes
	// Unfenced: also written after another operation has taken over the server. For undos,
	// and for steps after the point of no return.
	Unfenced bool `json:"unfenced,omitempty"`
}

// AdvanceResult says what the step that was opened should know.
type AdvanceResult struct {
	// HostDown: Open.Host is forced down, forgotten or unknown. Nothing is to be tried there.
	HostDown bool `json:"host_down,omitempty"`
	// HostStale: Open.Host has not reported itself for compute.HostTimeout. It may be away.
	// After an outage of the database no host has, so what is to be done there must be tried.
	HostStale bool `json:"host_stale,omitempty"`
}

// Secrets are the ids of the secrets of a server's disks and vTPM, never their values.
type Secrets struct {
	Disks   map[string]compute.SecretID `json:"disks,omitempty"`   // by disk id
	Sources map[string]compute.SecretID `json:"sources,omitempty"` // of their encrypted backing images, by disk id (EE-11)
	TPM     *compute.SecretID           `json:"tpm,omitempty"`
}

// Option is how a disk was really encrypted (EE-08), and whether it has all of its image's data in itself.
type Option struct {
	Disk    compute.DiskID     `json:"disk"`
	Format  compute.DiskFormat `json:"format"`
	Options map[string]string  `json:"options"`
	Whole   bool               `json:"whole,omitempty"`
}

// Trust is the Keystone trust that the server's delegated credential refers to from here on.
type Trust struct {
	Delegated compute.Credential `json:"delegated"`
	Trust     string             `json:"trust"` // its id; only strongroom's own user can use it
}

func (in AdvanceInput) summary() string {
	var parts []string
	for _, part := range []struct {
		is   bool
		text func() string
	}{
		{in.Close != nil, func() string { return "close " + in.Close.Event }},
		{in.Secrets != nil, func() string { return "save ids of secrets" }},
		{len(in.Options) > 0, func() string { return "save encryption options" }},
		{in.Trust != nil, func() string { return "save the trust" }},
		{in.Networks != nil, func() string { return "save the ports" }},
		{in.Migration != nil, func() string { return "save the migration" }},
		{in.Task != nil, func() string { return "set task " + string(*in.Task) }},
		{in.Open != nil, func() string { return "open " + in.Open.Event }},
	} {
		if part.is {
			parts = append(parts, part.text())
		}
	}
	return strings.Join(parts, ", ")
}

// Advance is the activity record.Advance. Superseded: nothing but Close was written.
func (a *Activities) Advance(ctx context.Context, in AdvanceInput) (AdvanceResult, error) {
	var out AdvanceResult
	write := func(q *schema.Queries) error {
		if err := closeStep(ctx, q, in.Operation, in.Close); err != nil {
			return err
		}
		if err := in.writeServer(ctx, q); err != nil {
			return err
		}
		if err := openStep(ctx, q, in.Operation, in.Open); err != nil || in.Open == nil || in.Open.Host == nil {
			return err
		}
		var err error
		out, err = hostCondition(ctx, q, in.Open.Host.ID)
		return err
	}
	err := a.closing(ctx, in.Operation, in.Close, func() error {
		if in.Unfenced || in.closesOnly() {
			return a.transaction(ctx, write)
		}
		return fence.Owned(ctx, a.Pool, in.Operation, in.Server, write)
	})
	return out, err
}

// closesOnly reports whether there is nothing to refuse.
func (in AdvanceInput) closesOnly() bool {
	return in.Secrets == nil && len(in.Options) == 0 && in.Trust == nil && in.Networks == nil && in.Migration == nil && in.Task == nil && in.Open == nil
}

// writeServer writes what a step changed of the server.
func (in AdvanceInput) writeServer(ctx context.Context, q *schema.Queries) error {
	if in.Secrets != nil {
		if err := saveSecrets(ctx, q, in.Server, *in.Secrets); err != nil {
			return err
		}
	}
	for _, o := range in.Options {
		text, err := optionsText(o.Options)
		if err != nil {
			return err
		}
		if err := q.SetDiskOptions(ctx, schema.SetDiskOptionsParams{ID: o.Disk, EncryptionFormat: o.Format, EncryptionOptions: text, Whole: o.Whole}); err != nil {
			return err
		}
	}
	if t := in.Trust; t != nil {
		if err := q.SaveTrust(ctx, schema.SaveTrustParams{
			ID: t.Delegated.ID, ProjectID: t.Delegated.ProjectID, UserID: t.Delegated.UserID, TrustID: &t.Trust,
		}); err != nil {
			return err
		}
	}
	if err := savePorts(ctx, q, in.Server, in.Networks); err != nil {
		return err
	}
	if err := in.writeMigration(ctx, q); err != nil || in.Task == nil {
		return err
	}
	_, err := q.SetServerTask(ctx, schema.SetServerTaskParams{ID: in.Server, CurrentOperation: in.Operation, TaskState: *in.Task})
	return err
}

func hostCondition(ctx context.Context, q *schema.Queries, host compute.HostID) (AdvanceResult, error) {
	is, err := q.HostCondition(ctx, schema.HostConditionParams{ID: host, HostTimeout: compute.HostTimeout.Seconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return AdvanceResult{HostDown: true}, nil
	}
	return AdvanceResult{HostDown: is.Down, HostStale: is.Stale}, err
}
