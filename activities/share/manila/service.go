// Package manila is a share.Service in OpenStack's Manila.
//
// A rule of ours says so in its metadata, which also names the servers it is for:
// rules are anybody's in Manila, and what a user of the project made is neither taken
// for ours nor removed. From microversion 2.82 on rules have locks of strongroom's
// own user, which go with them; before that nothing keeps a user from removing a rule
// or the share.
package manila

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/activities/share"
	"strongroom/compute"
)

// Service is a share.Service in Manila.
type Service struct {
	Clients openstack.Clients // of the shared file systems API, version 2
	// Patience is how long Allow and Deny wait for the storage; default 40 s.
	Patience time.Duration
	turns    [16]sync.Mutex // by share: see allowing.turn
	hidden   atomic.Bool    // what locks hide is hidden from strongroom: see locker.lock
}

var _ share.Service = (*Service)(nil)

// client gives a client of our own, for the microversion is one of its fields.
func (s *Service) client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if cred.ProjectID == "" {
		return nil, compute.Errorf(compute.Forbidden, "a share is used with a credential of the project that owns it")
	}
	shared, err := s.Clients.Client(ctx, cred)
	if err != nil {
		return nil, openstack.Error(err, "log in to the shared file systems service")
	}
	client := *shared
	client.Microversion = least
	return &client, nil
}

// Get implements share.Service.
func (s *Service) Get(ctx context.Context, cred compute.Credential, id share.ID) (share.Share, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return share.Share{}, err
	}
	return get(ctx, client, cred, id)
}

func get(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id share.ID) (share.Share, error) {
	doc, err := shares.Get(ctx, client, id.String()).Extract()
	if err := openstack.Error(err, fmt.Sprintf("look at share %s", id)); err != nil {
		if compute.Is(err, compute.NotFound) {
			err = share.Missing(id)
		}
		return share.Share{}, err
	}
	if doc.ProjectID != cred.ProjectID && !doc.IsPublic { // an administrator sees more than is his
		return share.Share{}, share.Missing(id)
	}
	return share.Share{
		ID: id, Name: doc.Name, ProjectID: doc.ProjectID, Protocol: share.Protocol(doc.ShareProto),
		SizeGiB: doc.Size, Status: doc.Status, Zone: doc.AvailabilityZone,
	}, nil
}

// owned gives a share of the credential's own project.
func owned(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id share.ID) (share.Share, error) {
	found, err := get(ctx, client, cred, id)
	if err == nil {
		err = found.CheckOwner(cred)
	}
	return found, err
}

// Locations implements share.Service. Those that Manila keeps for administrators
// are left out.
func (s *Service) Locations(ctx context.Context, cred compute.Credential, id share.ID) ([]share.Location, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	if _, err := owned(ctx, client, cred, id); err != nil {
		return nil, err
	}
	docs, err := shares.ListExportLocations(ctx, client, id.String()).Extract()
	if err := openstack.Error(err, fmt.Sprintf("look up the export locations of share %s", id)); err != nil {
		return nil, err
	}
	slices.SortStableFunc(docs, func(a, b shares.ExportLocation) int { return cmp.Compare(rank(a), rank(b)) })
	var locations []share.Location
	for _, doc := range docs {
		if !doc.IsAdminOnly && doc.Path != "" {
			locations = append(locations, share.NewLocation(doc.Path, doc.Preferred))
		}
	}
	if len(locations) == 0 {
		return nil, share.Unexported(id)
	}
	return locations, nil
}

func rank(l shares.ExportLocation) int {
	if l.Preferred {
		return 0
	}
	return 1
}

// AccessKey implements share.Service.
func (s *Service) AccessKey(ctx context.Context, cred compute.Credential, id share.ID, to share.Grantee) (*secret.Passphrase, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	if _, err := owned(ctx, client, cred, id); err != nil {
		return nil, err
	}
	rules, err := rulesOf(ctx, client, id)
	if err != nil {
		return nil, err
	}
	rules = slices.DeleteFunc(rules, func(d document) bool { return !d.ours() || d.leaving() || d.To != share.Hidden && !to.Is(d.grantee()) })
	if i := slices.IndexFunc(rules, func(d document) bool { return d.To != share.Hidden }); i >= 0 {
		return readKey(ctx, client, id, rules[i].ID)
	}
	if len(rules) > 0 {
		return nil, compute.Errorf(compute.Conflict, "the shared file systems service hides whom access rule %s of share %s lets in: "+
			"its rule resource_lock:bypass_locked_show_action should let those see it who show strongroom's service token (docs/shares.md)", rules[0].ID, id)
	}
	return nil, share.NoRule(id, to)
}

// readKey reads a rule's key.
func readKey(ctx context.Context, client *gophercloud.ServiceClient, id share.ID, rule share.RuleID) (*secret.Passphrase, error) {
	var answer struct {
		Access struct {
			ShareID share.ID `json:"share_id"`
			Key     keyText  `json:"access_key"`
		} `json:"access"`
	}
	response, err := client.Get(ctx, client.ServiceURL("share-access-rules", rule.String()), &answer, nil)
	if response != nil {
		response.Body.Close()
	}
	key := secret.New(answer.Access.Key)
	switch err := openstack.Error(err, fmt.Sprintf("look at access rule %s of share %s", rule, id)); {
	case err != nil:
		key.Wipe()
		return nil, err
	case answer.Access.ShareID != id:
		key.Wipe()
		return nil, compute.Errorf(compute.NotFound, "share %s has no access rule %s", id, rule)
	case key.Len() == 0 || bytes.Equal(answer.Access.Key, []byte(share.Hidden)):
		key.Wipe()
		return nil, compute.Errorf(compute.Conflict, "access rule %s of share %s has no key", rule, id)
	}
	return key, nil
}

// List implements share.Service. Manila lists rules per share.
func (s *Service) List(ctx context.Context, cred compute.Credential) ([]share.Rule, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	all, err := listed(ctx, client)
	if err != nil {
		return nil, err
	}
	rules := []share.Rule{}
	for _, doc := range all {
		id, err := shareID(doc.ID)
		if err != nil {
			return nil, err
		}
		found, err := rulesOf(ctx, client, id)
		if err != nil && !compute.Is(err, compute.NotFound) { // deleted since
			return nil, err
		}
		for _, r := range found {
			if r.ours() {
				rules = append(rules, r.rule(id))
			}
		}
	}
	return rules, nil
}

// listed gives the shares that the credential's project can see.
func listed(ctx context.Context, client *gophercloud.ServiceClient) ([]shares.Share, error) {
	var all []shares.Share
	const most = 500
	err := shares.ListDetail(client, shares.ListOpts{Limit: most}).EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		found, err := shares.ExtractShares(page)
		all = append(all, found...)
		return len(found) == most, err
	})
	return all, openstack.Error(err, "list shares")
}

// Standing implements share.Service. Manila pages by number: a share may be on no page while another
// is deleted, so one that is not listed is asked for.
func (s *Service) Standing(ctx context.Context, cred compute.Credential, ids []share.ID) (share.Looked, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return share.Looked{}, err
	}
	all, err := listed(ctx, client)
	if err != nil {
		return share.Looked{}, err
	}
	own := map[string]bool{}
	for _, doc := range all {
		own[doc.ID] = doc.ProjectID == cred.ProjectID
	}
	return share.LookAt(ids, func(id share.ID) ([]share.Rule, error) { return standing(ctx, client, cred, id, own[id.String()]) })
}

// standing gives the rules of a share of the credential's project. A share is missing only where it
// cannot be looked up: what Manila says to a question for its rules may have another cause.
func standing(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id share.ID, isListed bool) ([]share.Rule, error) {
	isOwn := func() error {
		found, err := get(ctx, client, cred, id)
		if err == nil && found.ProjectID != cred.ProjectID {
			err = share.Missing(id)
		}
		return err
	}
	if !isListed {
		if err := isOwn(); err != nil {
			return nil, err
		}
	}
	docs, err := rulesOf(ctx, client, id)
	if compute.Is(err, compute.NotFound) {
		if gone := isOwn(); gone != nil {
			return nil, gone
		}
		err = compute.Errorf(compute.Conflict, "the shared file systems service does not list the access rules of share %s", id)
	}
	rules := make([]share.Rule, len(docs))
	for i, d := range docs {
		rules[i] = d.rule(id)
	}
	return rules, err
}
