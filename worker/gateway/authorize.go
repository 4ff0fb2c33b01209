package gateway

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// work is what goes on with a server of a host.
type work struct {
	on
	server     compute.Server
	operations []compute.Operation // that run
}

// work fails with Forbidden unless an operation runs on a server that is on this host, or
// about to be, which acts with the credential: with that of the request, or with the one
// that the server's flavor says.
func (r Records) work(ctx context.Context, o on) (work, error) {
	if err := r.here(ctx, o.Server); err != nil {
		return work{}, err
	}
	q := schema.New(r.Pool)
	server, err := schema.LoadServer(ctx, q, o.Server)
	if errors.Is(err, pgx.ErrNoRows) {
		return work{}, compute.Errorf(compute.Forbidden, "there is no server %s", o.Server)
	}
	if err != nil {
		return work{}, unavailable(err)
	}
	rows, err := q.RunningOperations(ctx, o.Server)
	if err != nil {
		return work{}, unavailable(err)
	}
	w := work{on: o, server: server}
	acts := false
	for _, row := range rows {
		op := row.Operation()
		w.operations = append(w.operations, op)
		ring := server.Keyring(op.Credential)
		acts = acts || slices.Contains([]compute.Credential{op.Credential, ring.Disks, ring.TPM, ring.Rescue}, o.Credential)
	}
	if !acts {
		return work{}, compute.Errorf(compute.Forbidden, "no operation on server %s acts with credential %s now", o.Server, o.Credential.ID)
	}
	return w, nil
}

// uses fails with Forbidden unless a secret or an image is one of the server's, was made for
// one of its operations, or is named by the request for one, whose own credential alone is
// good for it: what users write is no reason to use another's.
func (r Records) uses(ctx context.Context, w work, kind compute.ThingKind, id string, own bool) error {
	if own {
		return nil
	}
	var operations []string
	for _, op := range w.operations {
		operations = append(operations, string(op.ID))
		if op.Credential == w.Credential && bytes.Contains(op.Arguments, []byte(`"`+id+`"`)) {
			return nil
		}
	}
	made, err := schema.New(r.Pool).MadeFor(ctx, schema.MadeForParams{Kind: kind, ID: id, ServerID: w.server.ID.UUID, Operations: operations})
	if err != nil {
		return unavailable(err)
	}
	if !made {
		return compute.Errorf(compute.Forbidden, "%s %s is none that server %s uses", kind, id, w.server.ID)
	}
	return nil
}

func (w work) hasSecret(id compute.SecretID) bool {
	is := func(s *compute.SecretID) bool { return s != nil && *s == id }
	return (w.server.TPM != nil && is(w.server.TPM.Secret)) ||
		slices.ContainsFunc(w.server.Disks, func(d compute.Disk) bool { return is(d.Secret) || is(d.BackingSecret) })
}

func (w work) hasImage(id compute.ImageID) bool {
	return w.server.Image.ID == id ||
		slices.ContainsFunc(w.server.Disks, func(d compute.Disk) bool { return d.Image != nil && *d.Image == id })
}
