package api_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"strongroom/api"
	"strongroom/compute"
)

// imageStore holds what a test puts there.
type imageStore struct {
	mu     sync.Mutex
	images map[compute.ImageID]compute.Image
	down   bool
	asked  []api.ImageList
	seen   func(*compute.Image)     // what becomes of an image when it was given
	lists  func(compute.Credential) // what happens before a part of a list is given
}

func (s *imageStore) Image(_ context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(cred, id)
	if err == nil && s.seen != nil {
		now := img
		now.Properties = maps.Clone(img.Properties)
		s.seen(&now)
		s.images[id] = now
	}
	return img, err
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

func (s *imageStore) Images(_ context.Context, cred compute.Credential, asked api.ImageList) (api.ImagePart, error) {
	if s.lists != nil {
		s.lists(cred)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asked)
	if s.down {
		return api.ImagePart{}, compute.Errorf(compute.Unavailable, "the image store does not answer")
	}
	all := slices.SortedFunc(maps.Values(s.images), func(a, b compute.Image) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID.String(), a.ID.String()))
	})
	if asked.Marker != "" {
		all = all[1+slices.IndexFunc(all, func(img compute.Image) bool { return img.ID.String() == asked.Marker }):]
	}
	all = slices.DeleteFunc(all, func(img compute.Image) bool {
		return img.Visibility != "public" && img.Owner != cred.ProjectID || asked.Name != "" && img.Name != asked.Name ||
			asked.Statuses != nil && !slices.Contains(asked.Statuses, img.Status)
	})
	most := min(partOfImages, asked.Limit)
	if len(all) <= most {
		return api.ImagePart{Images: all}, nil
	}
	last := all[most-1].ID
	return api.ImagePart{Images: all[:most], Next: last.String(), Last: last}, nil
}

func (s *imageStore) ChangeImage(_ context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(string) bool) (compute.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.own(cred, id)
	if err != nil {
		return img, err
	}
	properties := maps.Clone(img.Properties)
	maps.DeleteFunc(properties, func(name, _ string) bool { return remove(name) })
	maps.Copy(properties, set)
	img.Properties = properties
	s.images[id] = img
	return img, nil
}

func (s *imageStore) DeleteImage(_ context.Context, cred compute.Credential, id compute.ImageID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.own(cred, id)
	if err == nil && img.Protected {
		err = compute.Errorf(compute.Forbidden, "image %s is protected", id)
	}
	if err == nil {
		delete(s.images, id)
	}
	return err
}

// own finds an image that may be changed.
func (s *imageStore) own(cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	img, err := s.find(cred, id)
	if err == nil && img.Owner != cred.ProjectID {
		err = compute.Errorf(compute.Forbidden, "image %s belongs to another project", id)
	}
	return img, err
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
