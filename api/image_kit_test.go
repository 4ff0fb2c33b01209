package api_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"strongroom/compute"
)

// imageStore holds what a test puts there.
type imageStore struct {
	mu     sync.Mutex
	images map[compute.ImageID]compute.Image
	down   bool
	asked  []string // the markers of lists
}

func (s *imageStore) Image(_ context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(cred, id)
}

func (s *imageStore) find(cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	if s.down {
		return compute.Image{}, compute.Errorf(compute.Unavailable, "the image store does not answer")
	}
	img, ok := s.images[id]
	if !ok || img.Visibility != "public" && img.Owner != cred.ProjectID {
		return compute.Image{}, compute.Errorf(compute.NotFound, "no image %s", id)
	}
	return img, nil
}

// partOfImages is how many images a part of a list has.
const partOfImages = 2

func (s *imageStore) Images(_ context.Context, cred compute.Credential, marker string) (part []compute.Image, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, marker)
	if s.down {
		return nil, "", compute.Errorf(compute.Unavailable, "the image store does not answer")
	}
	all := slices.SortedFunc(maps.Values(s.images), func(a, b compute.Image) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID.String(), a.ID.String()))
	})
	if marker != "" {
		all = all[1+slices.IndexFunc(all, func(img compute.Image) bool { return img.ID.String() == marker }):]
	}
	all = slices.DeleteFunc(all, func(img compute.Image) bool { return img.Visibility != "public" && img.Owner != cred.ProjectID })
	if len(all) <= partOfImages {
		return all, "", nil
	}
	return all[:partOfImages], all[partOfImages-1].ID.String(), nil
}

func (s *imageStore) SetImageProperties(_ context.Context, cred compute.Credential, id compute.ImageID, properties map[string]string) error {
	return s.change(cred, id, func(img compute.Image) {
		img.Properties = properties
		s.images[id] = img
	})
}

func (s *imageStore) DeleteImage(_ context.Context, cred compute.Credential, id compute.ImageID) error {
	return s.change(cred, id, func(compute.Image) { delete(s.images, id) })
}

// change does something to an image that may be changed.
func (s *imageStore) change(cred compute.Credential, id compute.ImageID, do func(compute.Image)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(cred, id)
	if err == nil && (img.Owner != cred.ProjectID || img.Protected) {
		err = compute.Errorf(compute.Forbidden, "image %s belongs to another project, or is protected", id)
	}
	if err == nil {
		do(img)
	}
	return err
}

// put gives the store an image as it is to be.
func (s *imageStore) put(img compute.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[img.ID] = img
}

// addOwnImage adds an image of the member's project; change alters it first.
func (c *cloud) addOwnImage(change func(*compute.Image)) string {
	return c.addImage(func(img *compute.Image) {
		img.Visibility, img.Owner = "private", project
		if change != nil {
			change(img)
		}
	})
}

// properties are those of an image as the store has them.
func (c *cloud) properties(id string) map[string]string {
	return c.imageStore.images[compute.ImageID{UUID: uuid.MustParse(id)}].Properties
}
