// Package cmd is the house of the programs: strongroom, the one binary, which is
// also the only place that wires the rooms together.
package cmd
