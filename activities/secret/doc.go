// Package secret holds Passphrase, the one type in which a secret value lives
// in this process: it cannot be printed, logged or serialised.
package secret
