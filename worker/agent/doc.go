// Package agent is the small HTTP service of a host worker: it hands out
// console logs, which are a tenant's data and have no place in a workflow's
// history, to the api, and disks and TPM state to the host on which an operation is
// about to make them, and the keys of a running guest to the host that it goes to. All know
// each other by their certificates.
package agent
