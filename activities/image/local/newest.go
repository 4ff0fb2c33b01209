package local

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/image"
	"strongroom/compute"
)

// place is where an image stands among the newest.
type place struct {
	id      compute.ImageID
	made    time.Time
	written time.Time // the record that says so
}

// places are those of all images as they were last: a list in parts would read every record for each of them.
type places struct {
	mu sync.Mutex
	of map[compute.ImageID]place
}

// newest is List with the newest first. A marker is the last one's id, and when that was made: it may be deleted meanwhile.
func (l *Library) newest(cred compute.Credential, in image.ListInput) (image.ListResult, error) {
	order, err := l.order()
	if err != nil {
		return image.ListResult{}, err
	}
	if in.Marker != "" {
		last, err := l.marked(cred, in.Marker)
		if err != nil {
			return image.ListResult{}, err
		}
		at, there := slices.BinarySearchFunc(order, last, newer)
		if there {
			at++
		}
		order = order[at:]
	}
	var out image.ListResult
	var last place
	for _, p := range order {
		if in.IDs != nil && !slices.Contains(in.IDs, p.id) {
			continue
		}
		if in.Limit > 0 && len(out.Images) == in.Limit {
			out.Last, out.Next = last.id, last.id.String()+"@"+last.made.Format(time.RFC3339)
			break
		}
		last = p
		if out.Images, err = l.appendListed(out.Images, cred, in, p.id); err != nil {
			return image.ListResult{}, err
		}
	}
	return out, nil
}

// order gives the places of all images, the newest first.
func (l *Library) order() ([]place, error) {
	ids, err := l.files.ids()
	if err != nil {
		return nil, err
	}
	l.places.mu.Lock()
	defer l.places.mu.Unlock()
	now := make(map[compute.ImageID]place, len(ids))
	for _, id := range ids {
		p, err := l.place(id)
		switch {
		case compute.Is(err, compute.NotFound), compute.Is(err, compute.Corrupt):
			continue
		case err != nil:
			return nil, err
		}
		now[id] = p
	}
	l.places.of = now
	return slices.SortedFunc(maps.Values(now), newer), nil
}

// place gives an image's place. A record that nobody has written since is not read again.
func (l *Library) place(id compute.ImageID) (place, error) {
	written, err := l.files.written(id)
	if err != nil {
		return place{}, err
	}
	if p, known := l.places.of[id]; known && p.written.Equal(written) {
		return p, nil
	}
	img, err := l.files.read(id)
	return place{id, img.CreatedAt, written}, err
}

// newer sorts the newest first. The id settles what is equal.
func newer(a, b place) int {
	return cmp.Or(b.made.Compare(a.made), bytes.Compare(b.id.UUID[:], a.id.UUID[:]))
}

// marked gives the place that a marker says, of the last image that was given.
func (l *Library) marked(cred compute.Credential, marker string) (place, error) {
	text, made, complete := strings.Cut(marker, "@")
	id, err := uuid.Parse(text)
	if err == nil && !complete {
		if img, err := l.visible(cred, compute.ImageID{UUID: id}); !compute.Is(err, compute.NotFound) {
			return place{id: img.ID, made: img.CreatedAt}, err
		}
	}
	at, timeErr := time.Parse(time.RFC3339, made)
	if err != nil || timeErr != nil {
		return place{}, compute.Errorf(compute.Invalid, "no image is the marker of a list")
	}
	return place{id: compute.ImageID{UUID: id}, made: at}, nil
}
