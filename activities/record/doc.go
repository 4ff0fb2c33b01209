// Package record writes operations and their servers to PostgreSQL. Its activities are
// local activities of the control worker: hosts need no database for an operation.
//
// Every write that belongs to an operation is fenced: it changes nothing when another
// operation has taken over the server. An undo is not fenced: an operation that lost
// its server still has to undo its steps, and an undo touches only what its own operation
// made. Nor is a Close: it states what was seen.
package record
