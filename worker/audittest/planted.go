package audittest

import (
	"fmt"
	"slices"

	"strongroom/compute"
	"strongroom/schema/schematest"
)

// planting makes a difference of a thing.
type planting struct {
	what compute.Verdict
	make func(inv *Inventory, t compute.Thing, nth int) compute.Thing
}

var plantings = []planting{
	{compute.Unowned, func(inv *Inventory, t compute.Thing, _ int) compute.Thing {
		inv.exists(t)
		return t
	}},
	{compute.Missing, func(inv *Inventory, t compute.Thing, _ int) compute.Thing {
		inv.note(t)
		return t
	}},
	{compute.Leftover, func(inv *Inventory, t compute.Thing, _ int) compute.Thing {
		t.Owner = inv.deleted
		inv.exists(t)
		inv.note(t)
		return t
	}},
	{compute.Unsure, func(inv *Inventory, t compute.Thing, nth int) compute.Thing {
		t.State = compute.ThingIntended
		return inv.perhaps(t, nth)
	}},
	{compute.Waiting, waiting(compute.BlockedByCredential)},
	{compute.Late, waiting(compute.BlockedByTime)},
	{compute.Behind, waiting(compute.BlockedByThings)},
	{compute.Failing, waiting(compute.BlockedByError)},
	{compute.Stranded, waiting(compute.BlockedByHost)},
}

func waiting(by compute.Blocker) func(*Inventory, compute.Thing, int) compute.Thing {
	return func(inv *Inventory, t compute.Thing, nth int) compute.Thing {
		return inv.perhaps(t.Waits(by, why), nth)
	}
}

// perhaps notes a thing that may exist or not.
func (inv *Inventory) perhaps(t compute.Thing, nth int) compute.Thing {
	if nth%2 == 0 {
		inv.exists(t)
	}
	inv.note(t)
	return t
}

// plant makes the nth difference of one of a server's things, on its host and in the key
// store in turn. No secret waits for a host.
func (inv *Inventory) plant(nth int, things []compute.Thing) {
	of, kinds := things[:perServer], plantings
	if nth%2 == 1 {
		of, kinds = things[perServer:], plantings[:len(plantings)-1]
	}
	p, chosen := kinds[nth/2%len(kinds)], of[nth/2%perServer]
	for _, thing := range things {
		if thing.ID == chosen.ID {
			continue
		}
		inv.exists(thing)
		inv.note(thing)
	}
	t := p.make(inv, chosen, nth/2/len(kinds))
	found := compute.LedgerEntry{Thing: t, Project: schematest.Owner.ProjectID}.Finding(p.what)
	if p.what == compute.Unowned {
		found.Owner = ""
	}
	inv.Findings = append(inv.Findings, found)
}

// spare makes the nth of what is in motion, or none of the audit's business.
func (inv *Inventory) spare(nth int, things []compute.Thing) {
	for i, thing := range things {
		if i != nth%len(things) {
			inv.exists(thing)
			inv.note(thing)
			continue
		}
		switch nth % 4 {
		case 0: // being made
			thing.Owner, thing.State = inv.busy, compute.ThingIntended
			inv.note(thing)
		case 1: // being removed
			thing.Owner = inv.busy
			inv.note(thing)
		case 2: // removed while the audit looks
			thing.State = compute.ThingReleased
			inv.exists(thing)
			inv.note(thing)
		case 3: // the user's own by now
			thing.State = compute.ThingHandedOver
			inv.note(thing)
		}
	}
}

// Planted counts the planted differences by what they are and where.
func (inv *Inventory) Planted() map[string]int {
	out := map[string]int{}
	for _, f := range inv.Findings {
		where := "on a host"
		if !slices.ContainsFunc(inv.Hosts, func(h compute.HostID) bool { return h.String() == f.Place }) {
			where = "in the key store"
		}
		out[fmt.Sprintf("%s %s", f.What, where)]++
	}
	return out
}
