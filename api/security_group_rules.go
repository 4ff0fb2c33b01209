package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

// securityGroupRules are what security groups of the network service let in, as Nova adds and removes it to 2.35.
func (a *API) securityGroupRules() Resource {
	const (
		create, remove = securityRule + "rule:create", securityRule + "rule:delete"
		path           = "/os-security-group-rules"
	)
	return Resource{
		Rules: policy.Rules{create: policy.ProjectMemberOrAdmin, remove: policy.ProjectMemberOrAdmin},
		Routes: []Route{
			{Method: http.MethodPost, Path: path, Max: proxiesUntil, Rule: create, Body: securityGroupRuleBody, Handle: a.withGroups(createSecurityGroupRule)},
			{Method: http.MethodDelete, Path: path + "/:id", Max: proxiesUntil, Rule: remove, Status: http.StatusAccepted, Handle: a.withGroups(deleteSecurityGroupRule)},
		},
	}
}

var (
	securityGroupRuleProperties = validation.Properties{
		"parent_group_id": validation.UUID, "group_id": {"type": []string{"string", "null"}, "format": "uuid"},
		"ip_protocol": {"type": []string{"string", "null"}}, "cidr": {"type": []string{"string", "null"}},
		"from_port": {"type": []string{"integer", "string", "null"}}, "to_port": {"type": []string{"integer", "string", "null"}},
	}
	securityGroupRuleBody = validation.Always(within("security_group_rule", []string{"parent_group_id"}, securityGroupRuleProperties))
)

// ruleRequest is what a request says of a rule.
type ruleRequest struct {
	Parent   string                   `json:"parent_group_id"`
	Group    *string                  `json:"group_id"`
	Protocol string                   `json:"ip_protocol"`
	From     *validation.TextOrNumber `json:"from_port"`
	To       *validation.TextOrNumber `json:"to_port"`
	CIDR     string                   `json:"cidr"`
}

func createSecurityGroupRule(r *Request, groups OwnGroups) (any, error) {
	var asked ruleRequest
	if err := decodeWithin(r, "security_group_rule", securityGroupRuleProperties, &asked); err != nil {
		return nil, err
	}
	id, err := groupID(asked.Parent)
	if err != nil {
		return nil, err
	}
	parent, err := groups.GetGroup(r.Context(), r.Credential(), id)
	if err != nil {
		return nil, err
	}
	rule, err := asked.read(r, groups)
	if err != nil {
		return nil, err
	}
	if isThere(parent, rule) {
		return nil, fault.BadRequest("This rule already exists in group %s", parent.ID)
	}
	made, err := groups.CreateRule(r.Context(), r.Credential(), parent.ID, rule)
	made.Group, made.Project = rule.Group, rule.Project
	return map[string]any{"security_group_rule": viewRule(parent, made)}, err
}

func deleteSecurityGroupRule(r *Request, groups OwnGroups) (any, error) {
	id, err := groupID(r.Param("id"))
	if err != nil {
		return nil, err
	}
	return nil, groups.DeleteRule(r.Context(), r.Credential(), id.UUID)
}

// isThere reports whether a group has a rule that is shown as this one is. As in Nova, of one that names a group the service knows.
func isThere(g compute.SecurityGroup, rule compute.SecurityGroupRule) bool {
	return rule.GroupID == nil && slices.ContainsFunc(g.Rules, func(o compute.SecurityGroupRule) bool {
		o.ID = rule.ID
		return reflect.DeepEqual(viewRule(g, o), viewRule(g, rule))
	})
}

// read reads who may send, and what.
func (in ruleRequest) read(r *Request, groups OwnGroups) (rule compute.SecurityGroupRule, err error) {
	if in.Group == nil {
		rule.Prefix, err = readCIDR(in.CIDR)
	} else {
		err = in.readGroup(r, groups, &rule)
	}
	if err != nil {
		return rule, err
	}
	return rule, in.readPorts(&rule)
}

func (in ruleRequest) readGroup(r *Request, groups OwnGroups, rule *compute.SecurityGroupRule) error {
	id, err := groupID(*in.Group)
	if err != nil {
		return err
	}
	sender, err := groups.GetGroup(r.Context(), r.Credential(), id)
	rule.GroupID, rule.Group, rule.Project = &sender.ID, sender.Name, sender.ProjectID
	return err
}

// readCIDR reads a range of addresses; "" is that of all of IPv4.
func readCIDR(text string) (string, error) {
	if text == "" {
		return "0.0.0.0/0", nil
	}
	plain, err := url.PathUnescape(text)
	prefix, noPrefix := netip.ParsePrefix(plain)
	switch {
	case err != nil || noPrefix != nil:
		return "", fault.BadRequest("%s is not a valid IP network.", text)
	case prefix.Bits() == 0 && !prefix.Addr().IsUnspecified():
		return "", fault.BadRequest("Bad prefix for network in cidr %s", plain)
	}
	return plain, nil
}

// readPorts reads protocol and ports, with Nova's texts. Who names a group need not say them: all are meant. What is said in part
// is refused, where Nova lets every protocol in.
func (in ruleRequest) readPorts(rule *compute.SecurityGroupRule) error {
	from, to := in.From, in.To
	rule.Protocol = strings.ToLower(in.Protocol)
	if rule.GroupID != nil && from == nil && to == nil {
		switch rule.Protocol {
		case "", "icmp":
			return nil
		case "tcp", "udp":
			least, most := 1, 65535
			rule.From, rule.To = &least, &most
			return nil
		}
	}
	if rule.Protocol == "" || from == nil || to == nil {
		return fault.BadRequest("Not enough parameters to build a valid rule.")
	}
	least, noLeast := strconv.Atoi(string(*from))
	most, noMost := strconv.Atoi(string(*to))
	if noLeast != nil || noMost != nil {
		if rule.Protocol == "icmp" {
			return fault.BadRequest("Invalid input received: Type and Code must be integers for ICMP protocol type")
		}
		return fault.BadRequest("Invalid input received: To and From ports must be integers")
	}
	rule.From, rule.To = given(least), given(most)
	return checkPorts(in.Protocol, least, most)
}

// given is a port, or a type or code of ICMP; nil: -1, which is any.
func given(n int) *int {
	if n == -1 {
		return nil
	}
	return &n
}

func checkPorts(protocol string, from, to int) error {
	refuse := func(why string) error { return fault.BadRequest("Invalid port range %d:%d. %s", from, to, why) }
	switch upper := strings.ToUpper(protocol); upper {
	case "ICMP":
		if from < -1 || from > 255 || to < -1 || to > 255 {
			return refuse("For ICMP, the type:code must be valid")
		}
	case "TCP", "UDP":
		switch {
		case from > to:
			return refuse("Former value cannot be greater than the later")
		case from < 1 || to > 65535:
			return refuse("Valid " + upper + " ports should be between 1-65535")
		}
	default:
		return fault.BadRequest("Invalid IP protocol %s.", protocol)
	}
	return nil
}
