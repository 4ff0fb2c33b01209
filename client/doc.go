// Package client is what strongroom adds to the compute API, for programs that use gophercloud: how disks are encrypted,
// new keys, images with a key of their own, shares, and operations to follow, wait for and cancel.
//
//	compute, err := openstack.NewComputeV2(provider, endpoint) // gophercloud's own client
//	strongroom := client.Extend(compute)
//	id, err := client.RotateKeys(ctx, strongroom, server, nil)
//	op, err := client.WaitForOperation(ctx, strongroom, server, id, nil)
//
// All of it is spoken with a client that Extend gave: it asks for "compute 2.97, strongroom 1.1". An error of
// the cloud is gophercloud's own (gophercloud.ErrUnexpectedResponseCode); a compute service that is not strongroom answers
// 404. For all else, gophercloud's packages are used as they are.
package client
