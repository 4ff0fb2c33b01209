// Package activities is the house of what touches the world, one folder per
// thing touched: key, image, object and trust (cloud services, with an adapter
// per folder and the conformance suite that each passes), openstack (what the
// adapters for OpenStack share, and whom they act for), credential (what
// references to credentials stand for), disk, domain and tpm (a compute host), record
// and operation (the database and Temporal), secret (the type that passphrases
// travel in) and folder (files that are whole or absent).
package activities
