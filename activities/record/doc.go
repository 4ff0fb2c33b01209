// Package record keeps what PostgreSQL must know of an operation: its place in
// the queue, the server's states, the claim on a host, the ledger. Its
// activities are local ones of the control worker: hosts need no database for
// an operation.
//
// Every write that belongs to an operation is fenced: it names the operation
// and changes nothing when the server has gone over to another one. An undo is
// not fenced, for it is what a lost operation still has to do; it touches only
// what its own operation made. Nor is what tells of the world as it is: a step that
// ended, a thing that is the user's.
package record
