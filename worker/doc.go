// Package worker builds and runs the two kinds of worker: the control worker,
// which runs workflows and what they record and ask of cloud services, and the
// host worker, which runs activities on one compute host. Control workers have
// versions, and those of several versions work side by side (Deployment); host workers
// have none, and can be upgraded at any time.
package worker
