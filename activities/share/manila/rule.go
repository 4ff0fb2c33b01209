package manila

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"

	"strongroom/activities/openstack"
	"strongroom/activities/share"
	"strongroom/compute"
)

// The metadata of a rule of ours. Each server has a key of its own, so that two
// that come or go at once do not undo each other's word.
const (
	mark       = "strongroom"
	markText   = "made for the servers named here, and removed after the last of them"
	serverMark = "strongroom-server-" // and the server's id
	serverText = "uses this share"
	// closingMark says that the rule is about to be removed, for the server whose id follows. Who
	// removes it writes that and then looks whom it names; who lets a server in names that and then
	// looks for this: one of the two sees the other, and Manila need not do both in one step. Each
	// has a mark of its own, and nobody erases another's, who may not have looked yet.
	closingMark = "strongroom-closing-"
	closingText = "is being removed, unless a server is named here"
)

func markOf(server compute.ServerID) string { return serverMark + server.String() }

func closingOf(server compute.ServerID) string { return closingMark + server.String() }

// document is an access rule in Manila's words. The key is not among them: it is
// read by AccessKey alone.
type document struct {
	ID       share.RuleID      `json:"id"`
	Kind     share.Kind        `json:"access_type"`
	To       string            `json:"access_to"`
	Level    share.Level       `json:"access_level"`
	State    string            `json:"state"`
	Metadata map[string]string `json:"metadata"`
}

func (d document) grantee() share.Grantee { return share.Grantee{Kind: d.Kind, Name: d.To} }

func (d document) ours() bool {
	_, ok := d.Metadata[mark]
	return ok || len(d.servers()) > 0
}

func (d document) names(server compute.ServerID) bool {
	_, ok := d.Metadata[markOf(server)]
	return ok
}

// isClosing reports whether somebody is about to remove the rule.
func (d document) isClosing() bool {
	for key := range d.Metadata {
		if strings.HasPrefix(key, closingMark) {
			return true
		}
	}
	return false
}

// isClosingFor reports whether a removal of that server's access is about to remove the rule,
// or was cut off when it was.
func (d document) isClosingFor(server compute.ServerID) bool {
	_, ok := d.Metadata[closingOf(server)]
	return ok
}

// servers are those that the rule names.
func (d document) servers() []compute.ServerID {
	servers := []compute.ServerID{}
	for key := range d.Metadata {
		if text, ok := strings.CutPrefix(key, serverMark); ok {
			if id, err := uuid.Parse(text); err == nil {
				servers = append(servers, compute.ServerID{UUID: id})
			}
		}
	}
	return servers
}

// leaving reports whether the rule is being removed.
func (d document) leaving() bool {
	return d.State == share.StateQueuedToDeny || d.State == share.StateDenying
}

func (d document) rule(id share.ID) share.Rule {
	return share.Rule{ID: d.ID, Share: id, To: d.grantee(), Level: d.Level, State: d.State, Servers: d.servers()}
}

// rulesOf gives all rules of a share, others' too.
func rulesOf(ctx context.Context, client *gophercloud.ServiceClient, id share.ID) ([]document, error) {
	var answer struct {
		Rules []document `json:"access_list"`
	}
	address := client.ServiceURL("share-access-rules") + "?" + url.Values{"share_id": {id.String()}}.Encode()
	response, err := client.Get(ctx, address, &answer, nil)
	if response != nil {
		response.Body.Close()
	}
	err = openstack.Error(err, fmt.Sprintf("list the access rules of share %s", id))
	if compute.Is(err, compute.Invalid) { // Manila's answer when there is no such share
		err = share.Missing(id)
	}
	return answer.Rules, err
}

// name makes sure that the rule names the server.
func name(ctx context.Context, client *gophercloud.ServiceClient, rule share.RuleID, server compute.ServerID) error {
	return note(ctx, client, rule, map[string]string{mark: markText, markOf(server): serverText}, fmt.Sprintf("name server %s", server))
}

// note writes keys of a rule's metadata; others stay as they are.
func note(ctx context.Context, client *gophercloud.ServiceClient, rule share.RuleID, keys map[string]string, what string) error {
	body := map[string]any{"metadata": keys}
	response, err := client.Put(ctx, client.ServiceURL("share-access-rules", rule.String(), "metadata"), body, nil,
		&gophercloud.RequestOpts{OkCodes: []int{200}})
	if response != nil {
		response.Body.Close()
	}
	return openstack.Error(err, fmt.Sprintf("%s in access rule %s", what, rule))
}

// unname makes sure that the rule does not name the server.
func unname(ctx context.Context, client *gophercloud.ServiceClient, rule share.RuleID, server compute.ServerID) error {
	return erase(ctx, client, rule, markOf(server), fmt.Sprintf("take server %s out of", server))
}

// erase removes a key of a rule's metadata.
func erase(ctx context.Context, client *gophercloud.ServiceClient, rule share.RuleID, key, what string) error {
	response, err := client.Delete(ctx, client.ServiceURL("share-access-rules", rule.String(), "metadata", key),
		&gophercloud.RequestOpts{OkCodes: []int{200, 202, 204}})
	if response != nil {
		response.Body.Close()
	}
	err = openstack.Error(err, fmt.Sprintf("%s access rule %s", what, rule))
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}

func shareID(text string) (share.ID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return share.ID{}, compute.Errorf(compute.Corrupt, "the shared file systems service gave a share an id that is none")
	}
	return share.ID{UUID: id}, nil
}

// keyText is a text of JSON that is never a string of Go's, which could not be wiped.
type keyText []byte

// UnmarshalJSON takes a string without escapes, or null.
func (k *keyText) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if len(text) < 2 || text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
		return &json.UnmarshalTypeError{Value: "key"}
	}
	*k = append((*k)[:0], text[1:len(text)-1]...)
	return nil
}
