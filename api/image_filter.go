package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/compute"
)

// imageFilter reports whether an image is one that a query asks for.
type imageFilter func(compute.Image) bool

// imageFilters reads a query: what the image store is asked for, and which of what it gives are wanted. What is given more than
// once counts the last time, what is unknown not at all.
func imageFilters(query url.Values) (asked ImageList, wanted imageFilter, err error) {
	var all []imageFilter
	for name, values := range query {
		value := values[len(values)-1]
		f, err := imageFilterOf(name, value)
		if err != nil {
			return ImageList{}, nil, err
		}
		all = append(all, f)
		switch name {
		case "name":
			asked.Name = value
		case "status":
			asked.Statuses = storeStatuses(value)
		}
	}
	return asked, func(img compute.Image) bool {
		return !slices.ContainsFunc(all, func(f imageFilter) bool { return !f(img) })
	}, nil
}

// storeStatuses are the image store's that a filter means; nil: it may mean any, or there is none.
func storeStatuses(value string) (all []string) {
	for status, shown := range imageStatuses {
		if strings.EqualFold(status, value) || strings.EqualFold(shown, value) {
			all = append(all, status)
		}
	}
	slices.Sort(all)
	return all
}

func imageFilterOf(name, value string) (imageFilter, error) {
	switch name {
	case "name":
		return func(img compute.Image) bool { return img.Name == value }, nil
	case "status": // the image store's, or as it is shown
		return func(img compute.Image) bool {
			return strings.EqualFold(img.Status, value) || strings.EqualFold(imageStatus(img), value)
		}, nil
	case "server": // an id, or an address that ends with one
		return withProperty(compute.ServerProperty, value[strings.LastIndex(value, "/")+1:]), nil
	case "type":
		return withProperty(compute.TypeProperty, value), nil
	case "minRam":
		return withNumber(name, value, func(img compute.Image) int { return img.MinRAMMB })
	case "minDisk":
		return withNumber(name, value, func(img compute.Image) int { return img.MinDiskGB })
	case "changes-since":
		since, err := validation.ParseTime(value)
		if err != nil {
			return nil, fault.BadRequest("Invalid changes-since value")
		}
		return func(img compute.Image) bool { return !img.UpdatedAt.Before(since) }, nil
	}
	if property, ok := strings.CutPrefix(name, "property-"); ok {
		return withProperty(property, value), nil
	}
	return func(compute.Image) bool { return true }, nil // it is no filter
}

// withProperty is a filter by a property, as far as it is shown.
func withProperty(name, value string) imageFilter {
	return func(img compute.Image) bool {
		has, ok := img.Properties[name]
		return ok && has == value && !compute.OpensImage(name)
	}
}

// withNumber is a filter by a number, which the image store compares exactly.
func withNumber(name, value string, of func(compute.Image) int) (imageFilter, error) {
	n, err := strconv.Atoi(value)
	if err != nil {
		return nil, fault.BadRequest("Invalid %s filter [%s]", name, value)
	}
	return func(img compute.Image) bool { return of(img) == n }, nil
}
