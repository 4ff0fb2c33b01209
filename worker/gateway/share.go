package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"strongroom/activities/share"
	"strongroom/compute"
	"strongroom/worker/pki"
)

// Shares tells where shares are exported, as share.Service does.
type Shares interface {
	Locations(ctx context.Context, cred compute.Credential, id compute.ShareID) ([]share.Location, error)
}

type shareRequest struct {
	purpose
	Share compute.ShareID `json:"share_id"`
}

type shareAnswer struct {
	Sealed []byte `json:"sealed"`
}

// shareContext binds a sealed export location to what was asked for.
func shareContext(host compute.HostID, id compute.ShareID) string {
	return "strongroom export location " + host.String() + " " + id.String()
}

// shareLocation gives the place where one of a server's shares is exported now (SH-30), sealed to
// the host.
func (s *Server) shareLocation(c *call) (any, error) {
	in, err := read[shareRequest](c.body)
	if err != nil {
		return nil, err
	}
	w, err := c.work(c.Context(), in.purpose)
	if err == nil {
		err = w.requireShare(in.Share)
	}
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
	sealed, err := pki.Seal(c.sealingKey, shareContext(c.Records.Host, in.Share), []byte(locations[0].Path()))
	if err != nil {
		return nil, fmt.Errorf("sealing an export location for host %s: %w", c.Name, err)
	}
	return shareAnswer{sealed}, nil
}

// requireShare fails with Forbidden unless the server has the share and an operation that runs
// on it, and may boot it, acts with the credential for what is its owner's.
func (w work) requireShare(id compute.ShareID) error {
	has := slices.ContainsFunc(w.server.Shares, func(m compute.ShareMapping) bool { return m.Share == id })
	for _, op := range w.operations {
		action, err := compute.ActionOf(op.Kind)
		if has && err == nil && action.Boots && w.server.OwnersCredential(op.Credential) == w.Credential {
			return nil
		}
	}
	return compute.Errorf(compute.Forbidden, "no operation that runs on server %s mounts share %s with credential %s", w.Server, id, w.Credential.ID)
}

// Location gives the place where a share is exported, for the operation whose activity calls it.
// Forbidden: the server has no such share, or no operation that boots it acts with the credential
// any more; otherwise as share.Service.
func (k *HostKeys) Location(ctx context.Context, cred compute.Credential, id compute.ShareID) (path string, err error) {
	p, err := purposeOf(ctx, cred)
	if err != nil {
		return "", err
	}
	var answer shareAnswer
	if err := k.ask(ctx, http.MethodPost, pathShare, shareRequest{p, id}, &answer); err != nil {
		return "", err
	}
	opened, err := k.Open(shareContext(k.host, id), compute.SecretID(id), answer.Sealed)
	if err != nil {
		return "", err
	}
	defer opened.Wipe()
	err = opened.Use(func(value []byte) error { path = string(value); return nil })
	return path, err
}
