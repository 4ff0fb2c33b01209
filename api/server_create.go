package api

import (
	"crypto/rand"
	"fmt"
	"strings"

	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
)

// passwordLength is how long a password is that a server is given: 60 random bits.
const passwordLength = 12

// adminPassword is the password of an answer: the one that was asked for, or a new
// one. It is kept nowhere.
func adminPassword(asked string) string {
	if asked != "" {
		return asked
	}
	return rand.Text()[:passwordLength]
}

// createServers answers POST /servers: the rules first, then all rows of all
// servers in one transaction, then their workflows. Temporal may be away by
// then: what was committed is started later.
func (a *API) createServers(r *Request) (any, error) {
	plan, err := a.planServer(r)
	if err != nil {
		return nil, err
	}
	if err := a.probe(r, plan); err != nil {
		return nil, err
	}
	reservation := "r-" + strings.ToLower(rand.Text()[:8])
	var operations []compute.Operation
	err = a.inTurn(r.Context(), plan.quota, r.ProjectID(), func() error {
		return a.transact(r.Context(), func(q *schema.Queries) error {
			operations, err = plan.insertAll(r, q, reservation)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	a.outbox.Launch(r.Context(), operations)
	if plan.ReservationOnly {
		return map[string]any{"reservation_id": reservation}, nil
	}
	first := operations[0].ServerID
	r.SetHeader("Location", r.URL("servers", first.String()))
	view := a.serverView(r)
	return map[string]any{"server": view.created(first, plan.groupNames(), plan.diskConfig(), adminPassword(plan.AdminPass))}, nil
}

// insertAll writes the rows of as many servers as there is room for.
func (p *serverPlan) insertAll(r *Request, q *schema.Queries, reservation string) (operations []compute.Operation, err error) {
	if p.count, err = p.fit(r.Context(), q, r.ProjectID()); err != nil {
		return nil, err
	}
	if err := p.checkMemberQuota(r, q); err != nil {
		return nil, err
	}
	for i := range p.count {
		op := operationOf(r, i)
		if err := p.insert(r, q, op, i, reservation); err != nil {
			return nil, err
		}
		operations = append(operations, op)
	}
	return operations, nil
}

// operationOf is the create of a request's i-th server. The first one has the
// request's id; the others' ids are derived from it.
func operationOf(r *Request, i int) compute.Operation {
	id := r.ID
	if i > 0 {
		id = compute.OperationID("req-" + r.ID.Derive(fmt.Sprintf("create/%d", i)).String())
	}
	return compute.Operation{
		ID: id, ServerID: compute.ServerID{UUID: id.Derive("server")}, Kind: compute.Create.Kind,
		State: compute.OperationAccepted, Credential: r.Credential(), Arguments: []byte("{}"),
	}
}

func (p *serverPlan) diskConfig() string {
	if p.DiskConfig == "" {
		return "MANUAL"
	}
	return p.DiskConfig
}

// insert writes the rows of one server.
func (p *serverPlan) insert(r *Request, q *schema.Queries, op compute.Operation, i int, reservation string) error {
	name, host := p.names(i, p.count, op.ServerID.String())
	plugs, err := p.interfaces(r.Context(), q, op)
	if err != nil {
		return err
	}
	if err := q.InsertServer(r.Context(), schema.InsertServerParams{
		ID: op.ServerID, ProjectID: r.ProjectID(), UserID: r.UserID(), Name: name, Description: p.Description, Hostname: host,
		ReservationID: reservation, LaunchIndex: int32(i), VMState: compute.VMBuilding, TaskState: compute.Create.Transition.Task,
		AvailabilityZone: p.AvailabilityZone, Flavor: p.flavor, ImageID: &p.image.ID, Image: p.image, TPM: p.tpm,
		RequiredTraits: orNone(p.traits.Required), ForbiddenTraits: orNone(p.traits.Forbidden),
		Networks: plugs, Metadata: orEmpty(p.Metadata), Tags: unique(p.Tags),
		KeyName: p.KeyName, KeyData: p.keyData, UserData: p.UserData, ConfigDrive: p.configDrive, DiskConfig: p.diskConfig(),
		AccessIPv4: p.AccessIPv4, AccessIPv6: *shortAddress(&p.AccessIPv6), CurrentOperation: op.ID,
	}); err != nil {
		return err
	}
	if err := p.join(r.Context(), q, op); err != nil {
		return err
	}
	if p.AvailabilityZone != "" {
		pinned := schema.SetSystemMetadataParams{ServerID: op.ServerID, Key: compute.SystemPinnedZone, Value: p.AvailabilityZone}
		if err := q.SetSystemMetadata(r.Context(), pinned); err != nil {
			return err
		}
	}
	for _, d := range p.devices.apply(op.ID, compute.PlanDisks(op.ID, p.flavor, p.image, p.encryption)) {
		if err := q.InsertServerDisk(r.Context(), schema.InsertServerDiskParams{
			ID: d.ID, ServerID: op.ServerID, Role: d.Role, Index: int32(d.Index), DeviceName: d.DeviceName, Bus: d.Bus,
			SizeMB: d.SizeMB, BootIndex: int32(d.BootIndex), GuestFormat: d.GuestFormat, ImageID: d.Image, Tag: d.tag,
			Encrypted: d.Encrypted, EncryptionFormat: d.Format,
		}); err != nil {
			return err
		}
	}
	return outbox.Accept(r.Context(), q, op, r.sealed(op.Credential))
}
