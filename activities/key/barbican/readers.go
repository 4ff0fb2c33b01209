package barbican

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// refusal adds to Barbican's refusal of a read, which never says why, what whoever asked
// can do about it (EE-37, EE-38). A token that has ended is another matter.
func refusal(err error) error {
	var answer *openstack.Answer
	if !errors.As(err, &answer) || answer.Status != http.StatusForbidden {
		return err
	}
	return compute.Errorf(compute.Forbidden, "%w: it needs a role that may read secrets in the secret's own project (usually creator); "+
		"for a secret that is private, or of another project, its owner can add the user to its ACL", err)
}

// readersOf gives the ACL that lets read what those may read that may read a secret: its own, with
// the user who made it. nil: it is no private one, or another project's, which shows its ACL to
// nobody outside. NotFound: it is gone.
func (m *Manager) readersOf(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id compute.SecretID) (acls.SetOpts, error) {
	what := fmt.Sprintf("read the ACL of secret %s", id)
	acl, err := acls.GetSecretACL(ctx, client, id.String()).Extract()
	hidden := compute.Is(openstack.Error(err, what), compute.Forbidden)
	if err != nil && !hidden {
		return nil, openstack.Error(err, what)
	}
	if !hidden {
		if read, ok := (*acl)["read"]; ok && !read.ProjectAccess {
			made, err := secrets.Get(ctx, client, id.String()).Extract()
			if err != nil {
				return nil, openstack.Error(err, what)
			}
			return only(read.Users, made.CreatorID), nil
		}
		return nil, nil
	}
	made, err := secrets.Get(ctx, client, id.String()).Extract()
	if err != nil {
		return nil, refusal(openstack.Error(err, what))
	}
	switch shared, err := m.shared(ctx, client, cred, id, made); {
	case err != nil:
		return nil, err
	case shared:
		return nil, nil
	}
	return only(nil, made.CreatorID, cred.UserID), nil
}

// only gives an ACL that keeps a secret from its project, but for users.
func only(users []string, and ...string) acls.SetOpts {
	users = slices.Clone(users)
	for _, user := range and {
		if user != "" && !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	private := false
	return acls.SetOpts{{Type: "read", Users: &users, ProjectAccess: &private}}
}

// shared reports whether what is made of a secret whose ACL Barbican does not show may be the
// project's. Barbican's new default policies show an ACL to the secret's owner and the project's
// administrators alone, even where it keeps nobody out (EE-37). It may where the secret is another project's, or
// where the user reads it neither as who made it nor by its ACL: then he reads it as the project does.
// What cannot be told counts as private.
func (m *Manager) shared(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id compute.SecretID, made *secrets.Secret) (bool, error) {
	ofProject, err := lists(ctx, client, id, made, secrets.ListOpts{})
	if compute.Is(err, compute.Forbidden) {
		return false, nil
	}
	if err != nil || !ofProject {
		return err == nil, err
	}
	if cred.UserID == "" || cred.IsDeployment() || cred.IsMember() || made.CreatorID == "" || made.CreatorID == cred.UserID {
		return false, nil
	}
	yes := true
	named, err := lists(ctx, client, id, made, secrets.ListOpts{ACLOnly: &yes})
	if err != nil || named {
		return false, err
	}
	value, err := m.Passphrase(ctx, cred, id)
	if err != nil {
		return false, err
	}
	value.Wipe()
	return true, nil
}

// lists reports whether a secret is in a list, or may be: only the first page of those that were made
// from its second on is looked at.
func lists(ctx context.Context, client *gophercloud.ServiceClient, id compute.SecretID, made *secrets.Secret, options secrets.ListOpts) (bool, error) {
	options.CreatedQuery = &secrets.DateQuery{Date: made.Created.Truncate(time.Second), Filter: secrets.DateFilterGTE}
	options.Sort, options.Limit = "created:asc", pageSize
	entries, more, err := page(ctx, client, options)
	if err != nil {
		return false, err
	}
	found := slices.ContainsFunc(entries, func(e entry) bool { return e.id == id.UUID })
	return found || more && !entries[len(entries)-1].created.After(made.Created), nil
}
