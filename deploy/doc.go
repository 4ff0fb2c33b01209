// Package deploy is the house of how strongroom is run: dev has all services of
// one machine, cloud a real OpenStack beside them for tests, guest builds the tiny guest that tests and the demo boot.
package deploy
