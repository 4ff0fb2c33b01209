// Package cmd holds the programs: strongroom, the one binary, is also the only place that
// wires the packages together; strongroom-initializer is one command of it, for the container
// image of pods' initializers.
package cmd
