package audittest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/mount"
	"strongroom/activities/object"
	"strongroom/activities/port"
	"strongroom/activities/share"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
)

// Serve answers for the hosts and the cloud's services until the test ends. Asked, if
// any, hears of each question to a host or the key store before it is answered.
func (inv *Inventory) Serve(t testing.TB, c client.Client, asked func(place string)) {
	t.Helper()
	if asked == nil {
		asked = func(string) {}
	}
	for _, host := range inv.Hosts {
		of := map[compute.ThingKind][]compute.Seen{}
		for _, s := range inv.OnHost[host] {
			of[s.Kind] = append(of[s.Kind], s)
		}
		lists := func(kind compute.ThingKind) list {
			return func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
				asked(host.String())
				return in.PageOf(slices.Clone(of[kind])), nil
			}
		}
		serve(t, c, durable.HostQueue(host), func(w sdk.Worker) {
			domain.Seen.Register(w, lists(compute.ThingDomain))
			disk.Seen.Register(w, lists(compute.ThingDiskFile))
			tpm.Seen.Register(w, lists(compute.ThingTPMState))
			mount.Seen.Register(w, lists(compute.ThingShareMount))
		})
		serve(t, c, durable.HostStateQueue(host), func(w sdk.Worker) { volume.Seen.Register(w, nothing) })
	}
	serve(t, c, durable.CloudQueue, func(w sdk.Worker) {
		secrets := key.Activities{Manager: keyStore{inv: inv}}
		key.Seen.Register(w, func(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
			asked(compute.PlaceKeyManager)
			return secrets.Seen(ctx, in)
		})
		image.Seen.Register(w, nothing)
		object.Seen.Register(w, nothing)
		port.Seen.Register(w, nothing)
		share.Seen.Register(w, nothing)
		trust.Seen.Register(w, nothing)
	})
}

type list = func(context.Context, compute.SeenInput) (compute.SeenResult, error)

func nothing(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	return in.PageOf(nil), nil
}

func serve(t testing.TB, c client.Client, queue durable.Queue, register func(sdk.Worker)) {
	t.Helper()
	w := sdk.New(c, queue, sdk.Options{
		DisableWorkflowWorker: true, DisableRegistrationAliasing: true, MaxConcurrentActivityTaskPollers: 1,
		Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	register(w)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// keyStore is a key manager that shows nobody all projects.
type keyStore struct {
	key.Manager // of which the audit calls nothing but List
	inv         *Inventory
}

// List gives the names that come after the marker.
func (k keyStore) List(_ context.Context, cred compute.Credential, in key.ListInput) (key.ListResult, error) {
	if cred.ProjectID == "" {
		return key.ListResult{}, compute.Errorf(compute.Forbidden, "nobody is shown all projects")
	}
	names := k.inv.Secrets[cred.ProjectID]
	at, found := slices.BinarySearchFunc(names, in.Marker, strings.Compare)
	if found {
		at++
	}
	var out key.ListResult
	for _, name := range names[at:] {
		if len(out.Items) == in.Limit {
			out.Next = out.Items[in.Limit-1].Name
			break
		}
		out.Items = append(out.Items, key.Item{Name: name, ProjectID: cred.ProjectID})
	}
	return out, nil
}
