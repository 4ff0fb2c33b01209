// Package console is the console proxy: what browsers and strongroom server console talk to. Who has a token of the
// compute API gets, once, a WebSocket to a console of the server that the token is of, through the agent of the host on which
// that runs.
package console
