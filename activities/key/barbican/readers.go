package barbican

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

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
// the user who made it. nil: it is no private one, it is gone, or it is another project's, which
// shows its ACL to nobody outside.
func readersOf(ctx context.Context, client *gophercloud.ServiceClient, id compute.SecretID) (acls.SetOpts, error) {
	what := fmt.Sprintf("read the ACL of secret %s", id)
	acl, err := acls.GetSecretACL(ctx, client, id.String()).Extract()
	if err = openstack.Error(err, what); compute.Is(err, compute.Forbidden) || compute.Is(err, compute.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	read, ok := (*acl)["read"]
	if !ok || read.ProjectAccess {
		return nil, nil
	}
	made, err := secrets.Get(ctx, client, id.String()).Extract()
	if err != nil {
		return nil, openstack.Error(err, what)
	}
	users := read.Users
	if made.CreatorID != "" && !slices.Contains(users, made.CreatorID) {
		users = append(users, made.CreatorID)
	}
	private := false
	return acls.SetOpts{{Type: "read", Users: &users, ProjectAccess: &private}}, nil
}
