package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"

	"strongroom/activities/mount"
	"strongroom/activities/secret"
	"strongroom/activities/share"
	"strongroom/compute"
	"strongroom/worker/pki"
)

// Shares tells where shares are exported, and with which keys, as share.Service does.
type Shares interface {
	Locations(ctx context.Context, cred compute.Credential, id compute.ShareID) ([]share.Location, error)
	AccessKey(ctx context.Context, cred compute.Credential, id compute.ShareID, to share.Grantee) (*secret.Passphrase, error)
}

type shareRequest struct {
	purpose
	Share compute.ShareID `json:"share_id"`
}

type shareAnswer struct {
	Sealed []byte `json:"sealed"` // what exportText gives
}

// shareContext binds a sealed export to what was asked for.
func shareContext(host compute.HostID, id compute.ShareID) string {
	return "strongroom export " + host.String() + " " + id.String()
}

// shareExport gives the place where one of a server's shares is exported now (SH-30), and the key
// that the host mounts it with, sealed to the host.
func (s *Server) shareExport(c *call) (any, error) {
	in, err := read[shareRequest](c.body)
	if err != nil {
		return nil, err
	}
	w, err := c.work(c.Context(), in.purpose)
	if err != nil {
		return nil, err
	}
	mapping, err := w.requireShare(in.Share)
	if err != nil {
		return nil, err
	}
	locations, err := s.Shares.Locations(c.Context(), in.Credential, in.Share)
	if err != nil {
		return nil, err
	}
	if len(locations) == 0 {
		return nil, share.Unexported(in.Share)
	}
	from := mount.Export{Path: locations[0].Path()}
	if mapping.Protocol == compute.CephFSShare {
		to := share.UserOf(c.Records.Host, in.Share)
		from.User = to.Name
		if from.Key, err = s.Shares.AccessKey(c.Context(), in.Credential, in.Share, to); err != nil {
			return nil, err
		}
		defer from.Key.Wipe()
	}
	text := exportText(from)
	defer clear(text)
	sealed, err := pki.Seal(c.sealingKey, shareContext(c.Records.Host, in.Share), text)
	if err != nil {
		return nil, fmt.Errorf("sealing an export for host %s: %w", c.Name, err)
	}
	return shareAnswer{sealed}, nil
}

// exportText is an export as it is sealed: user, key and path, each but the last ended by a zero.
func exportText(from mount.Export) []byte {
	text := make([]byte, 0, len(from.User)+from.Key.Len()+len(from.Path)+2) // it does not move, and leaves no copy
	text = append(append(text, from.User...), 0)
	_ = from.Key.Use(func(key []byte) error { text = append(text, key...); return nil }) // none: none
	return append(append(text, 0), from.Path...)
}

// readExport reads what exportText gave.
func readExport(text []byte) (mount.Export, bool) {
	parts := bytes.SplitN(text, []byte{0}, 3)
	if len(parts) != 3 {
		return mount.Export{}, false
	}
	from := mount.Export{User: string(parts[0]), Path: string(parts[2])}
	if len(parts[1]) > 0 {
		from.Key = secret.New(bytes.Clone(parts[1]))
	}
	return from, true
}

// requireShare gives a share of the server. Forbidden: it has no such share, or no operation that
// runs on it, and mounts that, acts with the credential for what is its owner's.
func (w work) requireShare(id compute.ShareID) (compute.ShareMapping, error) {
	i := slices.IndexFunc(w.server.Shares, func(m compute.ShareMapping) bool { return m.Share == id })
	for _, op := range w.operations {
		if i >= 0 && mounts(op, id) && w.server.OwnersCredential(op.Credential) == w.Credential {
			return w.server.Shares[i], nil
		}
	}
	return compute.ShareMapping{}, compute.Errorf(compute.Forbidden,
		"no operation that runs on server %s mounts share %s with credential %s", w.Server, id, w.Credential.ID)
}

// mounts reports whether an operation mounts a share of its server: it boots that, or gives its guest the share while that runs.
func mounts(op compute.Operation, id compute.ShareID) bool {
	if action, err := compute.ActionOf(op.Kind); err == nil && action.Boots {
		return true
	}
	if op.Kind != compute.OpShareAttach {
		return false
	}
	in, err := compute.ShareAttach.Read(op.Arguments)
	return err == nil && in.Live && in.Share == id
}

// Export gives the place where a share is exported, and the key for it, for the operation whose
// activity calls it. Forbidden: the server has no such share, or no operation that boots it acts
// with the credential any more; otherwise as share.Service.
func (k *HostKeys) Export(ctx context.Context, cred compute.Credential, id compute.ShareID) (mount.Export, error) {
	p, err := purposeOf(ctx, cred)
	if err != nil {
		return mount.Export{}, err
	}
	var answer shareAnswer
	if err := k.ask(ctx, http.MethodPost, pathShare, shareRequest{p, id}, &answer); err != nil {
		return mount.Export{}, err
	}
	opened, err := k.Open(shareContext(k.host, id), compute.SecretID(id), answer.Sealed)
	if err != nil {
		return mount.Export{}, err
	}
	defer opened.Wipe()
	var from mount.Export
	readable := false
	if err := opened.Use(func(text []byte) error { from, readable = readExport(text); return nil }); err != nil {
		return mount.Export{}, err
	}
	if !readable {
		return mount.Export{}, compute.Errorf(compute.Corrupt, "share %s: where it is exported cannot be read", id)
	}
	return from, nil
}
