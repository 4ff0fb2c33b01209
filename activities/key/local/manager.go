package local

import (
	"context"
	"crypto/cipher"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/activities/key"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Manager is a key.Manager in a folder.
type Manager struct {
	files files
	seal  cipher.AEAD
}

var _ key.Manager = (*Manager)(nil)

// Open opens the folder dir (made if absent, mode 0700) with the master key in
// masterKeyFile (made if absent, mode 0600). Forbidden: the key file is open to
// others than its owner. Corrupt: it is no key, or it is missing while the
// folder holds secrets that only it could open.
func Open(dir, masterKeyFile string) (*Manager, error) {
	opened, err := folder.Open(dir)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "open the secrets' folder: %w", err)
	}
	f := files{opened}
	unlock, err := f.lock(context.Background())
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := f.entries()
	if err != nil {
		return nil, err
	}
	seal, err := openMasterKey(masterKeyFile, len(entries) == 0)
	if err != nil {
		return nil, err
	}
	return &Manager{files: f, seal: seal}, nil
}

// Create implements key.Manager.
func (m *Manager) Create(ctx context.Context, in key.CreateInput) (compute.SecretID, error) {
	if err := in.Check(); err != nil {
		return compute.SecretID{}, err
	}
	p, err := secret.Generate(in.Bytes)
	if err != nil {
		return compute.SecretID{}, compute.Errorf(compute.Unavailable, "make a passphrase: %w", err)
	}
	defer p.Wipe()
	id, found, err := m.ensure(ctx, record{ID: in.ID, ProjectID: in.Credential.ProjectID, Name: in.Name}, p)
	found.Wipe()
	return id, err
}

// Copy implements key.Manager.
func (m *Manager) Copy(ctx context.Context, in key.CopyInput) (compute.SecretID, error) {
	if err := in.Check(); err != nil {
		return compute.SecretID{}, err
	}
	p, err := m.Passphrase(ctx, in.FromCredential, in.From)
	if err != nil {
		return compute.SecretID{}, err
	}
	defer p.Wipe()
	id, found, err := m.ensure(ctx, record{ID: in.ID, ProjectID: in.Credential.ProjectID, Name: in.Name}, p)
	if err == nil && found != nil {
		err = in.CheckCopy(id, p, found)
	}
	found.Wipe()
	return id, err
}

// ensure makes the secret of a record, with a passphrase, unless there is one of
// its name: then it gives that one's passphrase, as found, for the caller to wipe.
func (m *Manager) ensure(ctx context.Context, r record, p *secret.Passphrase) (id compute.SecretID, found *secret.Passphrase, err error) {
	unlock, err := m.files.lock(ctx)
	if err != nil {
		return id, nil, err
	}
	defer unlock()
	entries, err := m.files.entries()
	if err != nil {
		return id, nil, err
	}
	if r.ID.UUID == uuid.Nil {
		r.ID.UUID = uuid.New()
	}
	tag := tagOf(r.ProjectID, r.Name)
	for _, e := range entries {
		if e.tag == tag {
			found, err = m.verify(e)
			return e.id, found, err
		}
		if e.id == r.ID {
			return id, nil, compute.Errorf(compute.Conflict, "secret id %s is taken by another name", r.ID)
		}
	}
	if r, err = seal(m.seal, r, p); err != nil {
		return id, nil, err
	}
	return r.ID, nil, m.files.write(entry{id: r.ID, tag: tag}, r)
}

// verify makes sure that a secret that is there can really be opened: a server
// must not be built on one that cannot.
func (m *Manager) verify(e entry) (*secret.Passphrase, error) {
	r, err := m.files.read(e)
	if err != nil {
		return nil, err
	}
	p, err := r.open(m.seal)
	if err != nil {
		return nil, err
	}
	return p, m.files.sync() // whoever made it may have died before that
}

// Passphrase implements key.Manager.
func (m *Manager) Passphrase(_ context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	r, err := m.own(cred, id)
	if err != nil {
		return nil, err
	}
	return r.open(m.seal)
}

// Name implements key.Manager.
func (m *Manager) Name(_ context.Context, cred compute.Credential, id compute.SecretID) (string, error) {
	r, err := m.own(cred, id)
	return r.Name, err
}

// own gives the record of a secret of the credential's project.
func (m *Manager) own(cred compute.Credential, id compute.SecretID) (record, error) {
	entries, err := m.files.entries()
	if err != nil {
		return record{}, err
	}
	for _, e := range entries {
		if e.id != id {
			continue
		}
		r, err := m.files.read(e)
		if err != nil {
			return record{}, err
		}
		if cred.ProjectID == "" || r.ProjectID != cred.ProjectID {
			return record{}, compute.Errorf(compute.Forbidden, "secret %s belongs to another project", id)
		}
		return r, nil
	}
	return record{}, key.Missing(id)
}

// Delete implements key.Manager. A damaged secret can be deleted by its name.
func (m *Manager) Delete(ctx context.Context, in key.DeleteInput) error {
	if in.Credential.ProjectID == "" {
		return compute.Errorf(compute.Forbidden, "a secret is deleted with a credential of the project that owns it")
	}
	unlock, err := m.files.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := m.files.entries()
	if err != nil {
		return err
	}
	tag := tagOf(in.Credential.ProjectID, in.Name)
	var doomed []entry
	for _, e := range entries {
		switch {
		case e.tag == tag:
			doomed = append(doomed, e)
		case in.ID != nil && e.id == *in.ID:
			r, err := m.files.read(e)
			if err != nil {
				return err
			}
			if r.ProjectID != in.Credential.ProjectID {
				return compute.Errorf(compute.Forbidden, "secret %s belongs to another project", e.id)
			}
			doomed = append(doomed, e)
		}
	}
	return m.files.remove(doomed)
}

// List implements key.Manager, in the order of the ids: a marker is the last one. A
// credential without a project sees all.
func (m *Manager) List(_ context.Context, cred compute.Credential, in key.ListInput) (key.ListResult, error) {
	entries, err := m.files.entries()
	if err != nil {
		return key.ListResult{}, err
	}
	var out key.ListResult
	last := ""
	for _, e := range entries {
		if e.id.String() <= in.Marker {
			continue
		}
		if in.Limit > 0 && len(out.Items) == in.Limit {
			out.Next = last
			break
		}
		last = e.id.String()
		r, err := m.files.read(e)
		switch {
		case compute.Is(err, compute.NotFound): // deleted since
			continue
		case compute.Is(err, compute.Corrupt):
			r = record{ID: e.id}
		case err != nil:
			return key.ListResult{}, err
		}
		if cred.ProjectID == "" || r.ProjectID == cred.ProjectID {
			out.Items = append(out.Items, key.Item{ID: r.ID, Name: r.Name, ProjectID: r.ProjectID})
		}
	}
	return out, nil
}

// Check implements key.Manager: whoever has a project may.
func (m *Manager) Check(_ context.Context, cred compute.Credential) error {
	if cred.ProjectID == "" {
		return compute.Errorf(compute.Forbidden, "a secret needs a project that owns it")
	}
	return nil
}
