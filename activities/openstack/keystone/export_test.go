package keystone

// NewTransport is what clients share, with another patience.
var NewTransport = newTransport
