// Package worker builds and runs the two kinds of worker: the control worker,
// which runs workflows and what they record and ask of cloud services, and the
// host worker, which runs activities on one compute host.
package worker
