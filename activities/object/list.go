package object

import (
	"context"
	"regexp"
	"strings"

	"strongroom/compute"
)

// listedAtOnce is how many blobs an adapter is asked for at once, at most.
const listedAtOnce = 1000

const segmentsSuffix = ".segments/"

// segmentsOf is what the names of an object's segments begin with.
func segmentsOf(name string) string { return name + segmentsSuffix }

var goodSegment = regexp.MustCompile(`^([0-9]{8}-[0-9a-f]{64})?$`)

// OfBlob gives the object to which a blob belongs: its manifest, one of its segments, or
// what the names of its segments begin with. Invalid: no object has such a blob.
func OfBlob(blob string) (name string, err error) {
	name, segment, _ := strings.Cut(blob, segmentsSuffix)
	if !goodName.MatchString(name) || !goodSegment.MatchString(segment) {
		return "", compute.Errorf(compute.Invalid, "%q is no part of an object", blob)
	}
	return name, nil
}

// pastSegments is a name behind those of an object's segments, and before all others
// that come after them.
func pastSegments(name string) string { return name + ".segments0" } // '0' follows '/'

// List implements Store. A marker is the name of a blob. An object's manifest comes
// before its segments, of which one is enough to know of it; other objects can be
// between them.
func (s *Segmented) List(ctx context.Context, cred compute.Credential, in ListInput) (ListResult, error) {
	if cred.ProjectID == "" {
		return ListResult{}, compute.Errorf(compute.Forbidden, "objects are listed with a credential of the project that owns them")
	}
	limit := in.Limit
	if limit <= 0 || limit > listedAtOnce {
		limit = listedAtOnce
	}
	blobs, err := s.Blobs.List(ctx, cred, "", in.Marker, limit)
	if err != nil {
		return ListResult{}, err
	}
	var out ListResult
	if len(blobs) == limit {
		out.Next = blobs[limit-1]
	}
	at := map[string]bool{}
	for _, blob := range blobs {
		name, _, isSegment := strings.Cut(blob, segmentsSuffix)
		if isSegment && out.Next != "" {
			out.Next = max(out.Next, pastSegments(name))
		}
		if at[name] {
			continue
		}
		at[name] = true
		item := Item{Name: name, Whole: !isSegment}
		if isSegment { // its manifest may be in the part before, or have come since
			if item.Whole, err = s.exists(ctx, cred, name); err != nil {
				return ListResult{}, err
			}
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func (s *Segmented) exists(ctx context.Context, cred compute.Credential, blob string) (bool, error) {
	_, err := s.Blobs.Size(ctx, cred, blob)
	if compute.Is(err, compute.NotFound) {
		return false, nil
	}
	return err == nil, err
}
