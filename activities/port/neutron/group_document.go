package neutron

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/activities/port"
	"strongroom/compute"
)

// group is a security group as Neutron has it.
type group struct {
	ID          port.GroupID `json:"id"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	ProjectID   string       `json:"project_id"`
	Rules       []rule       `json:"security_group_rules"`
}

// rule is one of a security group. gophercloud's has 0 for a port, or a type of ICMP, that there is none of.
type rule struct {
	ID        string        `json:"id"`
	Direction string        `json:"direction"`
	Protocol  string        `json:"protocol"` // null: any
	From      *int          `json:"port_range_min"`
	To        *int          `json:"port_range_max"`
	Prefix    string        `json:"remote_ip_prefix"`
	Sender    *port.GroupID `json:"remote_group_id"`
}

const ingress = "ingress"

// shown gives groups as the api shows them, with the names of those that their rules name.
func shown(ctx context.Context, client *gophercloud.ServiceClient, all []group) ([]compute.SecurityGroup, error) {
	byID := make(map[port.GroupID]group, len(all))
	for _, g := range all {
		byID[g.ID] = g
	}
	senders, err := groupsByID[group](ctx, client, sendersBeside(all, byID), []string{"id", "name", "project_id"})
	if err != nil {
		return nil, err
	}
	for _, g := range senders {
		byID[g.ID] = g
	}
	out := make([]compute.SecurityGroup, len(all))
	for i, g := range all {
		out[i] = g.view(byID)
	}
	return out, nil
}

// sendersBeside gives the groups that rules name as those who may send and that are not known, each once.
func sendersBeside(all []group, known map[port.GroupID]group) []port.GroupID {
	beside := map[port.GroupID]bool{}
	for _, g := range all {
		for _, r := range g.Rules {
			if r.Sender == nil {
				continue
			}
			if _, is := known[*r.Sender]; !is {
				beside[*r.Sender] = true
			}
		}
	}
	return slices.Collect(maps.Keys(beside))
}

// view is a group as the api shows it; those that its rules name are among byID, or not for the requester to see.
func (g group) view(byID map[port.GroupID]group) compute.SecurityGroup {
	out := compute.SecurityGroup{ID: g.ID, Name: g.Name, Description: g.Description, ProjectID: g.ProjectID}
	for _, r := range g.Rules {
		if r.Direction != ingress {
			continue
		}
		one := r.view()
		if r.Sender != nil {
			sender, seen := byID[*r.Sender]
			if !seen {
				continue // Nova leaves out what it cannot name
			}
			one.Group, one.Project = sender.Name, sender.ProjectID
		}
		out.Rules = append(out.Rules, one)
	}
	return out
}

func (r rule) view() compute.SecurityGroupRule {
	return compute.SecurityGroupRule{ID: r.ID, Protocol: strings.ToLower(r.Protocol), From: r.From, To: r.To, Prefix: r.Prefix}
}
