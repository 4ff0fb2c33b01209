package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/registeredlimits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"strongroom/compute"
)

// How long limits are taken for true. While Keystone does not answer, those of before
// hold for an hour: hardly any change in that time, and whoever is refused then has
// reached a limit. After that the configured default holds and not none, so that creates
// go on and no project takes all there is.
const (
	fresh    = 30 * time.Second
	shared   = time.Minute // what is the same for all projects
	stale    = time.Hour
	pause    = 10 * time.Second // between two tries at a Keystone that does not answer
	patience = 5 * time.Second  // with one answer; a create waits for it
	projects = 4096             // whose limits are kept
)

// Config is what Keystone needs.
type Config struct {
	Identity *gophercloud.ServiceClient // identity v3; its user reads the limits of all projects (role reader on the system)
	Region   string                     // limits of this region go before those of none
	Service  string                     // id of the service that has the limits; "": the one of the type compute
	Default  compute.Quota              // of what Keystone has no limit of
	Logger   *slog.Logger
	Now      func() time.Time
}

// Keystone knows quotas from the unified limits of Keystone v3, under the names that
// Nova gives its resources there. A project's own limit goes before the registered one.
type Keystone struct {
	config Config
	known  *lru.Cache[string, entry]
	asking singleflight.Group

	mu       sync.Mutex
	defaults defaults
}

// defaults are what Keystone says once for all projects.
type defaults struct {
	service string // the id of the one that has the limits
	quota   compute.Quota
	until   time.Time
}

// entry is what is known of a project's quota.
type entry struct {
	quota compute.Quota
	at    time.Time // when Keystone said so; zero: it never did
	again time.Time // when it is asked next
}

// NewKeystone makes a Keystone.
func NewKeystone(config Config) *Keystone {
	known, _ := lru.New[string, entry](projects) // fails for a size below one
	return &Keystone{config: config, known: known}
}

// Of gives the quota of a project.
func (k *Keystone) Of(ctx context.Context, project string) compute.Quota {
	e, found := k.known.Get(project)
	if found && k.config.Now().Before(e.again) {
		return k.valid(e)
	}
	// Many requests of a project ask once. That one is ended by no client.
	asked, _, _ := k.asking.Do(project, func() (any, error) {
		if e, found := k.known.Get(project); found && k.config.Now().Before(e.again) { // who asked has just been answered
			return e, nil
		}
		return k.refresh(context.WithoutCancel(ctx), project, e), nil
	})
	return k.valid(asked.(entry))
}

// Default gives the quota of projects that have none of their own.
func (k *Keystone) Default(ctx context.Context) compute.Quota { return k.Of(ctx, "") }

// AreElsewhere implements api.Quotas: a project's limits are written in Keystone.
func (k *Keystone) AreElsewhere() bool { return true }

// valid is the quota of an entry, or the default where that is too old.
func (k *Keystone) valid(e entry) compute.Quota {
	if k.config.Now().Sub(e.at) > stale {
		return k.config.Default
	}
	return e.quota
}

func (k *Keystone) refresh(ctx context.Context, project string, e entry) entry {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	quota, err := k.Ask(ctx, project)
	now := k.config.Now()
	if err != nil {
		k.config.Logger.Warn("Keystone's limits cannot be read: those of before hold for an hour, then the configured ones",
			"project", project, "error", err)
		e.again = now.Add(pause)
	} else {
		e = entry{quota: quota, at: now, again: now.Add(fresh)}
	}
	k.known.Add(project, e)
	return e
}

// Ask asks Keystone for a project's quota; "" is for that of projects without limits of
// their own.
func (k *Keystone) Ask(ctx context.Context, project string) (compute.Quota, error) {
	common, err := k.common(ctx)
	if err != nil || project == "" {
		return common.quota, err
	}
	pages, err := limits.List(k.config.Identity, limits.ListOpts{ServiceID: common.service, ProjectID: project}).AllPages(ctx)
	if err != nil {
		return compute.Quota{}, explain(err, "list limits")
	}
	all, err := limits.ExtractLimits(pages)
	if err != nil {
		return compute.Quota{}, err
	}
	own := overlay{region: k.config.Region}
	for _, l := range all {
		if l.ProjectID == project { // and not of its domain
			own.add(l.ResourceName, l.RegionID, l.ResourceLimit)
		}
	}
	return own.over(common.quota), nil
}

// common gives what is the same for all projects, which is asked for once a minute, and once
// by all that need it at the same time.
func (k *Keystone) common(ctx context.Context) (defaults, error) {
	if kept, fresh := k.keptDefaults(); fresh {
		return kept, nil
	}
	got, err, _ := k.asking.Do(allProjects, func() (any, error) {
		if kept, fresh := k.keptDefaults(); fresh { // who asked has just been answered
			return kept, nil
		}
		asked, err := k.askCommon(ctx)
		if err == nil {
			k.mu.Lock()
			k.defaults = asked
			k.mu.Unlock()
		}
		return asked, err
	})
	return got.(defaults), err
}

// keptDefaults gives what was asked for last, and whether it is good still.
func (k *Keystone) keptDefaults() (kept defaults, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.defaults, k.config.Now().Before(k.defaults.until)
}

// allProjects is no project's id.
const allProjects = "all projects"

func (k *Keystone) askCommon(ctx context.Context) (defaults, error) {
	service, err := k.service(ctx)
	if err != nil {
		return defaults{}, explain(err, "find the service")
	}
	pages, err := registeredlimits.List(k.config.Identity, registeredlimits.ListOpts{ServiceID: service}).AllPages(ctx)
	if err != nil {
		return defaults{}, explain(err, "list registered limits")
	}
	registered, err := registeredlimits.ExtractRegisteredLimits(pages)
	if err != nil {
		return defaults{}, err
	}
	all := overlay{region: k.config.Region}
	for _, l := range registered {
		all.add(l.ResourceName, l.RegionID, l.DefaultLimit)
	}
	return defaults{service, all.over(k.config.Default), k.config.Now().Add(shared)}, nil
}

func (k *Keystone) service(ctx context.Context) (string, error) {
	if k.config.Service != "" {
		return k.config.Service, nil
	}
	pages, err := services.List(k.config.Identity, services.ListOpts{ServiceType: "compute"}).AllPages(ctx)
	if err != nil {
		return "", err
	}
	all, err := services.ExtractServices(pages)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", fmt.Errorf("the catalog has %d services of the type compute: write the id of the one that has the limits into quota.service", len(all))
	}
	return all[0].ID, nil
}

// explain says what could not be done, without what Keystone wrote.
func explain(err error, what string) error {
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) {
		return fmt.Errorf("%s: Keystone answered %d %s", what, answered.Actual, http.StatusText(answered.Actual))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// overlay is what Keystone limits, by its names of resources. A limit of the region goes
// before one of no region.
type overlay struct {
	region          string
	here, elsewhere []limit
}

type limit struct {
	resource string
	most     int64
}

func (o *overlay) add(resource, region string, most int) {
	switch region {
	case o.region:
		o.here = append(o.here, limit{resource, int64(most)})
	case "":
		o.elsewhere = append(o.elsewhere, limit{resource, int64(most)})
	}
}

// over gives a quota in which what is limited here is replaced.
func (o *overlay) over(q compute.Quota) compute.Quota {
	of := map[string]*int64{
		"servers": &q.Instances, "class:VCPU": &q.Cores, "class:MEMORY_MB": &q.MemoryMB, "class:DISK_GB": &q.DiskGB,
		"server_groups": &q.Groups, "server_group_members": &q.GroupMembers, "server_key_pairs": &q.KeyPairs,
	}
	for _, l := range slices.Concat(o.elsewhere, o.here) {
		if to, ok := of[l.resource]; ok {
			*to = l.most
		}
	}
	return q
}
