package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/compute/metadata"
	"strongroom/schema"
)

// Records is what one host may have written of itself and its servers.
type Records struct {
	Pool   *pgxpool.Pool
	Host   compute.HostID
	Name   string
	Logger *slog.Logger
}

// Report writes the host's row. Invalid: it says an encryption format that there is none of, or what CheckNetworks or CheckTexts refuses. Conflict: it came
// late, after another one that the host sent later. It would undo what that said, that its lease was released, say.
func (r Records) Report(ctx context.Context, report HostReport) error {
	if err := compute.CheckFenceAfter(int(report.FenceAfter)); err != nil {
		return fmt.Errorf("host.fence_after: %w", err)
	}
	if err := compute.CheckNetworks(report.Networks, report.NetworkProjects); err != nil {
		return err
	}
	texts := []string{
		report.Address, report.AgentURL, report.HypervisorType, report.AvailabilityZone, report.Uptime, report.Release, report.BootID, report.TPMStorage, report.DiskStorage,
	}
	if err := compute.CheckTexts(texts, report.Traits, report.CPUInfo); err != nil {
		return err
	}
	report.ID, report.Name = r.Host, r.Name
	if report.Traits == nil {
		report.Traits = []string{}
	}
	if report.NetworkProjects == nil {
		report.NetworkProjects = map[string][]string{}
	}
	if report.Networks == nil {
		report.Networks = []string{}
	}
	if report.DefaultFormat != compute.FormatNone {
		format, err := compute.ParseDiskFormat(string(report.DefaultFormat))
		if err != nil {
			return err
		}
		report.DefaultFormat = format
	}
	taken, err := schema.New(r.Pool).ReportHost(ctx, schema.ReportHostParams(report))
	if err == nil && taken == 0 {
		return compute.Errorf(compute.Conflict, "host %s has sent a later report (than that with the number %d)", r.Name, report.ReportNumber)
	}
	return unavailable(err)
}

// Seen notes that the host runs, and gives its servers on which no operation works.
func (r Records) Seen(ctx context.Context) ([]AtRest, error) {
	if _, err := schema.New(r.Pool).SeeHost(ctx, r.Host); err != nil {
		return nil, unavailable(err)
	}
	rows, err := schema.New(r.Pool).ServersAtRest(ctx, &r.Host)
	if err != nil {
		return nil, unavailable(err)
	}
	out := make([]AtRest, len(rows))
	for i, row := range rows {
		out[i] = AtRest{Server: row.ID, VMState: row.VMState, PowerState: row.PowerState, UpdatedAt: row.UpdatedAt}
	}
	return out, nil
}

// SyncPower records what the hypervisor shows of servers, unless they are not at rest as
// they were any more. Those that went off with their host are to be started again, where the
// host is set to do that (TPM-15).
func (r Records) SyncPower(ctx context.Context, found []FoundPower) error {
	boot, err := schema.New(r.Pool).HostBoot(ctx, r.Host)
	if err != nil {
		return unavailable(err)
	}
	for _, f := range found {
		vm, power := compute.Found(f.VMState, f.Found)
		resume := boot.Restarted && boot.ResumeGuests && f.VMState == compute.VMActive && vm == compute.VMStopped
		changed, err := schema.New(r.Pool).SyncPower(ctx, schema.SyncPowerParams{
			ID: f.Server, HostID: &r.Host, VMState: vm, PowerState: power, Was: f.VMState, Seen: f.UpdatedAt, Resume: resume,
		})
		if err != nil {
			return unavailable(err)
		}
		if changed > 0 {
			r.Logger.InfoContext(ctx, "the server changed its power state by itself", "server", f.Server, "vm_state", vm, "starts_again", resume)
		}
	}
	return unavailable(schema.New(r.Pool).NoteBoot(ctx, schema.NoteBootParams{ID: r.Host, BootID: boot.BootID}))
}

// Progress notes how far the operation on a server is, in percent of its step.
func (r Records) Progress(ctx context.Context, server compute.ServerID, percent int) error {
	if percent < 0 || percent > 100 {
		return compute.Errorf(compute.Invalid, "%d percent", percent)
	}
	if err := r.requireOn(ctx, server); err != nil {
		return err
	}
	return unavailable(schema.New(r.Pool).ReportProgress(ctx, schema.ReportProgressParams{ID: server, Percent: int32(percent)}))
}

// MetadataAfter gives what a server of this host may know of itself; see schema.Metadata.
func (r Records) MetadataAfter(ctx context.Context, server compute.ServerID, ahead *compute.OperationID) (metadata.Server, error) {
	if err := r.requireOn(ctx, server); err != nil {
		return metadata.Server{}, err
	}
	if ahead != nil {
		op, err := schema.New(r.Pool).GetOperation(ctx, *ahead)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return metadata.Server{}, unavailable(err)
		}
		if err != nil || op.ServerID != server {
			return metadata.Server{}, compute.Errorf(compute.Forbidden, "operation %s is none of server %s", *ahead, server)
		}
	}
	return schema.Metadata{Pool: r.Pool}.MetadataAfter(ctx, server, ahead)
}

// requireOn fails with Forbidden unless the server is on the host or about to be. It says
// no more: a host learns nothing of others' servers.
func (r Records) requireOn(ctx context.Context, server compute.ServerID) error {
	here, err := schema.New(r.Pool).ServerIsOn(ctx, schema.ServerIsOnParams{ServerID: server, HostID: &r.Host})
	if err != nil {
		return unavailable(err)
	}
	if !here {
		return compute.Errorf(compute.Forbidden, "server %s is not on host %s", server, r.Name)
	}
	return nil
}

func unavailable(err error) error {
	if err == nil || compute.KindOf(err) != "" {
		return err
	}
	return compute.Errorf(compute.Unavailable, "the database does not answer: %w", err)
}
