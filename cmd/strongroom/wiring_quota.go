package main

import (
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/api"
	"strongroom/api/quota"
	"strongroom/compute"
)

// openQuotas gives the quotas that the configuration names.
func openQuotas(r *run, cfg *Config) (api.Quotas, error) {
	configured := compute.Quota{
		Instances: cfg.Quota.Instances, Cores: cfg.Quota.Cores, MemoryMB: cfg.Quota.RAM, DiskGB: cfg.Quota.Disk,
		Groups: cfg.Quota.ServerGroups, GroupMembers: cfg.Quota.ServerGroupMembers, KeyPairs: cfg.Quota.KeyPairs,
	}
	switch cfg.Quota.Backend {
	case "local":
		return quota.Fixed(configured), nil
	case "keystone":
	default:
		return nil, fmt.Errorf("quota.backend: there is no %q, choose local or keystone", cfg.Quota.Backend)
	}
	// In its project a user sees the limits of that one alone.
	system, err := identityClientOf(r, cfg.Identity, &gophercloud.AuthScope{System: true})
	if err != nil {
		return nil, fmt.Errorf("quota.backend keystone needs the role reader on the system for strongroom's user "+
			"(openstack role add --user %s --user-domain %s --system all reader): %w", cfg.Identity.Username, cfg.Identity.Domain, err)
	}
	return quota.NewKeystone(quota.Config{
		Identity: system, Region: cfg.Identity.Region, Service: cfg.Quota.Service, Default: configured, Logger: r.log, Now: time.Now,
	}), nil
}
