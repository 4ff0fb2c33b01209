// Package workflows holds one file per lifecycle operation. A workflow tells
// the story of its operation; what touches the world is an activity, and what
// is a rule is in compute.
package workflows
