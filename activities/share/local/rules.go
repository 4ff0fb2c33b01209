package local

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/activities/secret"
	"strongroom/activities/share"
	"strongroom/compute"
)

const ruleSuffix = ".rule"

func ruleFile(id share.RuleID) string { return id.String() + ruleSuffix }

// ruleID is the id of a share's rule for a grantee.
func ruleID(id share.ID, to share.Grantee) share.RuleID {
	return share.RuleID{UUID: uuid.NewSHA1(id.UUID, []byte(string(to.Kind)+" "+to.Name))}
}

// rulesIn gives the rules in a share's folder.
func rulesIn(f folder.Folder) ([]share.Rule, error) {
	files, err := filepath.Glob(f.File("*" + ruleSuffix))
	if err != nil {
		return nil, unavailable("list access rules", err)
	}
	var rules []share.Rule
	for _, file := range files {
		var r share.Rule
		switch err := read(f, filepath.Base(file), &r); {
		case errors.Is(err, fs.ErrNotExist): // removed since
			continue
		case err != nil:
			return nil, err
		case ruleFile(r.ID) != filepath.Base(file):
			return nil, compute.Errorf(compute.Corrupt, "a file of the shares is damaged: %s", filepath.Base(file))
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// Allow implements share.Service.
func (s *Service) Allow(ctx context.Context, in share.AllowInput) (share.Rule, error) {
	if err := in.Check(); err != nil {
		return share.Rule{}, err
	}
	found, err := s.Get(ctx, in.Credential, in.Share)
	if err != nil {
		return share.Rule{}, err
	}
	if err := in.To.CheckFor(found); err != nil {
		return share.Rule{}, err
	}
	f, unlock, err := s.open(ctx, in.Credential, in.Share)
	if err != nil {
		return share.Rule{}, err
	}
	defer unlock()
	rules, err := rulesIn(f)
	if err != nil {
		return share.Rule{}, err
	}
	rule := share.Rule{ID: ruleID(in.Share, in.To), Share: in.Share, To: in.To, Level: in.Level, State: share.StateActive}
	if i := slices.IndexFunc(rules, func(r share.Rule) bool { return r.To.Is(in.To) }); i >= 0 {
		rule = rules[i]
	}
	switch {
	case rule.Level != in.Level:
		return share.Rule{}, compute.Errorf(compute.Conflict, "share %s lets the same %s in already, as %s and not %s: access rule %s",
			in.Share, in.To.Kind, rule.Level, in.Level, rule.ID)
	case slices.Contains(rule.Servers, in.Server):
		if err := f.Sync(); err != nil { // whoever wrote it may have died before that
			return share.Rule{}, unavailable("sync a share", err)
		}
		return rule, nil
	}
	rule.Servers = append(rule.Servers, in.Server)
	return rule, write(f, ruleFile(rule.ID), rule)
}

// AccessKey implements share.Service: no rule here has a key.
func (s *Service) AccessKey(ctx context.Context, cred compute.Credential, id share.ID, to share.Grantee) (*secret.Passphrase, error) {
	if _, err := s.Get(ctx, cred, id); err != nil {
		return nil, err
	}
	var r share.Rule
	if err := read(s.folder(id), ruleFile(ruleID(id, to)), &r); errors.Is(err, fs.ErrNotExist) {
		return nil, share.NoRule(id, to)
	} else if err != nil {
		return nil, err
	}
	return nil, compute.Errorf(compute.Conflict, "access rule %s of share %s has no key", r.ID, id)
}

// Deny implements share.Service.
func (s *Service) Deny(ctx context.Context, in share.DenyInput) error {
	f, unlock, err := s.open(ctx, in.Credential, in.Share)
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	rules, err := rulesIn(f)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if i := slices.Index(r.Servers, in.Server); i < 0 || in.To != nil && !in.To.Is(r.To) {
			continue
		}
		r.Servers = slices.DeleteFunc(r.Servers, func(id compute.ServerID) bool { return id == in.Server })
		if len(r.Servers) > 0 {
			err = write(f, ruleFile(r.ID), r)
		} else if gone := f.Remove(ruleFile(r.ID)); gone != nil {
			err = unavailable("remove an access rule", gone)
		}
		if err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return unavailable("sync a share", err)
	}
	return nil
}

// List implements share.Service.
func (s *Service) List(ctx context.Context, cred compute.Credential) ([]share.Rule, error) {
	if cred.ProjectID == "" {
		return nil, compute.Errorf(compute.Forbidden, "shares are listed with a credential of the project that owns them")
	}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	all := []share.Rule{}
	for _, id := range ids {
		if _, err := s.Get(ctx, cred, id); compute.Is(err, compute.NotFound) {
			continue
		} else if err != nil {
			return nil, err
		}
		rules, err := rulesIn(s.folder(id))
		if err != nil {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

// Standing implements share.Service.
func (s *Service) Standing(ctx context.Context, cred compute.Credential, ids []share.ID) (share.Looked, error) {
	if cred.ProjectID == "" {
		return share.Looked{}, compute.Errorf(compute.Forbidden, "shares are listed with a credential of the project that owns them")
	}
	return share.LookAt(ids, func(id share.ID) ([]share.Rule, error) {
		if _, err := s.Get(ctx, cred, id); err != nil {
			return nil, err
		}
		return rulesIn(s.folder(id))
	})
}
