// Package gateway is what stands between compute hosts and everything else: a host has no
// database, no password and no token of Keystone. It reports itself to a gateway, and asks
// it for passphrases, images and objects, over mutual TLS.
//
// What a host is given is decided by rows that control workers wrote: a secret, an image or
// an object must be one of a server that is on this host, or about to be, and on which an
// operation runs that acts with the credential in question. So a host that was lost to an
// attacker has what its own servers need while somebody operates on them, and nothing else,
// and loses that with the end of the operation. A passphrase is sealed to the host's key.
//
// A gateway keeps nothing: there may be as many as one likes. Server is the gateway's end,
// Client the host's; Records is what both do with PostgreSQL behind them.
package gateway
