// Package watchdog fences a compute host from the inside: it stops the guests of one whose lease has expired, since its
// worker has had no contact with the control plane for as long as the lease says. Its servers can be evacuated
// then without an operator, and none runs twice.
//
// The worker takes the lease, renews it with each contact, and writes it down. Two processes act on
// that: a watchdog by itself, which needs neither the network nor the worker, and the worker.
package watchdog
