package workflows

import (
	"cmp"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// AuditName is the registered name of Audit.
const AuditName = "audit"

// AuditResult is the ledger against the world. No findings is the normal answer.
type AuditResult struct {
	Findings []compute.Finding `json:"findings"`
	Things   int               `json:"things"` // open ledger rows
	Looked   []string          `json:"looked"` // hosts and services that answered
	Silent   []string          `json:"silent"` // those that did not
}

// Audit compares the ledger with what hosts and the key manager really have,
// in both directions.
func Audit(ctx workflow.Context) (AuditResult, error) {
	// The books are read on both sides of the look. A row comes before its thing
	// and goes after it, so whatever is seen is on the later books or went off
	// them meanwhile, and what is only on the later ones was made meanwhile.
	var before, after record.Book
	if err := recorded(ctx, record.Ledger, record.LedgerInput{}, &before); err != nil {
		return AuditResult{}, err
	}
	a := &audit{looked: map[string]bool{}}
	a.keyManager(ctx)
	for _, h := range before.Hosts {
		a.host(ctx, h)
	}
	if err := recorded(ctx, record.Ledger, record.LedgerInput{Since: &before.At}, &after); err != nil {
		return AuditResult{}, err
	}
	a.result.Findings = compute.CompareLedger(settled(before, after), a.world, a.looked)
	a.result.Things = len(after.Things)
	return a.result, nil
}

type audit struct {
	world  []compute.Sighting
	looked map[string]bool
	result AuditResult
}

func (a *audit) keyManager(ctx workflow.Context) {
	var secrets []key.Item
	err := workflow.ExecuteActivity(durable.Peek(ctx, durable.CloudQueue), key.Inventory, key.InventoryInput{}).Get(ctx, &secrets)
	a.note(compute.PlaceKeyManager, "the key manager", err)
	for _, s := range secrets {
		a.see(compute.ThingKeySecret, compute.PlaceKeyManager, cmp.Or(s.Name, s.ID.String()))
	}
}

func (a *audit) host(ctx workflow.Context, h record.AuditHost) {
	if !h.Up {
		a.result.Silent = append(a.result.Silent, h.Name)
		return
	}
	place := h.ID.String()
	ctx = durable.Peek(ctx, durable.HostQueue(h.ID))
	domains := workflow.ExecuteActivity(ctx, domain.Inventory)
	disks := workflow.ExecuteActivity(ctx, disk.Inventory)
	tpms := workflow.ExecuteActivity(ctx, tpm.Inventory)
	var d domain.InventoryResult
	var f disk.InventoryResult
	var t tpm.InventoryResult
	err := firstError(domains.Get(ctx, &d), disks.Get(ctx, &f), tpms.Get(ctx, &t))
	if a.note(place, h.Name, err); err != nil {
		return
	}
	a.see(compute.ThingDomain, place, d.Domains...)
	a.see(compute.ThingHypervisorSecret, place, d.Secrets...)
	a.see(compute.ThingDiskFile, place, f.Files...)
	a.see(compute.ThingTPMState, place, t.Servers...)
}

func (a *audit) note(place, name string, err error) {
	if err != nil {
		a.result.Silent = append(a.result.Silent, name)
		return
	}
	a.looked[place] = true
	a.result.Looked = append(a.result.Looked, name)
}

func (a *audit) see(kind compute.ThingKind, place string, names ...string) {
	for _, name := range names {
		a.world = append(a.world, compute.Sighting{Kind: kind, Place: place, Name: name})
	}
}

// settled marks as busy what came onto the books or went off them while the
// audit looked.
func settled(before, after record.Book) []compute.LedgerEntry {
	old := map[uuid.UUID]bool{}
	for _, e := range before.Things {
		old[e.ID] = !e.Busy
	}
	out := after.Things
	for i := range out {
		out[i].Busy = out[i].Busy || !old[out[i].ID]
	}
	for _, t := range after.Gone {
		out = append(out, compute.LedgerEntry{Thing: t, Busy: true})
	}
	return out
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
