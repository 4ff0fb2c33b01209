package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Imported is a server that Nova ran, as it is to be here. The disks of its Server are not
// encrypted yet, as far as their record says, and have the options that open them: the key comes to them as
// to those of any server with a legacy key.
type Imported struct {
	compute.Server
	Key   compute.SecretID
	Force bool // what its volumes decrypt to is not looked at

	zone string       // its host's
	on   compute.Host // as far as it decides what the server takes
}

// Import puts a server that Nova ran on record, off and on its host, with its volumes and its
// key on the ledger as Nova's, and accepts the operation that takes the volumes over (EE-48).
// One that was imported, or could not be, is imported again as it is described now, also with
// another key, until it was booted here. Conflict: there is such a server that is none of
// these, or its host cannot open its disks.
func (k Keys) Import(ctx context.Context, in Imported) (op compute.Operation, err error) {
	arguments, err := json.Marshal(compute.ImportLegacyArguments{Key: in.Key, Force: in.Force})
	if err != nil {
		return op, err
	}
	op = compute.Operation{
		ID: compute.NewOperationID(), ServerID: in.ID, Kind: compute.OpImportLegacy, State: compute.OperationAccepted,
		Credential: compute.DeploymentCredential(), Arguments: arguments,
	}
	err = fence.Transaction(ctx, k.Pool, func(q *schema.Queries) error {
		if err := in.write(ctx, q, op); err != nil {
			return err
		}
		return outbox.Accept(ctx, q, op, nil)
	})
	return op, err
}

func (in Imported) write(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	row, err := q.LockHost(ctx, *in.Host)
	if err != nil {
		return err
	}
	if !slices.Contains(row.Traits, compute.TraitEncryptionPlain) || row.ForgottenAt != nil {
		return compute.Errorf(compute.Conflict, "host %s cannot open such disks: it has no trait %s", row.Name, compute.TraitEncryptionPlain)
	}
	host, err := q.ClaimedHost(ctx, *in.Host)
	if err != nil {
		return err
	}
	in.zone, in.on = host.Zone, compute.Host{Groups: row.GroupMB != nil}
	if err := in.writeServer(ctx, q, op); err != nil {
		return err
	}
	for _, set := range []func(context.Context, *schema.Queries, compute.Operation) error{in.writePlace, in.writeDisks, in.writeThings} {
		if err := set(ctx, q, op); err != nil {
			return err
		}
	}
	return q.SetLegacyKey(ctx, schema.SetLegacyKeyParams{ID: in.ID, EphemeralKey: &in.Key})
}

// writeServer inserts the server, or takes the one that was imported before.
func (in Imported) writeServer(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	was, err := q.GetServer(ctx, in.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		image := &in.Image.ID
		if *image == (compute.ImageID{}) {
			image = nil
		}
		if err := in.takeAddresses(ctx, q); err != nil {
			return err
		}
		if err := in.checkKey(ctx, q); err != nil {
			return err
		}
		if err := q.InsertServer(ctx, schema.InsertServerParams{
			ID: in.ID, ProjectID: in.ProjectID, UserID: in.UserID, Name: in.Name, Hostname: in.Hostname, ReservationID: reservation,
			VMState: compute.VMBuilding, TaskState: compute.ImportLegacy.Transition.Task, Flavor: in.Flavor, ImageID: image, Image: in.Image,
			RequiredTraits: in.Traits, ForbiddenTraits: []string{}, Networks: in.Networks, Metadata: map[string]string{}, Tags: []string{},
			DiskConfig: "MANUAL", CurrentOperation: op.ID,
		}); err != nil {
			return err
		}
		// Its first boot here puts its domain on the ledger.
		return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: in.ID, Key: compute.SystemUnbooted, Value: "yes"})
	}
	if err != nil {
		return err
	}
	if was.ProjectID != in.ProjectID || was.UserID != in.UserID || was.HostID != nil && *was.HostID != *in.Host {
		return compute.Errorf(compute.Conflict, "server %s is here already, with another owner or host", in.ID)
	}
	n, err := q.ImportServerAgain(ctx, schema.ImportServerAgainParams{ID: in.ID, TaskState: compute.ImportLegacy.Transition.Task, CurrentOperation: op.ID})
	if err == nil && n == 0 {
		err = compute.Errorf(compute.Conflict, "server %s is here already, and cannot be imported again: it is %s %s", in.ID, was.VMState, was.TaskState)
	}
	if err != nil {
		return err
	}
	return in.correct(ctx, q, was.EphemeralKey) // nobody else has the server from here on
}

// reservation is the reservation of servers that nobody here asked for.
const reservation = "r-imported"

// correct lets an import say otherwise than the one before what opens the server's disks: they
// are written anew. Once a guest has run from them here they are opened as they were then.
// The key of the import before, where it is another one, is Nova's again: it stays where it is.
func (in Imported) correct(ctx context.Context, q *schema.Queries, key *compute.SecretID) error {
	is, err := schema.LoadServer(ctx, q, in.ID)
	if err != nil {
		return err
	}
	if !is.Unbooted() {
		return compute.Errorf(compute.Conflict, "server %s is here already, and cannot be imported again: "+
			"it was booted here, and its disks stay encrypted with the key, cipher, key size and hash that they were opened with", in.ID)
	}
	has := key != nil && *key == in.Key
	for _, d := range is.Disks {
		has = has || d.Secret != nil && *d.Secret == in.Key
	}
	if !has {
		if err := in.checkKey(ctx, q); err != nil {
			return err
		}
	}
	return q.ReleaseOtherLegacyKeys(ctx, schema.ReleaseOtherLegacyKeysParams{ServerID: in.ID.UUID, Key: in.Key.String()})
}

// checkKey refuses a key that another server has, or an image (EE-46): with this one it would go,
// and with it what the other one has. Who is about to use, or to delete, the key of an image waits.
func (in Imported) checkKey(ctx context.Context, q *schema.Queries) error {
	if _, err := q.LockSecretThings(ctx, schema.LockSecretThingsParams{Secret: in.Key.UUID}); err != nil {
		return err
	}
	used, err := q.IsSecretOfServer(ctx, in.Key.UUID)
	if err != nil {
		return err
	}
	if used {
		return compute.Errorf(compute.Conflict, "key %s is that of another server's disk or vTPM", in.Key)
	}
	if used, err = q.IsSecretOfImage(ctx, in.Key.UUID); err == nil && used {
		err = compute.Errorf(compute.Conflict, "key %s is that of an image, which nobody could read once it went with the server", in.Key)
	}
	return err
}

// takeAddresses keeps other servers from the addresses that it has.
func (in Imported) takeAddresses(ctx context.Context, q *schema.Queries) error {
	for _, n := range in.Networks {
		taken, err := q.TakeMAC(ctx, schema.TakeMACParams{Mac: n.MAC, ServerID: in.ID})
		if err != nil {
			return err
		}
		if taken == 0 {
			return compute.Errorf(compute.Conflict, "another server has the address %s", n.MAC)
		}
	}
	return nil
}

// writePlace says on which host it is, and what it takes there.
func (in Imported) writePlace(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	if _, err := q.SetServerPlaced(ctx, schema.SetServerPlacedParams{
		ID: in.ID, CurrentOperation: op.ID, HostID: in.Host, AvailabilityZone: in.zone,
	}); err != nil {
		return err
	}
	if err := q.DeleteClaims(ctx, in.ID); err != nil {
		return err
	}
	takes := in.asPlain().ResourcesOn(in.on)
	return q.InsertClaim(ctx, schema.InsertClaimParams{
		ServerID: in.ID, HostID: *in.Host, OperationID: op.ID,
		VCPUs: int32(takes.VCPUs), MemoryMB: int32(takes.MemoryMB), DiskGB: int32(takes.DiskGB), GroupMB: int64(takes.GroupMB),
	})
}

// asPlain is the server as it will be: its disks are volumes of the format plain.
func (in Imported) asPlain() compute.Server {
	s := in.Server
	s.Disks = slices.Clone(s.Disks)
	for i := range s.Disks {
		s.Disks[i].Encrypted, s.Disks[i].Format = true, compute.FormatPlain
	}
	return s
}

func (in Imported) writeDisks(ctx context.Context, q *schema.Queries, _ compute.Operation) error {
	if err := q.DropServerDisks(ctx, in.ID); err != nil {
		return err
	}
	for _, d := range in.Disks {
		options, err := json.Marshal(d.EncryptionOptions)
		if err != nil {
			return err
		}
		if err := q.ImportDisk(ctx, schema.ImportDiskParams{
			ID: d.ID, ServerID: in.ID, Role: d.Role, Index: int32(d.Index), DeviceName: d.DeviceName, Bus: d.Bus, SizeMB: d.SizeMB,
			BootIndex: int32(d.BootIndex), File: d.File, EncryptionOptions: string(options),
		}); err != nil {
			return err
		}
	}
	return nil
}

// writeThings puts volumes and key on the ledger as what nobody here may remove. Those of a
// server that was imported before are its own already, and stay that: so is another key that
// opens them, since the server has it even where this import fails.
func (in Imported) writeThings(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	things := op.ImportedThings(in.Server, in.Key)
	if err := ledger.Open(ctx, q, things); err != nil {
		return err
	}
	for _, t := range things {
		if err := q.HandOverIntended(ctx, schema.HandOverIntendedParams{Kind: t.Kind, Place: t.Place, Name: t.Name}); err != nil {
			return err
		}
	}
	key := things[len(things)-1]
	return q.LegacyKeyPresent(ctx, schema.LegacyKeyPresentParams{Place: key.Place, Name: key.Name})
}

// Ended says how an import ended, "" while it has not.
func (k Keys) Ended(ctx context.Context, op compute.OperationID) (compute.OperationState, string, error) {
	row, err := schema.New(k.Pool).GetOperation(ctx, op)
	if err != nil || !row.State.Settled() {
		return "", "", fence.Unavailable(err)
	}
	return row.State, row.Operation().Message, nil
}
