package main

import (
	"context"
	"fmt"
	"time"

	"strongroom"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/worker"
	"strongroom/worker/pki"
)

type controlCommand struct{}

// Help is shown by --help.
func (controlCommand) Help() string {
	return `Run as many as you like, on any machine that reaches Temporal, PostgreSQL and
the cloud's services. A control worker may be killed at any moment: another one,
or its successor, goes on where it stopped.

Control workers of two versions work side by side: an operation ends on the version
on which it began. The one that starts becomes current, that is, new operations begin
on it; one of an older version that is told to stop waits for the operations that
began there, for control.drain at most.

The first one that starts notes the namespace of Temporal in the database, and says so,
if the executions of all operations that have begun are there. None starts with another
one, where it would take running operations for lost.`
}

// leastInterval is how often control workers look whether something is due.
const leastInterval = 10 * time.Second

// checkIntervals refuses what nobody can keep to.
func checkIntervals(cfg *Config) error {
	c := cfg.Control
	for option, interval := range map[string]time.Duration{
		"tpm_backup_interval": c.TPMBackupInterval, "image_key_interval": c.ImageKeyInterval, "share_interval": c.ShareInterval,
	} {
		if interval != 0 && interval < leastInterval {
			return fmt.Errorf("control.%s: %s is less than %s", option, interval, leastInterval)
		}
	}
	if c.ImageKeyInterval != 0 && c.ImageKeyGrace < c.ImageKeyInterval { // imagekey.Watch relies on it
		return fmt.Errorf("control.image_key_grace: %s is less than control.image_key_interval, %s", c.ImageKeyGrace, c.ImageKeyInterval)
	}
	for option, percent := range map[string]int{"image_key_most_gone": c.ImageKeyMostGone, "share_most_missed": c.ShareMostMissed} {
		if percent < 1 || percent > 100 {
			return fmt.Errorf("control.%s: %d is no percentage from 1 to 100", option, percent)
		}
	}
	return nil
}

func (controlCommand) Run(r *run) error {
	b, err := r.openBackends(pki.Control, durable.Dial)
	if err != nil {
		return err
	}
	defer b.close()
	if err := checkIntervals(b.Config); err != nil {
		return err
	}
	if err := b.checkNamespace(r); err != nil {
		return err
	}
	s, err := b.services(r)
	if err != nil {
		return err
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	trusts, err := s.trusts()
	if err != nil {
		return err
	}
	projects, err := s.projects()
	if err != nil {
		return err
	}
	images, err := s.images()
	if err != nil {
		return err
	}
	objects, err := s.objects()
	if err != nil {
		return err
	}
	shares, err := s.shares()
	if err != nil {
		return err
	}
	networks, err := s.networks()
	if err != nil {
		return err
	}
	plugTimeout := b.Config.Networks.VIFPluggingTimeout
	if b.Config.Networks.Backend == "local" {
		plugTimeout = 0 // they are active when their server runs: there is nothing to wait for
	}
	credentials, err := sealed(b.Config, b.pool, r.log)
	if err != nil {
		return err
	}
	notify, broker, err := b.notifications(r.log)
	if err != nil {
		return err
	}
	return worker.Control{
		Temporal: b.temporal, Namespace: b.Config.Temporal.Namespace, Version: strongroom.Version(), Drain: b.Control.Drain, Retention: b.Control.Retention,
		TPMBackupInterval: b.Control.TPMBackupInterval, ShareInterval: b.Control.ShareInterval, ShareMostMissed: b.Control.ShareMostMissed,
		ImageKeyInterval: b.Control.ImageKeyInterval, ImageKeyGrace: b.Control.ImageKeyGrace, ImageKeyMostGone: b.Control.ImageKeyMostGone,
		Pool: b.pool, Keys: keys, Trusts: trusts, Projects: projects, Images: images, Objects: objects, Shares: shares, Seals: credentials, Notifications: notify, Broker: broker,
		Networks: networks, PlugTimeout: plugTimeout, PlugFatal: b.Config.Networks.VIFPluggingIsFatal,
		Legacy: legacyEncryption(b.Config), Logger: r.log, Interceptors: faultPoints(""),
	}.Run(r)
}

// checkNamespace fails in another namespace of Temporal than the database's operations run in.
func (b *backends) checkNamespace(r *run) error {
	namespace, err := durable.NamespaceID(r, b.temporal, b.Config.Temporal.Namespace)
	if err != nil {
		return err
	}
	claimed, err := schema.CheckNamespace(r, b.pool, namespace, b.Config.Temporal.Namespace, func(ctx context.Context) (string, error) {
		return outbox.Missing(ctx, b.pool, durable.Starter{Client: b.temporal})
	})
	if err != nil {
		return err
	}
	if claimed {
		r.log.InfoContext(r, "the database's operations run in this namespace of Temporal from now on", "namespace", b.Config.Temporal.Namespace, "id", namespace)
	}
	return nil
}
