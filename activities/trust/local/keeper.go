// Package local is a trust.Keeper in a folder, for where the key manager and the
// other services ask for no trust: it keeps book of what owners delegated.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"strongroom/activities/folder"
	"strongroom/activities/trust"
	"strongroom/compute"
)

// suffix ends the name of a trust's file, before it stands the trust's id.
const suffix = ".json"

// Keeper is a trust.Keeper in a folder: a file per trust.
type Keeper struct{ files folder.Folder }

var _ trust.Keeper = (*Keeper)(nil)

// Open opens the folder, made if absent, mode 0700.
func Open(dir string) (*Keeper, error) {
	files, err := folder.Open(dir)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "open the trusts' folder: %w", err)
	}
	return &Keeper{files}, nil
}

// Create implements trust.Keeper. The id comes from the project, the user and the
// name, so that to make a trust twice is to write a file twice.
func (k *Keeper) Create(_ context.Context, in trust.CreateInput) (string, error) {
	if err := in.Check(); err != nil {
		return "", err
	}
	t := trust.Item{Name: in.Name, ProjectID: in.Credential.ProjectID, UserID: in.Credential.UserID}
	identity, err := json.Marshal(t)
	if err != nil {
		return "", compute.Errorf(compute.Invalid, "a trust's name: %w", err)
	}
	sum := sha256.Sum256(identity)
	t.ID = hex.EncodeToString(sum[:16])
	data, err := json.Marshal(t)
	if err != nil {
		return "", compute.Errorf(compute.Invalid, "a trust's name: %w", err)
	}
	if err := k.files.Write(t.ID+suffix, data); err != nil {
		return "", compute.Errorf(compute.Unavailable, "store trust %s: %w", t.ID, err)
	}
	return t.ID, nil
}

// Delete implements trust.Keeper.
func (k *Keeper) Delete(ctx context.Context, in trust.DeleteInput) error {
	if err := in.Check(); err != nil {
		return err
	}
	all, err := k.List(ctx, trust.ListInput{})
	if err != nil {
		return err
	}
	var doomed []string
	for _, t := range all.Items {
		switch picked, err := in.Picks(t); {
		case err != nil:
			return err
		case picked:
			doomed = append(doomed, t.ID+suffix)
		}
	}
	if err := k.files.Remove(doomed...); err != nil {
		return compute.Errorf(compute.Unavailable, "delete trusts: %w", err)
	}
	return nil
}

// List implements trust.Keeper.
func (k *Keeper) List(_ context.Context, in trust.ListInput) (trust.ListResult, error) {
	entries, err := os.ReadDir(k.files.Path)
	if err != nil {
		return trust.ListResult{}, compute.Errorf(compute.Unavailable, "list the trusts: %w", err)
	}
	var out trust.ListResult
	for _, e := range entries { // in the order of the ids
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || strings.HasPrefix(id, ".") || id <= in.Marker {
			continue
		}
		if in.Limit > 0 && len(out.Items) == in.Limit {
			out.Next = out.Items[in.Limit-1].ID
			break
		}
		data, err := os.ReadFile(k.files.File(e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted since
			continue
		case err != nil:
			return trust.ListResult{}, compute.Errorf(compute.Unavailable, "read trust %s: %w", id, err)
		}
		var t trust.Item
		if err := json.Unmarshal(data, &t); err != nil || t.ID != id {
			return trust.ListResult{}, compute.Errorf(compute.Corrupt, "the file of trust %s is damaged", id)
		}
		out.Items = append(out.Items, t)
	}
	return out, nil
}
