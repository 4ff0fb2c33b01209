// Package watchdog stops the guests of a compute host that is cut off: one whose worker has had no
// answer of a gateway for as long as it promised. Its servers can be evacuated then without an
// operator, and none runs twice.
//
// The worker notes on disk what it promised and when it last had an answer. Two processes act on
// that note: a watchdog by itself, which needs neither the network nor the worker, and the worker.
package watchdog
