// Package local is an object store in a folder: a folder per project and a file
// per blob.
package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"strongroom/activities/folder"
	"strongroom/activities/object"
	"strongroom/compute"
)

// Blobs are the files of a folder.
type Blobs struct{ dir string }

var _ object.Blobs = (*Blobs)(nil)

// Open opens the folder, made if absent, mode 0700.
func Open(dir string) (*object.Segmented, error) {
	if _, err := folder.Open(dir); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "open the objects' folder: %w", err)
	}
	return &object.Segmented{Blobs: &Blobs{dir: dir}}, nil
}

var goodProject = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

func (b *Blobs) project(cred compute.Credential) (folder.Folder, error) {
	if !goodProject.MatchString(cred.ProjectID) {
		return folder.Folder{}, compute.Errorf(compute.Forbidden, "%q is no project's id", cred.ProjectID)
	}
	return folder.Folder{Path: filepath.Join(b.dir, cred.ProjectID)}, nil
}

// fileName has no slash; names of blobs have no percent sign.
func fileName(name string) string { return strings.ReplaceAll(name, "/", "%2F") }

func failed(what, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return compute.Errorf(compute.NotFound, "there is no object %s", name)
	}
	return compute.Errorf(compute.Unavailable, "%s object %s: %w", what, name, err)
}

// Put implements object.Blobs.
func (b *Blobs) Put(_ context.Context, cred compute.Credential, name string, data io.ReadSeeker) error {
	project, err := b.project(cred)
	if err != nil {
		return err
	}
	if project, err = folder.Open(project.Path); err != nil {
		return failed("store", name, err)
	}
	draft, err := project.Draft()
	if err != nil {
		return failed("store", name, err)
	}
	defer draft.Discard()
	if _, err := io.Copy(draft, data); err != nil {
		return failed("store", name, err)
	}
	if err := draft.Keep(fileName(name)); err != nil {
		return failed("store", name, err)
	}
	return nil
}

// Size implements object.Blobs.
func (b *Blobs) Size(_ context.Context, cred compute.Credential, name string) (int64, error) {
	project, err := b.project(cred)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(project.File(fileName(name)))
	if err != nil {
		return 0, failed("look at", name, err)
	}
	return info.Size(), nil
}

// Open implements object.Blobs.
func (b *Blobs) Open(_ context.Context, cred compute.Credential, name string) (io.ReadCloser, error) {
	project, err := b.project(cred)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(project.File(fileName(name)))
	if err != nil {
		return nil, failed("read", name, err)
	}
	return file, nil
}

// Delete implements object.Blobs.
func (b *Blobs) Delete(_ context.Context, cred compute.Credential, name string) error {
	project, err := b.project(cred)
	if err != nil {
		return err
	}
	if err := project.Remove(fileName(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("delete", name, err)
	}
	return nil
}

// List implements object.Blobs.
func (b *Blobs) List(_ context.Context, cred compute.Credential, prefix, after string, limit int) ([]string, error) {
	project, err := b.project(cred)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(project.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, compute.Errorf(compute.Unavailable, "list objects: %w", err)
	}
	var names []string
	for _, e := range entries {
		name, err := url.PathUnescape(e.Name())
		if err == nil && !strings.HasPrefix(name, ".") && strings.HasPrefix(name, prefix) && name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(limit, len(names))], nil
}
