// Package deploy holds what strongroom runs on: dev has all services of
// one machine, cloud a real OpenStack beside them for tests, guest builds the tiny guest that tests and the demo boot, await has tests wait;
// temporal, a module of its own, is the Temporal server of all of them.
package deploy
