package workflows

import (
	"cmp"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/object"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
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
	Closed   []string          `json:"closed"` // where no credential lets strongroom look
}

// Audit compares the ledger with what hosts and cloud services really have,
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
	a.keyManager(ctx, before.Keys)
	if workflow.GetVersion(ctx, "the image and the object store are looked at", workflow.DefaultVersion, 1) == 1 {
		a.imageStore(ctx, before)
		a.objectStore(ctx, before.Objects)
	}
	a.identity(ctx)
	for _, h := range before.Hosts {
		a.host(ctx, h)
	}
	if err := recorded(ctx, record.Ledger, record.LedgerInput{Since: &before.At}, &after); err != nil {
		return AuditResult{}, err
	}
	a.result.Findings = compute.CompareLedger(settled(before, after), a.world, a.looked)
	for _, e := range after.Things {
		if e.State != compute.ThingGiven {
			a.result.Things++
		}
	}
	return a.result, nil
}

type audit struct {
	world  []compute.Sighting
	looked map[string]bool
	result AuditResult
}

func (a *audit) keyManager(ctx workflow.Context, projects []compute.Access) {
	var got key.InventoryResult
	in := key.InventoryInput{Projects: projects}
	err := workflow.ExecuteActivity(durable.Peek(ctx, durable.CloudQueue), key.Inventory, in).Get(ctx, &got)
	for _, s := range got.Items {
		a.see(compute.ThingKeySecret, compute.PlaceKeyManager, cmp.Or(s.Name, s.ID.String()))
	}
	if err == nil && got.All {
		a.looked[compute.PlaceKeyManager] = true
	}
	a.noteProjects(compute.PlaceKeyManager, "the key manager", got.Looks, err)
}

func (a *audit) imageStore(ctx workflow.Context, book record.Book) {
	in := image.InventoryInput{Projects: book.Images}
	for _, e := range book.Things {
		if id, err := uuid.Parse(e.Name); err == nil && e.Kind == compute.ThingImage && e.State != compute.ThingGiven {
			in.Known = append(in.Known, compute.ImageID{UUID: id})
		}
	}
	var got image.InventoryResult
	err := workflow.ExecuteActivity(durable.Peek(ctx, durable.CloudQueue), image.Inventory, in).Get(ctx, &got)
	for _, id := range got.Images {
		a.see(compute.ThingImage, compute.PlaceImageStore, id.String())
	}
	a.noteProjects(compute.PlaceImageStore, "the image store", got.Looks, err)
}

func (a *audit) objectStore(ctx workflow.Context, projects []compute.Access) {
	var got object.InventoryResult
	in := object.InventoryInput{Projects: projects}
	err := workflow.ExecuteActivity(durable.Peek(ctx, durable.CloudQueue), object.Inventory, in).Get(ctx, &got)
	a.see(compute.ThingObject, compute.PlaceObjects, got.Names...)
	a.noteProjects(compute.PlaceObjects, "the object store", got.Looks, err)
}

func (a *audit) identity(ctx workflow.Context) {
	var trusts []trust.Item
	err := workflow.ExecuteActivity(durable.Peek(ctx, durable.CloudQueue), trust.Inventory).Get(ctx, &trusts)
	a.note(compute.PlaceIdentity, "the identity service", err)
	for _, t := range trusts {
		a.see(compute.ThingTrust, compute.PlaceIdentity, t.Name)
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
	a.see(compute.ThingCachedImage, place, f.CachedImages...)
	a.see(compute.ThingTPMState, place, t.Servers...)
}

// answered notes whether a host or a service let itself be looked at.
func (a *audit) answered(name string, err error) bool {
	if err != nil {
		a.result.Silent = append(a.result.Silent, name)
		return false
	}
	a.result.Looked = append(a.result.Looked, name)
	return true
}

func (a *audit) note(place, name string, err error) {
	if a.answered(name, err) {
		a.looked[place] = true
	}
}

// noteProjects is note for a service that is looked at project by project.
func (a *audit) noteProjects(place, name string, looks compute.Looks, err error) {
	if !a.answered(name, err) {
		return
	}
	for _, p := range looks.Projects {
		a.looked[compute.Looked(place, p)] = true
	}
	for _, p := range looks.Closed {
		a.result.Closed = append(a.result.Closed, name+"'s project "+p)
	}
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
