package local

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/activities/share"
	"strongroom/compute"
)

const (
	recordFile = "share.json" // there is a share when there is its record
	dataDir    = "data"
	zone       = "nova"
)

// Service is a share.Service in a folder.
type Service struct{ root folder.Folder }

var _ share.Service = (*Service)(nil)

// Open opens the folder dir (made if absent, mode 0700) and clears what a Create or
// Delete that died left in it.
func Open(dir string) (*Service, error) {
	root, err := folder.Open(dir)
	if err != nil {
		return nil, unavailable("open the shares' folder", err)
	}
	s := &Service{root: root}
	unlock, err := lock(context.Background(), root)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if _, err := os.Stat(s.folder(id).File(recordFile)); errors.Is(err, fs.ErrNotExist) {
			if err := os.RemoveAll(s.folder(id).Path); err != nil {
				return nil, unavailable("clear the shares' folder", err)
			}
		} else if err := s.folder(id).Tidy(); err != nil {
			return nil, unavailable("clear the shares' folder", err)
		}
	}
	return s, nil
}

// Create makes an empty share of the credential's project.
func (s *Service) Create(ctx context.Context, cred compute.Credential, name string, sizeGiB int) (share.Share, error) {
	if cred.ProjectID == "" {
		return share.Share{}, compute.Errorf(compute.Forbidden, "a share needs a project that owns it")
	}
	made := share.Share{
		ID: share.ID{UUID: uuid.New()}, Name: name, ProjectID: cred.ProjectID, Protocol: share.Local,
		SizeGiB: sizeGiB, Status: share.StatusAvailable, Zone: zone,
	}
	unlock, err := lock(ctx, s.root)
	if err != nil {
		return share.Share{}, err
	}
	defer unlock()
	f := s.folder(made.ID)
	if err := os.MkdirAll(f.File(dataDir), 0o700); err != nil {
		return share.Share{}, unavailable("make a share", err)
	}
	if err := os.Chmod(f.File(dataDir), 0o755); err != nil {
		return share.Share{}, unavailable("make a share", err)
	}
	if err := write(f, recordFile, made); err != nil {
		return share.Share{}, err
	}
	if err := s.root.Sync(); err != nil {
		return share.Share{}, unavailable("make a share", err)
	}
	return made, nil
}

// Delete removes a share of the credential's project and its data. NotFound: there is
// none; Conflict: a server uses it (SH-09).
func (s *Service) Delete(ctx context.Context, cred compute.Credential, id share.ID) error {
	unlockRoot, err := lock(ctx, s.root)
	if err != nil {
		return err
	}
	defer unlockRoot()
	f, unlock, err := s.open(ctx, cred, id)
	if err != nil {
		return err
	}
	defer unlock()
	rules, err := rulesIn(f)
	if err != nil {
		return err
	}
	if len(rules) > 0 {
		return compute.Errorf(compute.Conflict, "share %s is in use: access rule %s", id, rules[0].ID)
	}
	if err := f.Remove(recordFile); err != nil {
		return unavailable("delete a share", err)
	}
	if err := os.RemoveAll(f.Path); err != nil { // the next Open does what this did not
		return unavailable("delete a share", err)
	}
	return nil
}

// Shares gives the shares of the credential's project, in the order of their names.
func (s *Service) Shares(ctx context.Context, cred compute.Credential) ([]share.Share, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	out := []share.Share{}
	for _, id := range ids {
		found, err := s.Get(ctx, cred, id)
		if compute.Is(err, compute.NotFound) { // another project's, or deleted since
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, found)
	}
	slices.SortFunc(out, func(a, b share.Share) int { return strings.Compare(a.Name+a.ID.String(), b.Name+b.ID.String()) })
	return out, nil
}

// Get implements share.Service.
func (s *Service) Get(_ context.Context, cred compute.Credential, id share.ID) (share.Share, error) {
	if cred.ProjectID == "" {
		return share.Share{}, compute.Errorf(compute.Forbidden, "a share is used with a credential of the project that owns it")
	}
	var found share.Share
	switch err := read(s.folder(id), recordFile, &found); {
	case errors.Is(err, fs.ErrNotExist):
		return share.Share{}, share.Missing(id)
	case err != nil:
		return share.Share{}, err
	case found.ProjectID != cred.ProjectID:
		return share.Share{}, share.Missing(id)
	}
	return found, nil
}

// Locations implements share.Service.
func (s *Service) Locations(ctx context.Context, cred compute.Credential, id share.ID) ([]share.Location, error) {
	if _, err := s.Get(ctx, cred, id); err != nil {
		return nil, err
	}
	return []share.Location{share.NewLocation(s.folder(id).File(dataDir), true)}, nil
}

// open locks a share of the credential's project.
func (s *Service) open(ctx context.Context, cred compute.Credential, id share.ID) (folder.Folder, func(), error) {
	f := s.folder(id)
	if _, err := s.Get(ctx, cred, id); err != nil {
		return f, nil, err
	}
	unlock, err := lock(ctx, f)
	if err != nil {
		return f, nil, err
	}
	if _, err := s.Get(ctx, cred, id); err != nil { // deleted since
		unlock()
		return f, nil, err
	}
	return f, unlock, nil
}

func (s *Service) folder(id share.ID) folder.Folder {
	return folder.Folder{Path: s.root.File(id.String())}
}

// ids lists the shares' folders.
func (s *Service) ids() ([]share.ID, error) {
	entries, err := os.ReadDir(s.root.Path)
	if err != nil {
		return nil, unavailable("list the shares", err)
	}
	var ids []share.ID
	for _, e := range entries {
		if id, err := uuid.Parse(e.Name()); err == nil && e.IsDir() {
			ids = append(ids, share.ID{UUID: id})
		}
	}
	return ids, nil
}

func lock(ctx context.Context, f folder.Folder) (unlock func(), err error) {
	unlock, err = f.Lock(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.Errorf(compute.NotFound, "the share was deleted")
	}
	if err != nil {
		return nil, unavailable("lock the shares", err)
	}
	return unlock, nil
}

// read reads a document; a file that is not there gives fs.ErrNotExist.
func read(f folder.Folder, name string, into any) error {
	text, err := os.ReadFile(f.File(name))
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return unavailable("read a share", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return compute.Errorf(compute.Corrupt, "a file of the shares is damaged: %s", name)
	}
	return nil
}

func write(f folder.Folder, name string, document any) error {
	text, err := json.Marshal(document)
	if err == nil {
		err = f.Write(name, text)
	}
	if err != nil {
		return unavailable("write a share", err)
	}
	return nil
}

// unavailable gives the error of a file system without the path, which would tell
// the export location.
func unavailable(what string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return compute.Errorf(compute.Unavailable, "%s: %w", what, err)
}
