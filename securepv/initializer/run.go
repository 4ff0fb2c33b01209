package initializer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"strongroom/activities/secret"
)

// Where the workload and the kubelet look, as Contrast has it.
const (
	Folder   = "/contrast"                    // the emptyDir contrast-secrets
	SeedFile = "secrets/workload-secret-seed" // in it
	DoneFile = "/done"                        // the startup probe waits for it
)

// Initializer is the container's program.
type Initializer struct {
	Source  Source
	Folder  string // "": nothing is written
	Done    string
	Volumes []Volume
	Opener
	Retry time.Duration // between two fetches
}

// Run fetches the secrets, writes them, and ends (PV-07); or, where there are volumes, opens them, says
// so by the file Done, and closes them when ctx is done (PV-11). A volume that it opened itself is
// closed, too, when another cannot be opened.
func (i *Initializer) Run(ctx context.Context) error {
	if err := os.Remove(i.Done); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s, err := i.fetch(ctx)
	if err != nil {
		return err
	}
	defer s.Wipe()
	if i.Folder != "" {
		if err := s.write(i.Folder); err != nil {
			return fmt.Errorf("write the secrets: %w", err)
		}
		i.Log.Info("the secrets are written", "folder", i.Folder)
	}
	if len(i.Volumes) == 0 {
		return nil
	}
	if err := i.openAll(ctx, s.Seed); err != nil {
		return err
	}
	s.Wipe()
	if err := os.WriteFile(i.Done, nil, 0o644); err != nil {
		return errors.Join(err, i.closeAll(ctx, i.Volumes))
	}
	i.Log.Info("the volumes are open", "volumes", len(i.Volumes))
	<-ctx.Done()
	err = os.Remove(i.Done)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, i.closeAll(ctx, i.Volumes))
}

// fetchTime is how long one fetch may take: more than attestationTime, so that a command's own end is seen.
const fetchTime = 3 * time.Minute

// fetch asks until there is an answer. A service that says nothing is asked again, too.
func (i *Initializer) fetch(ctx context.Context) (*Secrets, error) {
	for {
		s, err := i.fetchOnce(ctx)
		if err == nil {
			return s, nil
		}
		if Final(err) || ctx.Err() != nil {
			return nil, err
		}
		i.Log.Warn("no secret yet; it is asked for again", "error", err, "in", i.Retry)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(i.Retry):
		}
	}
}

func (i *Initializer) fetchOnce(ctx context.Context) (*Secrets, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	return i.Source.Fetch(ctx)
}

func (i *Initializer) openAll(ctx context.Context, seed *secret.Passphrase) error {
	if seed == nil {
		return errors.New("the coordinator gives this workload no secret, and its volumes need one: give it a workloadSecretID in the manifest")
	}
	if err := i.KDF.Fits(seed); err != nil {
		return err
	}
	var ours []Volume
	for _, v := range i.Volumes {
		before, err := i.Open(ctx, v, seed)
		if err != nil {
			return errors.Join(err, i.closeAll(ctx, ours))
		}
		if !before {
			ours = append(ours, v)
		}
		i.Log.Info("the volume is mounted", "device", v.Device, "at", v.Mount)
	}
	return nil
}

// closeAll closes volumes, the last one first, and goes on past one that cannot be.
func (i *Initializer) closeAll(ctx context.Context, volumes []Volume) error {
	var failed []error
	for _, v := range slices.Backward(volumes) {
		if err := i.Close(ctx, v); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// write puts the secrets where the workload looks for them, each file in one step.
func (s *Secrets) write(folder string) error {
	files := []struct {
		name    string
		content []byte
	}{
		{"tls-config/mesh-ca.pem", s.MeshCA},
		{"tls-config/certChain.pem", s.CertChain},
		{"tls-config/coordinator-root-ca.pem", s.RootCA},
	}
	for _, f := range files {
		if len(f.content) > 0 {
			if err := place(filepath.Join(folder, f.name), f.content, 0o444); err != nil {
				return err
			}
		}
	}
	for name, p := range map[string]*secret.Passphrase{"tls-config/key.pem": s.Key, SeedFile: s.Seed} {
		if p == nil {
			continue
		}
		err := p.Use(func(value []byte) error { return place(filepath.Join(folder, name), value, 0o400) })
		if err != nil {
			return err
		}
	}
	return nil
}

func place(name string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(name, content, mode, renameio.IgnoreUmask())
}
