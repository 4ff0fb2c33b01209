package api

import (
	"slices"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// look reports whether a key of a server can be read with the credential that an operation would read
// it with. A trust is the workers' to use: here it is only looked for.
func (a *API) look(r *Request, s compute.Server, cred compute.Credential, id compute.SecretID) error {
	if cred != s.Delegated() {
		return a.config.Keys.Look(r.Context(), cred, id)
	}
	given, err := a.db.HasCredential(r.Context(), cred.ID)
	if err == nil && !given {
		err = compute.Errorf(compute.Forbidden, "its owner's delegation is not there")
	}
	return err
}

// checkLiveKeys refuses to move a running server whose keys neither whoever asks can read nor its
// host keeps (TPM-20, EE-30). A key manager that does not answer is the operation's to wait for.
func (a *API) checkLiveKeys(r *Request, row serverRow) error {
	s, err := schema.LoadServer(r.Context(), a.db, row.Server.ID)
	if err != nil {
		return err
	}
	return a.checkKept(r, r.Credential(), s, deref(row.HostAgent))
}

// checkKept is checkLiveKeys for a move with a credential; agent is where the server's host answers.
func (a *API) checkKept(r *Request, asker compute.Credential, s compute.Server, agent string) error {
	unread := slices.DeleteFunc(s.OpeningParts(), func(p compute.PartOfKeys) bool {
		return !slices.ContainsFunc(p.Secrets, func(id compute.SecretID) bool {
			_, cred := keyOf(id, asker, s)
			return cannotRead(a.look(r, s, cred, id))
		})
	})
	if len(unread) == 0 {
		return nil
	}
	kept, err := a.keptOf(r, s, agent)
	if err != nil {
		return err
	}
	for _, p := range unread {
		for _, id := range p.Secrets { // all of a part come from there, then
			if !slices.Contains(kept, id) {
				return forNow{compute.NotKept(s.ID, p.Part, id)}
			}
		}
	}
	return nil
}

// cannotRead reports whether a key manager lets nobody read a secret with a credential.
func cannotRead(err error) bool {
	return compute.Is(err, compute.Forbidden) || compute.Is(err, compute.NotFound)
}

// keptOf asks the server's host which of its keys it keeps.
func (a *API) keptOf(r *Request, s compute.Server, agent string) ([]compute.SecretID, error) {
	if s.Host == nil || agent == "" {
		return nil, nil
	}
	kept, err := a.config.Hosts.Kept(r.Context(), *s.Host, agent, s.ID)
	if err != nil {
		a.config.Logger.WarnContext(r.Context(), "a host does not say which keys of a server it keeps", "server", s.ID, "error", err)
		return nil, fault.Conflict("Server %s cannot be moved while it runs: whoever asks may not read its keys, and its host does not say whether it keeps them.", s.ID)
	}
	return kept, nil
}
