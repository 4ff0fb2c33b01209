package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// programPath is where the image has the program.
const programPath = "usr/bin/strongroom"

// build writes the image and gives its digest. What was at to stays until the new one is whole.
func build(ctx context.Context, program, to string) (digest v1.Hash, err error) {
	if err := replaceable(to); err != nil {
		return digest, err
	}
	work, err := os.MkdirTemp(filepath.Dir(to), ".image-")
	if err != nil {
		return digest, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	image, err := assemble(ctx, program, work)
	if err != nil {
		return digest, err
	}
	whole := filepath.Join(work, "layout")
	p, err := layout.Write(whole, empty.Index)
	if err != nil {
		return digest, err
	}
	if err := p.AppendImage(image, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})); err != nil {
		return digest, err
	}
	if err := os.RemoveAll(to); err != nil {
		return digest, err
	}
	if err := os.Rename(whole, to); err != nil {
		return digest, err
	}
	return image.Digest()
}

// replaceable refuses a folder that has anything else than an image before.
func replaceable(to string) error {
	entries, err := os.ReadDir(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(entries) == 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(to, "oci-layout")); err != nil {
		return fmt.Errorf("%s: it has files, and is no image that could be replaced", to)
	}
	return nil
}

func assemble(ctx context.Context, program, work string) (v1.Image, error) {
	debs, err := download(ctx, work)
	if err != nil {
		return nil, err
	}
	system := files{}
	for _, deb := range debs {
		if err := system.addPackage(ctx, deb); err != nil {
			return nil, err
		}
	}
	if err := system.addCertificates(); err != nil {
		return nil, err
	}
	for _, name := range inUsr {
		system[name] = entry{tar.Header{Typeflag: tar.TypeSymlink, Linkname: "usr/" + name, Mode: 0o777}, nil}
	}
	for name, mode := range map[string]int64{"dev": 0o755, "proc": 0o755, "sys": 0o755, "run": 0o755, "tmp": 0o1777, "usr/lib32": 0o755, "usr/lib64": 0o755, "usr/libx32": 0o755} {
		if _, is := system[name]; !is {
			system[name] = entry{tar.Header{Typeflag: tar.TypeDir, Mode: mode}, nil}
		}
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	own := files{}
	own.addText(programPath, content, 0o755)
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, part := range []struct {
		files
		from string
	}{{system, "Debian packages"}, {own, "strongroom"}} {
		layer, err := part.layer()
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{CreatedBy: part.from}}); err != nil {
			return nil, err
		}
	}
	return configured(image)
}

func configured(image v1.Image) (v1.Image, error) {
	was, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	c := was.DeepCopy()
	c.OS, c.Architecture = "linux", runtime.GOARCH
	c.Config = v1.Config{
		Entrypoint: []string{"/" + programPath, "initializer"},
		Env:        []string{"PATH=/usr/sbin:/usr/bin"},
		WorkingDir: "/",
		Labels:     map[string]string{"org.opencontainers.image.title": "strongroom initializer"},
	}
	return mutate.ConfigFile(image, c)
}

// layer packs files so that the same ones give the same bytes.
func (f files) layer() (v1.Layer, error) {
	f.addFolders()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	// A hard link comes after what it is one to.
	names := slices.SortedFunc(maps.Keys(f), func(a, b string) int {
		if x, y := f[a].Typeflag == tar.TypeLink, f[b].Typeflag == tar.TypeLink; x != y {
			return map[bool]int{false: -1, true: 1}[x]
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	for _, name := range names {
		e := f[name]
		h := e.Header
		h.Name, h.Size, h.ModTime, h.Format = name, int64(len(e.content)), time.Unix(0, 0), tar.FormatPAX
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// addFolders adds the folders in which files are.
func (f files) addFolders() {
	for name := range maps.Clone(f) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, is := f[dir]; !is {
				f[dir] = entry{tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, nil}
			}
		}
	}
}
