package schema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

// Metadata reads what guests may know of themselves.
type Metadata struct{ Pool *pgxpool.Pool }

// Metadata reads it of one server, in one query. NotFound: there is no such server
// any more; Unavailable: the database does not answer.
func (m Metadata) Metadata(ctx context.Context, id compute.ServerID) (metadata.Server, error) {
	return m.MetadataAfter(ctx, id, nil)
}

// AddressOwner gives the server that has an address of a network of the configuration, and its project. NotFound: none has.
func (m Metadata) AddressOwner(ctx context.Context, network compute.NetworkID, address netip.Addr) (compute.ServerID, string, error) {
	row, err := New(m.Pool).LocalAddressOwner(ctx, LocalAddressOwnerParams{NetworkID: network, Address: address.String()})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return compute.ServerID{}, "", compute.Errorf(compute.NotFound, "no server has the address %s", address)
	case err != nil:
		return compute.ServerID{}, "", compute.Errorf(compute.Unavailable, "whose address %s is: %w", address, err)
	}
	return compute.ServerID{UUID: row.ServerID}, row.ProjectID, nil
}

// MetadataAfter is Metadata as it will be when a rebuild that is ahead of the record
// has come to its decision: with what its request changed. nil: as it is.
func (m Metadata) MetadataAfter(ctx context.Context, id compute.ServerID, ahead *compute.OperationID) (metadata.Server, error) {
	row, err := New(m.Pool).ServerMetadata(ctx, id)
	if err == nil && ahead != nil {
		err = m.change(ctx, &row, *ahead)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return metadata.Server{}, compute.Errorf(compute.NotFound, "there is no server %s", id)
	}
	if err != nil {
		return metadata.Server{}, compute.Errorf(cmp.Or(compute.KindOf(err), compute.Unavailable), "metadata of server %s: %w", id, err)
	}
	s := metadata.Server{
		ID: id, Number: row.Number, ProjectID: row.ProjectID, Name: row.Name, Hostname: row.Hostname, LaunchIndex: int(row.LaunchIndex),
		Zone: row.AvailabilityZone, Reservation: row.ReservationID, Flavor: row.Flavor.Name, Image: row.ImageID, Metadata: row.Metadata,
		Networks: row.Networks,
	}
	if row.KeyName != nil && row.KeyData != nil {
		s.KeyName, s.PublicKey = *row.KeyName, *row.KeyData
		if !strings.HasPrefix(s.PublicKey, "-----BEGIN ") {
			s.PublicKey = strings.TrimSpace(s.PublicKey) // it becomes a line of the guest's list of keys (K21)
		}
	}
	if row.UserData != nil {
		if s.UserData, err = compute.DecodeBase64(*row.UserData); err != nil {
			return metadata.Server{}, compute.Errorf(compute.Corrupt, "server %s: its user data are no base64", id)
		}
	}
	if err := json.Unmarshal(row.Disks, &s.Disks); err != nil {
		return metadata.Server{}, compute.Errorf(compute.Corrupt, "server %s: its disks cannot be read", id)
	}
	if err := json.Unmarshal(row.Shares, &s.Shares); err != nil {
		return metadata.Server{}, compute.Errorf(compute.Corrupt, "server %s: its shares cannot be read", id)
	}
	return s.Attached(), nil
}

// change makes of a row what a rebuild's request makes of it.
func (m Metadata) change(ctx context.Context, row *ServerMetadataRow, op compute.OperationID) error {
	rebuild, err := New(m.Pool).GetOperation(ctx, op)
	if err != nil {
		return err
	}
	asked, err := rebuild.Rebuild()
	if err != nil {
		return err
	}
	c := asked.Change
	if c.Name != nil {
		row.Name = *c.Name
	}
	if c.Hostname != nil {
		row.Hostname = *c.Hostname
	}
	if c.Metadata != nil {
		row.Metadata = c.Metadata
	}
	if c.KeyName.Set {
		row.KeyName, row.KeyData = c.KeyName.Text, c.KeyData
	}
	if c.UserData.Set {
		row.UserData = c.UserData.Text
	}
	return nil
}
