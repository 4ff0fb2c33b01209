// Package audittest gives tests and benchmarks of the audit a ledger and a world of any
// size, a control worker in a process of its own, and the measures of what an audit cost.
package audittest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/schematest"
)

const (
	hosts      = 20
	perServer  = 5   // things on its host, and as many secrets
	projects   = 120 // more than an audit is told of at once
	planted    = 50
	unharmed   = 12 // what looks like a difference and is none
	deployment = "audittest"
)

// Inventory is what exists, and what the ledger says.
type Inventory struct {
	Hosts    []compute.HostID
	OnHost   map[compute.HostID][]compute.Seen
	Secrets  map[string][]string // of each project, sorted
	Findings []compute.Finding   // what an audit must find, sorted
	Things   int                 // open rows of the ledger

	ledger        [][]any
	servers       [][]any
	busy, deleted compute.Owner
}

// NewInventory puts rows of things on twenty hosts into the ledger and as many secrets
// of a key store, and plants fifty differences among them.
func NewInventory(t testing.TB, f *schematest.Fixture, rows int) *Inventory {
	t.Helper()
	inv := &Inventory{OnHost: map[compute.HostID][]compute.Seen{}, Secrets: map[string][]string{}}
	for n := range hosts {
		inv.Hosts = append(inv.Hosts, f.Host(fmt.Sprintf("node-%02d", n), 64, 262144))
	}
	inv.busy, inv.deleted = inv.server("busy"), inv.server("deleted")
	servers := rows / perServer
	for n := range servers {
		things := inv.things(n)
		if at, ok := nth(n, servers, planted); ok {
			inv.plant(at, things)
		} else if at, ok := nth(n+1, servers, unharmed); ok {
			inv.spare(at, things)
		} else {
			for _, thing := range things {
				inv.exists(thing)
				inv.note(thing)
			}
		}
	}
	inv.save(t, f)
	slices.SortFunc(inv.Findings, compute.ByPlace)
	for _, names := range inv.Secrets {
		slices.Sort(names)
	}
	return inv
}

// nth spreads count marks evenly, and gives which of them n is.
func nth(n, of, count int) (int, bool) {
	step := of / count
	return n / step, n%step == 0 && n/step < count
}

func id(name string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(deployment+" "+name)) }

func (inv *Inventory) server(name string) compute.Owner {
	server := id("server " + name)
	inv.servers = append(inv.servers, []any{
		server, schematest.Owner.ProjectID, schematest.Owner.UserID, name, "vm", "r-1", string(compute.VMActive), []byte(`{}`),
	})
	return compute.ServerOwner(compute.ServerID{UUID: server})
}

// things are those of the nth server: on its host, and its secrets.
func (inv *Inventory) things(n int) []compute.Thing {
	owner := inv.server(fmt.Sprint(n))
	server := compute.ServerID{UUID: owner.ID}
	op := compute.OperationID("req-" + id(fmt.Sprint("operation ", n)).String())
	credential := compute.Credential{ID: schematest.Owner.ID, UserID: "u", ProjectID: fmt.Sprintf("%032x", n%projects)}
	host := inv.Hosts[n%hosts].String()
	var out []compute.Thing
	add := func(kind compute.ThingKind, place, name string) {
		out = append(out, compute.Thing{
			ID: uuid.New(), Kind: kind, Place: place, Name: name, Owner: owner, Operation: op, Credential: credential, State: compute.ThingPresent,
		})
	}
	add(compute.ThingDomain, host, compute.InstanceName(server))
	for _, file := range []string{"disk", "disk.eph0", "disk.config"} {
		add(compute.ThingDiskFile, host, server.String()+"/"+file)
	}
	add(compute.ThingTPMState, host, server.String())
	for disk := range perServer {
		plan := compute.DiskSecret(server, op, compute.Disk{Role: compute.EphemeralDisk, Index: disk})
		add(compute.ThingKeySecret, compute.PlaceKeyManager, plan.Name)
	}
	return out
}

func (inv *Inventory) exists(t compute.Thing) {
	if host, ok := t.Host(); ok {
		inv.OnHost[host] = append(inv.OnHost[host], compute.Seen{Kind: t.Kind, Name: t.Name})
	} else {
		inv.Secrets[t.Credential.ProjectID] = append(inv.Secrets[t.Credential.ProjectID], t.Name)
	}
}

var columns = []string{
	"id", "kind", "place", "name", "owner_kind", "owner_id", "operation_id", "credential_id", "project_id", "user_id",
	"state", "blocked_by", "reason", "try_at", "released_at",
}

func (inv *Inventory) note(t compute.Thing) {
	later := time.Now().Add(24 * time.Hour)
	var tryAt, releasedAt *time.Time
	switch t.State {
	case compute.ThingWaiting:
		tryAt = &later
	case compute.ThingReleased:
		releasedAt = &later // while the audit looks
	case compute.ThingIntended, compute.ThingPresent, compute.ThingHandedOver:
	}
	if t.State != compute.ThingReleased && t.State != compute.ThingHandedOver {
		inv.Things++
	}
	inv.ledger = append(inv.ledger, []any{
		t.ID, string(t.Kind), t.Place, t.Name, string(t.Owner.Kind), t.Owner.ID, string(t.Operation), t.Credential.ID, t.Credential.ProjectID, t.Credential.UserID,
		string(t.State), string(t.BlockedBy), t.Reason, tryAt, releasedAt,
	})
}

func (inv *Inventory) save(t testing.TB, f *schematest.Fixture) {
	t.Helper()
	copyRows := func(table string, columns []string, rows [][]any) {
		n, err := f.DB.CopyFrom(context.Background(), pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		require.NoError(t, err)
		require.EqualValues(t, len(rows), n)
	}
	copyRows("servers", []string{"id", "project_id", "user_id", "name", "hostname", "reservation_id", "vm_state", "flavor"}, inv.servers)
	copyRows("ledger", columns, inv.ledger)
	f.Exec("UPDATE servers SET current_operation = 'req-1' WHERE id = $1", inv.busy.ID)
	f.Exec("UPDATE servers SET deleted_at = now(), updated_at = now() - interval '1 hour' WHERE id = $1", inv.deleted.ID)
	inv.ledger, inv.servers = nil, nil
}

// why is as long as what services say.
var why = "the key manager answers 503 Service Unavailable: " + strings.Repeat("no server is available to handle this request. ", 5)
