// Package deploy is the house of how strongroom is run: dev has all services of
// one machine, guest builds the tiny guest that tests and the demo boot.
package deploy
