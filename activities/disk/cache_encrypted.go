package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
)

// The copy of an encrypted image is a folder, <cache>/encrypted/<project>/<copy>, with
// the image as it came, the templates of disks on it, and an empty file for each
// use: "<server>.<disk>". The folder goes with its last use. Uses come and go under
// a lock of the folder; the download is made under one of its own, so that nobody
// waits for it who only wants to go.
const (
	encryptedFolder = "encrypted"
	imageFile       = "image"
)

// use is a use of an encrypted image: compute.Image.CacheUse in its parts.
type use struct{ project, copy, disk string }

var useName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,64})/([0-9a-f-]{36}-[0-9a-f]{16}\.[a-z0-9]+)/(` + useFile + `)$`)

// useFile is the name of the file that stands for a use.
const useFile = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.[a-z0-9][a-z0-9.-]*`

var isUse = regexp.MustCompile("^" + useFile + "$")

func parseUse(name string) (use, error) {
	m := useName.FindStringSubmatch(name)
	if m == nil {
		return use{}, compute.Errorf(compute.Invalid, "%q is no use of an image", name)
	}
	return use{m[1], m[2], m[3]}, nil
}

// useOf gives the use that an image is cached for, which must be of that image.
func useOf(in CacheImageInput) (use, error) {
	if !in.Image.IsEncrypted() {
		return use{}, nil
	}
	u, err := parseUse(in.Use)
	if err != nil {
		return use{}, err
	}
	if name, err := in.Image.CacheName(u.project); err != nil || name != u.project+"/"+u.copy {
		return use{}, compute.Errorf(compute.Invalid, "%q is no use of image %s", in.Use, in.Image.ID)
	}
	return u, nil
}

// folder is where the copy is.
func (a *Activities) folder(u use) string {
	return filepath.Join(a.CacheDir, encryptedFolder, u.project, u.copy)
}

// markUse notes a use before the copy is there: from then on the copy stays. The
// note must outlive the host's power: another use that ends takes the copy with it
// when it sees no note.
func (a *Activities) markUse(ctx context.Context, u use) error {
	if activity.IsActivity(ctx) { // whoever gives this host up must know that it began
		activity.RecordHeartbeat(ctx, Progress{Phase: "begin"})
	}
	dir := a.folder(u)
	project := filepath.Dir(dir)
	if err := os.Mkdir(filepath.Dir(project), 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	unlock, err := lockFile(ctx, dir, true)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, u.disk), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(dir), syncDir(project), syncDir(filepath.Dir(project)), syncDir(a.CacheDir))
}

// releaseImage ends a use of a copy of an encrypted image, as Remove says.
func (a *Activities) releaseImage(ctx context.Context, name string) error {
	u, err := parseUse(name)
	if err != nil {
		return err
	}
	dir := a.folder(u)
	unlock, err := lockFile(ctx, dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the project has nothing here
	}
	if err != nil {
		return failed(ctx, err, "use %s of an image: lock", name)
	}
	last, err := a.release(dir, u)
	unlock()
	if err != nil {
		return failed(ctx, err, "use %s of an image", name)
	}
	// The folder of a project that has no copies; one who is about to make one makes
	// it again.
	if os.Remove(filepath.Dir(dir)) == nil {
		err = syncDir(filepath.Join(a.CacheDir, encryptedFolder))
	}
	if last {
		a.Logger.InfoContext(ctx, "removed the copy of an encrypted image", "project", u.project, "copy", u.copy)
	}
	return err
}

// release ends a use. The caller holds the lock. Who is cut off in the middle of the
// last one leaves its note, so that the next attempt goes on.
func (a *Activities) release(dir string, u use) (last bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	last = !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return isUse.MatchString(e.Name()) && e.Name() != u.disk })
	if last {
		for _, e := range entries {
			if e.Name() != u.disk {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
	}
	if err != nil {
		return false, err
	}
	if err := os.Remove(filepath.Join(dir, u.disk)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if !last {
		return false, syncDir(dir)
	}
	return true, errors.Join(os.Remove(dir), syncDir(filepath.Dir(dir)))
}

// uses lists the uses of encrypted images; a copy without one, which a worker that
// was killed may leave for a moment, by its own name.
func (a *Activities) uses() ([]string, error) {
	root := filepath.Join(a.CacheDir, encryptedFolder)
	copies, err := filepath.Glob(filepath.Join(root, "*", "[^.]*"))
	var out []string
	for _, dir := range copies {
		entries, rerr := os.ReadDir(dir)
		if errors.Is(rerr, fs.ErrNotExist) { // gone meanwhile
			continue
		}
		err = errors.Join(err, rerr)
		name, found := strings.TrimPrefix(dir, root+"/"), false
		for _, e := range entries {
			if isUse.MatchString(e.Name()) {
				out, found = append(out, name+"/"+e.Name()), true
			}
		}
		if !found {
			out = append(out, name)
		}
	}
	return out, err
}
