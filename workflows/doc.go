// Package workflows holds one file per lifecycle operation. A workflow is the
// sequence of an operation's steps; calls of hosts and services are activities, and rules
// are in compute.
package workflows
