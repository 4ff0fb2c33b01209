// Package notification tells other programs about operations, as Nova does by its versioned
// notifications (SH-24, TPM-07): Writer writes them into an outbox table, in the transaction of
// what they tell; Sender sends them to a message broker, each at least once and those of a
// server in order.
package notification
