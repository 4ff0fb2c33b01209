package api

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/schema"
)

// flavorSortKeys are what flavors can be sorted by.
var flavorSortKeys = []string{
	"created_at", "description", "disabled", "ephemeral_gb", "flavorid", "id", "is_public", "memory_mb", "name", "root_gb",
	"rxtx_factor", "swap", "updated_at", "vcpu_weight", "vcpus",
}

// flavorPage gives the flavors that a request lists, and the link to more. There
// are few flavors in a cloud: they are sorted and cut here.
func (a *API) flavorPage(r *Request, collection string) ([]schema.Flavor, []Link, error) {
	filter, err := flavorFilter(r)
	if err != nil {
		return nil, nil, err
	}
	all, err := a.db.ListFlavors(r.Context(), filter)
	if err != nil {
		return nil, nil, err
	}
	order := flavorOrder(r.Query.Get("sort_key"), r.Query.Get("sort_dir") == "desc")
	slices.SortFunc(all, order)
	if marker := r.Marker(); marker != "" {
		last, err := a.flavor(r, marker)
		if err != nil {
			return nil, nil, fault.BadRequest("marker [%s] not found", marker)
		}
		all = slices.DeleteFunc(all, func(f schema.Flavor) bool { return order(f, last) <= 0 })
	}
	page := all[:min(len(all), r.Limit())]
	if len(page) == 0 {
		return page, nil, nil
	}
	return page, r.Next(collection, len(page), page[len(page)-1].ID), nil
}

func flavorFilter(r *Request) (schema.ListFlavorsParams, error) {
	public := true
	filter := schema.ListFlavorsParams{IsPublic: &public, ProjectID: r.ProjectID()}
	if r.IsAdmin() {
		filter.WithDisabled = true
		var err error
		if filter.IsPublic, err = isPublic(r); err != nil {
			return filter, err
		}
	}
	var err error
	if filter.MinMemoryMb, err = flavorMinimum(r, "minRam"); err != nil {
		return filter, err
	}
	filter.MinRootGb, err = flavorMinimum(r, "minDisk")
	return filter, err
}

// isPublic reads a filter of three values: None asks for both kinds.
func isPublic(r *Request) (*bool, error) {
	yes, no := true, false
	if !r.Query.Has("is_public") {
		return &yes, nil
	}
	switch text := r.Query.Get("is_public"); strings.ToLower(text) {
	case "none":
		return nil, nil
	case "1", "t", "true", "on", "y", "yes":
		return &yes, nil
	case "0", "f", "false", "off", "n", "no":
		return &no, nil
	default:
		return nil, fault.BadRequest("Invalid is_public filter [%s]", text)
	}
}

func flavorMinimum(r *Request, name string) (int32, error) {
	if !r.Query.Has(name) {
		return 0, nil
	}
	n, err := strconv.Atoi(r.Query.Get(name))
	if err != nil {
		return 0, fault.BadRequest("Invalid %s filter [%s]", name, r.Query.Get(name))
	}
	return int32(min(max(n, 0), validation.MaxInt)), nil
}

// flavorOrder compares flavors by a sort key; equal ones by id.
func flavorOrder(key string, descending bool) func(a, b schema.Flavor) int {
	return func(a, b schema.Flavor) int {
		c := cmp.Or(compareFlavors(key, a, b), cmp.Compare(a.ID, b.ID))
		if descending {
			return -c
		}
		return c
	}
}

func compareFlavors(key string, a, b schema.Flavor) int {
	switch key {
	case "id":
		return cmp.Compare(a.Number, b.Number)
	case "name":
		return cmp.Compare(a.Name, b.Name)
	case "memory_mb":
		return cmp.Compare(a.MemoryMB, b.MemoryMB)
	case "vcpus":
		return cmp.Compare(a.VCPUs, b.VCPUs)
	case "root_gb":
		return cmp.Compare(a.RootGB, b.RootGB)
	case "ephemeral_gb":
		return cmp.Compare(a.EphemeralGB, b.EphemeralGB)
	case "swap":
		return cmp.Compare(a.SwapMB, b.SwapMB)
	case "rxtx_factor":
		return cmp.Compare(a.RxtxFactor, b.RxtxFactor)
	case "is_public":
		return compareBool(a.IsPublic, b.IsPublic)
	case "disabled":
		return compareBool(a.Disabled, b.Disabled)
	case "description":
		return cmp.Compare(deref(a.Description), deref(b.Description))
	case "created_at":
		return a.CreatedAt.Compare(b.CreatedAt)
	case "updated_at":
		return deref(a.UpdatedAt).Compare(deref(b.UpdatedAt))
	default: // flavorid, and vcpu_weight, which no flavor has
		return 0
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
