package workflows

import (
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
	// The books are read on both sides of the look: a row comes before its
	// thing, so whatever is seen is on the later books, and what is only on the
	// later ones was made meanwhile.
	var before, after record.Book
	if err := recorded(ctx, record.Ledger, nil, &before); err != nil {
		return AuditResult{}, err
	}
	a := &audit{looked: map[string]bool{}}
	a.keyManager(ctx)
	for _, h := range before.Hosts {
		a.host(ctx, h)
	}
	if err := recorded(ctx, record.Ledger, nil, &after); err != nil {
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
		a.see(compute.ThingKeySecret, compute.PlaceKeyManager, s.Name)
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
	for kind, names := range map[compute.ThingKind][]string{ //workflowcheck:ignore the result is sorted
		compute.ThingDomain: d.Domains, compute.ThingHypervisorSecret: d.Secrets,
		compute.ThingDiskFile: f.Files, compute.ThingTPMState: t.Servers,
	} {
		for _, name := range names {
			a.see(kind, place, name)
		}
	}
}

func (a *audit) note(place, name string, err error) {
	if err != nil {
		a.result.Silent = append(a.result.Silent, name)
		return
	}
	a.looked[place] = true
	a.result.Looked = append(a.result.Looked, name)
}

func (a *audit) see(kind compute.ThingKind, place, name string) {
	a.world = append(a.world, compute.Sighting{Kind: kind, Place: place, Name: name})
}

// settled marks as busy what came onto the books while the audit looked.
func settled(before, after record.Book) []compute.LedgerEntry {
	old := map[uuid.UUID]bool{}
	for _, e := range before.Things {
		old[e.ID] = !e.Busy
	}
	out := after.Things
	for i := range out {
		out[i].Busy = out[i].Busy || !old[out[i].ID]
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
