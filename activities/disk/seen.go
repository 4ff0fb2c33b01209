package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// hidden names the file that stands beside another while it is made: ".new" is
// the file itself, ".lock" its lock, noteSuffix says how much of it another host has sent.
// ".boot" stands beside a console log (bootMark).
func hidden(path, suffix string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

const noteSuffix = ".received"

// rotated matches the older parts of a console log: virtlogd, which libvirt keeps the
// logs with where it is told nothing else, begins a new file when one is full.
var rotated = regexp.MustCompile(`^` + regexp.QuoteMeta(ConsoleLog) + `\.[0-9]+$`)

// finished is the name of the file that one in a server's folder belongs to.
func finished(name string) string {
	if rotated.MatchString(name) {
		return ConsoleLog
	}
	inner, ok := strings.CutPrefix(name, ".")
	if !ok {
		return name
	}
	for _, suffix := range []string{".new", ".lock", ".boot", noteSuffix} {
		inner = strings.TrimSuffix(inner, suffix)
	}
	return inner
}

// Seen is the activity disk.Seen: the files in all servers' folders, volumes and images
// of the pool by the names that files would have, and who uses the copies of encrypted
// images. A half-made file counts under the name that it was to get: that is what Remove
// removes it by. A copy that nobody uses is seen by its own name.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	files, err := a.files()
	if err != nil {
		return compute.SeenResult{}, failed(ctx, err, "folders of the servers")
	}
	volumes, err := a.volumeFiles(ctx)
	if err != nil {
		return compute.SeenResult{}, failed(ctx, err, "volumes of the servers")
	}
	uses, err := a.uses()
	if err != nil {
		return compute.SeenResult{}, failed(ctx, err, "copies of encrypted images")
	}
	var all []compute.Seen
	for _, name := range append(files, volumes...) {
		all = append(all, compute.Seen{Kind: compute.ThingDiskFile, Name: name})
	}
	for _, name := range uses {
		all = append(all, compute.Seen{Kind: compute.ThingCachedImage, Name: name})
	}
	return in.PageOf(all), nil
}

// files lists the files in the servers' folders.
func (a *Activities) files() ([]string, error) {
	servers, err := os.ReadDir(a.InstancesDir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, s := range servers {
		if _, err := uuid.Parse(s.Name()); err != nil || !s.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(a.InstancesDir, s.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			return nil, err
		}
		for _, e := range entries {
			files = append(files, s.Name()+"/"+finished(e.Name()))
		}
	}
	return files, nil
}

// volumeFiles lists our volumes by the names that files would have.
func (a *Activities) volumeFiles(ctx context.Context) (files []string, err error) {
	if a.VolumeGroup == "" {
		return nil, nil
	}
	all, err := a.volumes(ctx)
	for _, v := range all {
		server, file, _ := strings.Cut(v.Name, "_")
		files = append(files, server+"/"+finishedVolume(file))
	}
	return files, err
}
