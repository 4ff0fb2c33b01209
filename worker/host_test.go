package worker_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/worker"
	"strongroom/worker/gateway"
)

// quiet is a gateway that has nothing to say to a host.
type quiet struct{ worker.Gateway }

func (quiet) Report(context.Context, gateway.HostReport) error { return nil }

func (quiet) Evacuated(context.Context) ([]gateway.Evacuated, error) { return nil, nil }

func (quiet) Seen(context.Context) ([]gateway.AtRest, error) { return nil, nil }

func (quiet) SyncPower(context.Context, []gateway.FoundPower) error { return nil }

type noActivities struct{}

func (noActivities) Register(durable.Registry) {}

// EE-41: in each of its queues a host refuses at once what it does not know, which a newer control plane asks for.
func TestEE41AHostRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	host := durable.Host{ID: compute.HostID{UUID: uuid.New()}, Name: "older"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	runs := func(do func(context.Context) error) {
		ends := make(chan error, 1)
		running, stop := context.WithCancel(t.Context())
		go func() { ends <- do(running) }()
		t.Cleanup(func() { stop(); require.NoError(t, <-ends) })
	}
	nothing := func(context.Context) error { return nil }
	runs(worker.Host{
		ID: host.ID, Name: host.Name, Temporal: c, Gateway: quiet{}, Logger: slog.New(slog.DiscardHandler),
		Describe:    func(context.Context) (gateway.HostReport, error) { return gateway.HostReport{}, nil },
		PowerStates: func(context.Context) (map[compute.ServerID]compute.PowerState, error) { return nil, nil },
		CloseIdle:   nothing, NoAutostart: nothing, ShieldShares: nothing, ReleaseLease: nothing, Ready: func() error { return nil },
	}.Run)
	runs(worker.State{ID: host.ID, Name: host.Name, Temporal: c, Volume: noActivities{}, Logger: slog.New(slog.DiscardHandler)}.Run)

	asked := map[string]durable.HostActivity[durable.None, durable.None]{}
	for _, a := range []durable.HostActivity[durable.None, durable.None]{{Name: "disk.New"}, {Name: "disk.NewCopy", Bulk: true}, {Name: "volume.New", State: true}} {
		asked[a.Name] = a
	}
	control := sdk.New(c, durable.ControlQueue, sdk.Options{})
	control.RegisterWorkflowWithOptions(func(ctx workflow.Context, name string) error {
		return asked[name].On(host).Do(ctx, durable.None{})
	}, workflow.RegisterOptions{Name: "step"})
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)
	for name := range asked {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, "step", name)
		require.NoError(t, err)
		got := durable.FromTemporal(run.Get(ctx, nil))
		require.Equal(t, compute.NoHost, got.Kind, got.Message)
		require.Equal(t, "the host's worker is of another release, which does not know "+name, got.Message)
	}
}
