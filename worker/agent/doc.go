// Package agent is the small HTTP service of a host worker: it hands out
// console logs, which are a tenant's data and have no place in a workflow's
// history. The api and the host know each other by their certificates.
package agent
