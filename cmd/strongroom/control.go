package main

import (
	"strongroom/durable"
	"strongroom/worker"
)

type controlCommand struct{}

// Help is shown by --help.
func (controlCommand) Help() string {
	return `Run as many as you like, on any machine that reaches Temporal, PostgreSQL and
the cloud's services. A control worker may be killed at any moment: another one,
or its successor, goes on where it stopped.`
}

func (controlCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	pool, err := openDatabase(r, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	temporal, err := durable.Dial(clientConfig(cfg, r.log))
	if err != nil {
		return err
	}
	defer temporal.Close()
	keys, err := openKeys(cfg)
	if err != nil {
		return err
	}
	return worker.Control{Temporal: temporal, Pool: pool, Keys: keys, Logger: r.log, Interceptors: faultPoints()}.Run(r)
}
