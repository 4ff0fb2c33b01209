package tpm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"strongroom/compute"
)

// Transfers reads TPM state of other hosts.
type Transfers interface {
	// TPM streams a state folder as a tar, whose sha256 it gives, in hex. Conflict: the guest runs
	// there; Forbidden: the transfer is nobody's. Its reads fail when nothing comes.
	TPM(ctx context.Context, from compute.Agent, t compute.Transfer) (data io.ReadCloser, sum string, err error)
}

// ReceiveInput asks for the TPM state of a server that another host has.
type ReceiveInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"`      // that intends the tpm_state here, on the ledger
	Began     time.Time           `json:"began,omitzero"` // when the operation did
	From      compute.Agent       `json:"from"`
}

// Receive is the activity tpm.Receive: it ensures that the server's state folder is what
// another host has, with swtpm's owner (TPM-02). What is there of another operation makes
// room; what this operation laid down is left alone, since the guest may have started since.
// Conflict: the guest runs on the other host; Forbidden: no operation that runs is to have it
// here; Corrupt: what came is not what the other host says, or no state of a TPM, or the other
// host has none; Unavailable: it does not answer, or broke off.
func (a *Activities) Receive(ctx context.Context, in ReceiveInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	if in.Operation != "" && readMark(a.dir(in.Server)).Operation == in.Operation {
		return nil
	}
	data, sum, err := a.receive(ctx, in)
	if err != nil {
		return failed(in.Server, err)
	}
	return a.layDown(ctx, in.Server, data, mark{Operation: in.Operation, SHA256: sum, Began: in.Began})
}

func (a *Activities) receive(ctx context.Context, in ReceiveInput) (data []byte, sum string, err error) {
	if a.Hosts == nil {
		return nil, "", compute.Errorf(compute.Conflict, "this host receives nothing of others")
	}
	from, said, err := a.Hosts.TPM(ctx, in.From, compute.Transfer{
		Server: in.Server, Operation: in.Operation, Kind: compute.ThingTPMState, Name: in.Server.String(),
	})
	if err != nil {
		return nil, "", err
	}
	defer from.Close()
	data, err = io.ReadAll(io.LimitReader(from, maxState+1))
	digest := sha256.Sum256(data)
	sum = hex.EncodeToString(digest[:])
	switch {
	case err != nil:
		return nil, "", compute.Errorf(cmp.Or(compute.KindOf(err), compute.Unavailable), "the other host broke off: %w", err)
	case len(data) > maxState:
		return nil, "", compute.Errorf(compute.Corrupt, "it has more than %d MiB", maxState>>20)
	case !strings.EqualFold(sum, said):
		return nil, "", compute.Errorf(compute.Corrupt, "its sha256 is another one than the other host says")
	}
	return data, sum, nil
}

// Send gives a server's state folder as a tar, for another host. Whether it may have it, and
// whether the guest is off, the caller has seen.
func (a *Activities) Send(ctx context.Context, server compute.ServerID) ([]byte, error) {
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return a.packed(server, packWhole)
}
