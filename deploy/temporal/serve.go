package main

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/google/uuid"
	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"

	"strongroom/deploy/temporal/access"
)

type serveCommand struct{}

const loopback = "127.0.0.1"

func (serveCommand) Run(r *run) error {
	id, err := r.identity()
	if err != nil {
		return err
	}
	options, err := r.options(id)
	if err != nil {
		return err
	}
	server, err := temporal.NewServer(options...)
	if err != nil {
		return err
	}
	if r.cfg.UI.Listen != "" {
		ui, err := r.ui(id)
		if err != nil {
			return err
		}
		go func() { _ = ui.Start() }() // ends the process by itself when it cannot
		defer ui.Stop()
	}
	if err := server.Start(); err != nil {
		return err
	}
	<-r.Done()
	return server.Stop()
}

// identity is nil where everybody may do everything.
func (r *run) identity() (*access.Identity, error) {
	switch {
	case r.cfg.Insecure:
		return nil, nil
	case r.cfg.Authority != "":
		return access.FromAuthority(r, r.cfg.Authority, r.log)
	}
	return access.FromFile(r.cfg.Certificate, r.log)
}

func (r *run) options(id *access.Identity) ([]temporal.ServerOption, error) {
	cfg, err := r.temporal(id != nil)
	if err != nil {
		return nil, err
	}
	if err := r.cfg.makeNamespaces(cfg.Persistence.DataStores[mainStore].SQL); err != nil {
		return nil, err
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	var services []string
	for name, s := range cfg.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(net.JoinHostPort(s.RPC.BindOnIP, strconv.Itoa(s.RPC.GRPCPort)))
		services = append(services, name)
	}
	out := []temporal.ServerOption{
		temporal.WithConfig(cfg), temporal.WithLogger(logger{r.log}), temporal.WithDynamicConfigClient(r.cfg.dynamic()),
		temporal.ForServices(services), temporal.WithStaticHosts(hosts),
	}
	if id == nil {
		return append(out, temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
			temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() })), nil
	}
	guard, err := r.guard(id)
	if err != nil {
		return nil, err
	}
	key, err := access.EnsureKey(r.cfg.Folder)
	if err != nil {
		return nil, err
	}
	return append(out, temporal.WithTLSConfigFactory(id.Provider()), temporal.WithAuthorizer(guard),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return guard }),
		temporal.WithChainedFrontendGrpcInterceptors((&access.Tokens{Guard: guard, Key: key}).Intercept)), nil
}

func (r *run) guard(id *access.Identity) (*access.Guard, error) {
	revoked := &access.Revocations{}
	in := r.cfg.Revocations
	source := access.Source{Gateway: in.Gateway, File: in.File, Every: in.Every, Keep: r.cfg.Folder}
	if err := revoked.Load(source, id); err != nil {
		return nil, err
	}
	go revoked.Follow(r, source, id)
	return &access.Guard{Namespaces: r.cfg.names(), Revocations: revoked, Log: r.log}, nil
}

// temporal is the configuration of Temporal itself: all services in this process, of
// which other machines reach the frontend alone.
func (r *run) temporal(guarded bool) (*config.Config, error) {
	persistence, err := r.cfg.persistence()
	if err != nil {
		return nil, err
	}
	ip, port := r.cfg.listenOn()
	cfg := &config.Config{Persistence: persistence, Services: map[string]config.Service{}}
	cfg.Global.Membership.MaxJoinDuration = 30 * time.Second
	cfg.Global.Membership.BroadcastAddress = loopback
	cfg.DCRedirectionPolicy.Policy = "noop"
	cfg.Archival.History.State, cfg.Archival.Visibility.State = "disabled", "disabled"
	cfg.NamespaceDefaults.Archival.History.State, cfg.NamespaceDefaults.Archival.Visibility.State = "disabled", "disabled"
	cfg.Services[string(primitives.FrontendService)] = config.Service{RPC: config.RPC{BindOnIP: ip, GRPCPort: port}}
	inner := []primitives.ServiceName{primitives.HistoryService, primitives.MatchingService, primitives.WorkerService}
	if guarded {
		inner = append(inner, primitives.InternalFrontendService) // for Temporal's own workers
	}
	for _, name := range inner {
		free, err := freePort()
		if err != nil {
			return nil, err
		}
		cfg.Services[string(name)] = config.Service{RPC: config.RPC{BindOnIP: loopback, GRPCPort: free}}
	}
	// What the database has of this goes before it.
	cfg.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled: true, InitialFailoverVersion: 1, RPCAddress: r.cfg.Listen, ClusterID: uuid.NewString(),
		}},
	}
	return cfg, nil
}

// dynamic is what strongroom needs of Temporal's dynamic configuration, and what the
// configuration says beside it.
func (c *Config) dynamic() dynamicconfig.Client {
	out := dynamicconfig.StaticClient{
		dynamicconfig.MakeKey("matching.enableFairness"): true, // between projects
		// Turns are taken within a partition: with several, who is second in one waits for all
		// of another. One serves far more than any queue of strongroom has.
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key():          1,
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():           1,
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():                 8096,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
	if c.Database.URLFile == "" { // one machine's: what was just registered is known at once
		out[dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key()] = true
		out[dynamicconfig.FrontendPersistenceMaxQPS.Key()], out[dynamicconfig.HistoryPersistenceMaxQPS.Key()] = 10000, 45000
	}
	for key, value := range c.Dynamic {
		out[dynamicconfig.MakeKey(key)] = value
	}
	return out
}

// ui is the web UI. It has no users of its own: whoever reaches it may read.
func (r *run) ui(id *access.Identity) (*uiserver.Server, error) {
	listen := netip.MustParseAddrPort(r.cfg.UI.Listen) // check has looked
	cfg := &uiconfig.Config{
		Host: listen.Addr().String(), Port: int(listen.Port()), TemporalGRPCAddress: r.cfg.Listen,
		EnableUI: true, HideLogs: true, DisableNewsFetch: true, DisableWriteActions: true, DefaultNamespace: r.cfg.Namespaces[0].Name,
		CORS: uiconfig.CORS{CookieInsecure: true},
	}
	if listen.Addr().Is6() {
		cfg.Host = "[" + cfg.Host + "]"
	}
	switch {
	case r.cfg.Certificate != "": // read again when it is replaced
		cfg.TLS = uiconfig.TLS{CertFile: r.cfg.Certificate, KeyFile: r.cfg.Certificate}
	case id != nil:
		cert, key, err := id.PEM()
		if err != nil {
			return nil, fmt.Errorf("the UI's certificate: %w", err)
		}
		cfg.TLS = uiconfig.TLS{CertData: base64.StdEncoding.EncodeToString(cert), KeyData: base64.StdEncoding.EncodeToString(key)}
	}
	return uiserver.NewServer(server_options.WithConfigProvider(cfg)), nil
}
