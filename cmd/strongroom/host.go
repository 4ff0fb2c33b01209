package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/worker"
	"strongroom/worker/agent"
)

type hostCommand struct {
	Run    hostRun    `cmd:"" default:"1" help:"Run the host worker; strongroom host alone does the same."`
	Forget hostForget `cmd:"" help:"Mark a host as one that never comes back."`
}

// Help is shown by --help.
func (hostCommand) Help() string {
	return `On a compute host, strongroom host runs the worker. strongroom host forget is for a
machine with access to the database: a controller.`
}

type hostRun struct{}

// Help is shown by --help.
func (hostRun) Help() string {
	return `Runs on a compute host, as root, beside libvirtd. It takes this host's work from
Temporal and reports the host; it may be killed and upgraded at any moment, guests
go on. It also hands console logs to the api, to requests that are signed with
the key of agent_key.`
}

func (hostRun) Run(r *run) error {
	b, err := r.openBackends(durable.Dial)
	if err != nil {
		return err
	}
	defer b.close()
	id, isNew, err := hostID(b.Host.IDFile)
	if err != nil {
		return err
	}
	for _, dir := range []string{b.Host.Instances, b.Host.ImageCache} {
		if err := claimFolder(dir, id, isNew); err != nil {
			return err
		}
	}
	s, err := b.services(r)
	if err != nil {
		return err
	}
	activities, err := openHostActivities(r, s, schema.Metadata{Pool: b.pool})
	if err != nil {
		return err
	}
	return worker.Host{
		ID: compute.HostID{UUID: id}, Name: b.Host.Name, Temporal: b.temporal, Pool: b.pool,
		Activities:  []worker.ActivitySet{activities.disk, activities.domain, activities.tpm, activities.image},
		Describe:    func(ctx context.Context) (schema.ReportHostParams, error) { return activities.describe(ctx, b.Host) },
		PowerStates: activities.domain.PowerStates, CloseIdle: activities.domain.CloseIdle, Ready: func() error { return activities.serveAgent(r, b.Config) }, Logger: r.log, Interceptors: faultPoints(),
	}.Run(r)
}

// hostActivities are the activities of a host worker.
type hostActivities struct {
	image  *image.HostActivities
	disk   *disk.Activities
	domain *domain.Activities
	tpm    *tpm.Activities
}

func openHostActivities(r *run, s *services, metadata disk.MetadataSource) (*hostActivities, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	images, err := s.images()
	if err != nil {
		return nil, err
	}
	h := s.Host
	disks, err := disk.New(disk.Config{
		InstancesDir: h.Instances, CacheDir: h.ImageCache, VolumeGroup: h.VolumeGroup,
		Pool:   disk.Pool{Name: h.RBD.Pool, User: h.RBD.User, ConfFile: h.RBD.Conf, Keyring: h.RBD.Keyring},
		Images: images, Keys: keys, Metadata: metadata, Logger: r.log,
	})
	if err != nil {
		return nil, err
	}
	client := &domain.Client{Socket: h.LibvirtSocket}
	virt, err := virtType(r, client, h)
	if err != nil {
		return nil, fmt.Errorf("libvirt at %s: %w", h.LibvirtSocket, err)
	}
	r.log.Info("guests run as", "virt_type", virt)
	filter, err := h.trafficFilter(r, client)
	if err != nil {
		return nil, err
	}
	domains, err := domain.New(domain.Config{
		Client: client, Keys: keys, Images: disks, Exports: disks, Devices: disks, InstancesDir: h.Instances, RunDir: h.Run, VirtType: virt,
		Ceph:     domain.Ceph{User: h.RBD.User, ConfFile: h.RBD.Conf, Key: disks.ClusterKey},
		Networks: h.networks(), Filter: filter, Logger: r.log,
	})
	if err != nil {
		return nil, err
	}
	disks.Copies = domains
	tpms, err := tpm.New(h.SwtpmState)
	return &hostActivities{image: &image.HostActivities{Library: images, Files: disks}, disk: disks, domain: domains, tpm: tpms}, err
}

// serveAgent hands out console logs in the background, until the context ends.
func (s *hostActivities) serveAgent(r *run, cfg *Config) error {
	key, err := secretFile(cfg.AgentKey)
	if err != nil {
		return fmt.Errorf("agent_key: %w", err)
	}
	handler := agent.Server{
		Key: key, Logger: r.log, Now: time.Now,
		Console: func(ctx context.Context, id compute.ServerID, lines int) (string, error) {
			return s.domain.Console(ctx, domain.ConsoleInput{Server: id, Lines: lines})
		},
	}.Handler()
	return background(r, "agent", cfg.Host.AgentListen, handler)
}

// background serves HTTP beside the command; an address that is taken fails now.
func background(r *run, name, address string, handler http.Handler) error {
	listener, err := listen(name, address)
	if err != nil {
		return err
	}
	go func() {
		if err := serveOn(r, name, listener, handler); err != nil {
			r.log.Error("a service ended", "service", name, "error", err)
		}
	}()
	return nil
}
