package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sys/unix"

	"strongroom/activities/mount"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/worker"
	"strongroom/worker/gateway"
)

// exported is a folder that all shares are, of a host without guests.
type exported string

func (e exported) Export(context.Context, compute.Credential, compute.ShareID) (mount.Export, error) {
	return mount.Export{Path: string(e)}, nil
}

func (exported) HasFolder(context.Context, compute.ServerID, string) (bool, error) { return false, nil }

func (exported) WithFolder(context.Context, string) ([]compute.ServerID, error) { return nil, nil }

// SH-21: the worker of a host that was away starts, and takes work, whatever goes wrong with what the host has of shares. That a mount of a server
// that was deleted meanwhile cannot be ended is told to who asks for it, and the next try ends it.
func TestSH21AHostStartsThoughItsMountsCannotBeCleared(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	c := temporaltest.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	share, server := compute.ShareID{UUID: uuid.New()}, compute.ServerID{UUID: uuid.New()}
	source, dir := exported(t.TempDir()), filepath.Join(t.TempDir(), "mounts")
	mounts := func() *mount.Activities {
		a, err := mount.New(mount.Config{Dir: dir, Exports: source, Guests: source})
		require.NoError(t, err)
		return a
	}
	before := mounts()
	t.Cleanup(func() {
		for unix.Unmount(before.Path(share), unix.MNT_DETACH) == nil { // what a test that failed left
		}
	})
	require.NoError(t, before.Mount(ctx, mount.Input{Share: share, Protocol: compute.LocalShare, Server: server, Operation: "req-1", Began: time.Now()}))
	inUse, err := os.Create(filepath.Join(before.Path(share), "letter"))
	require.NoError(t, err)

	host := durable.Host{ID: compute.HostID{UUID: uuid.New()}, Name: "back"}
	var log lines
	ready, ended := make(chan struct{}), make(chan error, 1)
	running, stop := context.WithCancel(t.Context())
	fails := func(context.Context) error { return errors.New("the host's firewall cannot be read") }
	nothing := func(context.Context) error { return nil }
	go func() {
		ended <- worker.Host{
			ID: host.ID, Name: host.Name, Temporal: c, Gateway: quiet{}, Activities: []worker.ActivitySet{mounts()}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Describe:    func(context.Context) (gateway.HostReport, error) { return gateway.HostReport{}, nil },
			PowerStates: func(context.Context) (map[compute.ServerID]compute.PowerState, error) { return nil, nil },
			CloseIdle:   nothing, NoAutostart: nothing, ShieldShares: fails, ReleaseLease: nothing, Ready: func() error { close(ready); return nil },
		}.Run(running)
	}()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	select {
	case <-ready:
	case <-ctx.Done():
		require.Fail(t, "the worker did not start", log.String())
	}
	require.Contains(t, log.String(), "the host's firewall cannot be read")

	removal := compute.Removal{Thing: compute.Thing{Kind: compute.ThingShareMount, Place: host.ID.String(), Name: compute.ShareUse(share, server)}}
	control := sdk.New(c, durable.ControlQueue, sdk.Options{})
	control.RegisterWorkflowWithOptions(func(ctx workflow.Context) error { return mount.Remove.On(host).Once().Do(ctx, removal) }, workflow.RegisterOptions{Name: "clear"})
	control.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		got, err := mount.Seen.On(host).Run(ctx, compute.SeenInput{})
		if err == nil && len(got.Seen) != 1 {
			err = fmt.Errorf("the host has %d mounts", len(got.Seen))
		}
		return err
	}, workflow.RegisterOptions{Name: "look"})
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)
	do := func(name string) error {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, name)
		require.NoError(t, err)
		return run.Get(ctx, nil)
	}
	got := durable.FromTemporal(do("clear"))
	require.Equal(t, compute.Conflict, got.Kind, got.Message)
	require.Contains(t, got.Message, "its mount could not be ended")
	require.NoError(t, do("look"), "it takes other work")

	require.NoError(t, inUse.Close())
	require.NoError(t, do("clear"))
	mounted, err := before.Mounted(ctx, share)
	require.NoError(t, err)
	require.False(t, mounted)
	require.Empty(t, ended, "it runs on")
}
