// Package secret holds Passphrase, the one type in which a secret value lives
// in this process: it cannot be printed, logged or serialised.
//
// A passphrase is made by Generate or New, looked at inside Use, handed to a
// child process through Pipe, and ended by Wipe.
package secret
