package gateway

import (
	"context"
	"crypto/x509"
	"net/http"

	"strongroom/compute"
	"strongroom/schema"
)

// transferRequest asks whether another host may have of this one what the transfer says.
type transferRequest struct {
	compute.Transfer
	Serial string `json:"serial"` // of the other host's certificate
}

// Grants fails with Forbidden unless the host with a certificate may have what a transfer says of
// this host: an operation that runs is about to make it there, and this host has it. So a
// ticket is good for one step of one operation, and there is nothing to steal.
func (c *Client) Grants(ctx context.Context, t compute.Transfer, to *x509.Certificate) error {
	return c.ask(ctx, http.MethodPost, pathTransfer, transferRequest{t, serial(to)}, nil)
}

func transfer(c *call) (any, error) {
	in, err := read[transferRequest](c.body)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.requireTransfer(c.Context(), in)
}

func (r Records) requireTransfer(ctx context.Context, in transferRequest) error {
	if in.Kind == compute.ThingCachedImage {
		return r.requireImageTransfer(ctx, in)
	}
	granted, err := schema.New(r.Pool).TransferGranted(ctx, schema.TransferGrantedParams{
		Kind: in.Kind, Name: in.Name, Serial: in.Serial, Source: r.Host.UUID, ServerID: in.Server.UUID, OperationID: in.Operation,
	})
	if err != nil {
		return unavailable(err)
	}
	if !granted {
		return compute.Errorf(compute.Forbidden, "no operation %q runs on server %s that makes %s %q of this host on the one with certificate %q",
			in.Operation, in.Server, in.Kind, in.Name, in.Serial)
	}
	return nil
}

// requireImageTransfer is for the copy of a server's image, and of no other one.
func (r Records) requireImageTransfer(ctx context.Context, in transferRequest) error {
	q := schema.New(r.Pool)
	granted, err := q.ImageTransferGranted(ctx, schema.ImageTransferGrantedParams{
		Serial: in.Serial, Source: r.Host.UUID, ServerID: in.Server.UUID, OperationID: in.Operation,
	})
	if err != nil {
		return unavailable(err)
	}
	if granted {
		s, err := schema.LoadServer(ctx, q, in.Server)
		if err != nil {
			return unavailable(err)
		}
		name, err := s.Image.CacheName(s.ProjectID)
		granted = err == nil && name == in.Name
	}
	if !granted {
		return compute.Errorf(compute.Forbidden, "no operation %q runs that moves server %s, with the image %q, from this host to the one with certificate %q",
			in.Operation, in.Server, in.Name, in.Serial)
	}
	return nil
}

// arrivalRequest asks of another host, for an operation on a server: whether it may move it to this one while it runs, say.
type arrivalRequest struct {
	compute.Arrival
	Serial string `json:"serial"` // of the other host's certificate
}

// GrantsArrival fails with Forbidden unless an operation that runs moves a running server from the
// host with a certificate to this one.
func (c *Client) GrantsArrival(ctx context.Context, of compute.Arrival, from *x509.Certificate) error {
	return c.ask(ctx, http.MethodPost, pathArrival, arrivalRequest{of, serial(from)}, nil)
}

func arrival(c *call) (any, error) {
	in, err := read[arrivalRequest](c.body)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.requireArrival(c.Context(), in)
}

func (r Records) requireArrival(ctx context.Context, in arrivalRequest) error {
	granted, err := schema.New(r.Pool).ArrivalGranted(ctx, schema.ArrivalGrantedParams{
		Destination: r.Host.UUID, ServerID: in.Server.UUID, OperationID: in.Operation, Serial: in.Serial,
	})
	if err != nil {
		return unavailable(err)
	}
	if !granted {
		return compute.Errorf(compute.Forbidden, "no operation %q that runs moves server %s from the host with certificate %q to this one",
			in.Operation, in.Server, in.Serial)
	}
	return nil
}
