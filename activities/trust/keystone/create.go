package keystone

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"

	"strongroom/activities/openstack"
	"strongroom/activities/trust"
	"strongroom/compute"
)

// Create implements trust.Keeper. Keystone makes no trust with a token that has ended,
// but one that was made before it ended is there.
func (k *Keeper) Create(ctx context.Context, in trust.CreateInput) (string, error) {
	if err := in.Check(); err != nil {
		return "", err
	}
	id, err := k.create(ctx, in)
	if compute.Is(err, compute.Forbidden) {
		if made, look := k.given(ctx, in); look == nil && made != "" {
			return made, nil
		}
	}
	return id, err
}

// create makes the trust. Keystone keeps deleted trusts until its administrator
// flushes them, and their ends stay taken: then the name's next one is tried.
func (k *Keeper) create(ctx context.Context, in trust.CreateInput) (string, error) {
	client, err := k.Cloud.Clients(identity).Client(ctx, in.Credential)
	if err != nil {
		return "", openstack.Error(err, "log in to the identity service")
	}
	roles, err := k.delegable(client)
	if err != nil {
		return "", err
	}
	for n := range lives {
		id, err := k.give(ctx, client, roles, in, n)
		switch {
		case err == nil:
			return id, nil
		case !compute.Is(err, compute.Conflict) && !compute.Is(err, compute.Unavailable):
			return "", err
		}
		// There is one, or there was, or its answer got lost.
		switch id, look := k.given(ctx, in); {
		case look != nil:
			return "", look
		case id != "":
			return id, nil
		case compute.Is(err, compute.Unavailable):
			return "", err
		}
	}
	return "", compute.Errorf(compute.Conflict, "trusts of the name %s were made and deleted %d times", in.Name, lives)
}

// delegable gives those roles of the client's token that trusts delegate. Forbidden: it has
// none of them, or cannot delegate.
// The identity service would refuse as well, but not for sure: one that works with
// threads may look at the token of another request.
func (k *Keeper) delegable(client *gophercloud.ServiceClient) ([]trusts.Role, error) {
	var token struct {
		Roles                 []trusts.Role `json:"roles"`
		ApplicationCredential *struct{}     `json:"application_credential"`
		Trust                 *struct{}     `json:"OS-TRUST:trust"`
	}
	said, ok := client.GetAuthResult().(interface{ ExtractInto(v any) error })
	if !ok {
		return nil, compute.Errorf(compute.Unavailable, "the identity service did not say whose the token is")
	}
	if err := said.ExtractInto(&token); err != nil {
		return nil, openstack.Error(err, "look at the token")
	}
	switch {
	case token.ApplicationCredential != nil:
		return nil, compute.Errorf(compute.Forbidden,
			"application credentials cannot delegate: nobody can make a trust with one; log in with a password or single sign-on")
	case token.Trust != nil:
		return nil, compute.Errorf(compute.Forbidden, "what was delegated by a trust cannot be passed on by another one")
	}
	var roles []trusts.Role
	for _, r := range token.Roles {
		if slices.Contains(k.Roles, r.Name) {
			roles = append(roles, trusts.Role{ID: r.ID}) // by id or by name, not by both
		}
	}
	if len(roles) == 0 {
		return nil, compute.Errorf(compute.Forbidden, "a server whose keys are delegated needs a token with one of the roles %s", strings.Join(k.Roles, ", "))
	}
	return roles, nil
}

// refusals is how often a token that can delegate must be refused to be believed: see
// delegable.
const refusals = 3

// give makes the trust that ends at the name's n-th moment. Conflict: there is one,
// or there was.
func (k *Keeper) give(ctx context.Context, client *gophercloud.ServiceClient, roles []trusts.Role, in trust.CreateInput, n int) (string, error) {
	ends := end(in.Name, n)
	opts := creation{name: in.Name, CreateOpts: trusts.CreateOpts{
		Impersonation: true, TrustorUserID: in.Credential.UserID, TrusteeUserID: k.Cloud.User(), ProjectID: in.Credential.ProjectID,
		Roles: roles, ExpiresAt: &ends,
	}}
	var err error
	for range refusals {
		var made *trusts.Trust
		made, err = trusts.Create(ctx, client, opts).Extract()
		if err = openstack.Error(err, "make a trust"); err == nil {
			return made.ID, nil
		}
		if !compute.Is(err, compute.Forbidden) {
			break
		}
	}
	var answer *openstack.Answer
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		err = compute.Errorf(compute.Forbidden, "the token ended before it could delegate anything, ask again with a new one: %w", err)
	case compute.Is(err, compute.NotFound):
		err = compute.Errorf(compute.Forbidden, "a role of the token, or a user, is gone: %w", err)
	}
	return "", err
}

// given finds the trust of the name.
func (k *Keeper) given(ctx context.Context, in trust.CreateInput) (string, error) {
	all, err := k.all(ctx)
	for _, t := range all {
		if t == (trust.Item{ID: t.ID, Name: in.Name, ProjectID: in.Credential.ProjectID, UserID: in.Credential.UserID}) {
			return t.ID, err
		}
	}
	return "", err
}

// creation is a request for a trust with a name.
type creation struct {
	trusts.CreateOpts
	name string
}

// ToTrustCreateMap implements trusts.CreateOptsBuilder.
func (c creation) ToTrustCreateMap() (map[string]any, error) {
	body, err := c.CreateOpts.ToTrustCreateMap()
	if err != nil {
		return nil, err
	}
	inner, ok := body["trust"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no trust in %T", body["trust"])
	}
	inner["strongroom"] = c.name
	return body, nil
}

// lives bounds how many trusts of one name there can be, one after the other.
const lives = 100

// end is when the n-th trust of a name ends: a second of the 136 years that begin
// with 2200. Where two names fall on one second, the later one takes its next.
func end(name string, n int) time.Time {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, n))
	return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(binary.BigEndian.Uint32(sum[:])) * time.Second)
}
