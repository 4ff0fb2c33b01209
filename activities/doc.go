// Package activities holds what touches the world, one folder per thing touched:
// key, image, object and trust (cloud services, with an adapter
// per folder and the conformance suite that each passes), openstack (what the
// adapters for OpenStack share, and whom they act for), credential (what
// references to credentials stand for), disk, domain and tpm (a compute host), record
// and operation (the database and Temporal), secret (the type that passphrases
// travel in) and folder (files that are whole or absent).
//
// Each thing declares its activities as values of durable.Activity or
// durable.HostActivity: among them Remove, which removes one thing of the ledger, and
// Seen, which gives a page of what exists.
package activities
