// Package cmd holds the programs: strongroom, the one binary, is also the only place that
// wires the packages together.
package cmd
