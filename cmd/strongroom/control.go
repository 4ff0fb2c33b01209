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

// leastTPMBackupInterval is how often control workers look whether something is due.
const leastTPMBackupInterval = 10 * time.Second

func (controlCommand) Run(r *run) error {
	b, err := r.openBackends(pki.Control, durable.Dial)
	if err != nil {
		return err
	}
	defer b.close()
	interval := b.Control.TPMBackupInterval
	if interval != 0 && interval < leastTPMBackupInterval {
		return fmt.Errorf("control.tpm_backup_interval: %s is less than %s", interval, leastTPMBackupInterval)
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
	return worker.Control{
		Temporal: b.temporal, Namespace: b.Config.Temporal.Namespace, Version: strongroom.Version(), Drain: b.Control.Drain, Retention: b.Control.Retention, TPMBackupInterval: interval, Pool: b.pool, Keys: keys, Trusts: trusts, Images: images, Objects: objects, Shares: shares,
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
