package tpm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities of backups, which are made while the guest runs, too.
var (
	Digest = durable.HostActivity[DigestInput, DigestResult]{Name: "tpm.Digest",
		Summary: func(in DigestInput) string {
			return "see whether TPM state of server " + in.Server.String() + " has changed"
		}}
	BackUp = durable.HostActivity[SaveInput, SaveResult]{Name: "tpm.BackUp",
		Summary: func(in SaveInput) string { return "back up TPM state of server " + in.Server.String() }}
)

// DigestInput names a server.
type DigestInput struct {
	Server compute.ServerID `json:"server"`
}

// DigestResult says what BackUp would store.
type DigestResult struct {
	SHA256 string `json:"sha256"` // hex
}

// Digest is the activity tpm.Digest. Corrupt: there is no state, or it is none of swtpm's.
func (a *Activities) Digest(ctx context.Context, in DigestInput) (DigestResult, error) {
	data, err := a.permanent(ctx, in.Server)
	if err != nil {
		return DigestResult{}, err
	}
	return DigestResult{SHA256: digest(data)}, nil
}

// BackUp is the activity tpm.BackUp: it ensures that the object has what the server's vTPM keeps
// without power, as a tar that Restore takes. The guest may run: it is what the vTPM would have if
// the power went now. A retry that finds the object leaves it as it is, and says what it has.
// Corrupt: there is no state, or it is none of swtpm's; otherwise as the object store says.
func (a *Activities) BackUp(ctx context.Context, in SaveInput) (SaveResult, error) {
	data, err := a.permanent(ctx, in.Server)
	if err != nil {
		return SaveResult{}, err
	}
	err = a.Objects.Put(ctx, in.Credential, in.Object, int64(len(data)), bytes.NewReader(data))
	if compute.Is(err, compute.Conflict) { // an attempt before stored what it was then
		return a.storedAs(ctx, in)
	}
	if err != nil {
		return SaveResult{}, err
	}
	return SaveResult{SizeBytes: int64(len(data)), SHA256: digest(data)}, nil
}

func (a *Activities) permanent(ctx context.Context, server compute.ServerID) ([]byte, error) {
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return a.packed(server, packPermanent)
}

func (a *Activities) storedAs(ctx context.Context, in SaveInput) (SaveResult, error) {
	from, err := a.Objects.Open(ctx, in.Credential, in.Object)
	if err != nil {
		return SaveResult{}, err
	}
	defer from.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, io.LimitReader(from, maxState+1))
	if err != nil {
		return SaveResult{}, err
	}
	return SaveResult{SizeBytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
