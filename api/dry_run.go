package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

var dryRunBody = validation.Always(validation.Object([]string{"dryRun"}, validation.Properties{
	"dryRun": {"type": "object", "minProperties": 1, "maxProperties": 1},
}))

// dryRunAction says of a move what it would need and whether it would succeed: nothing is claimed
// and nothing is written. It is an action of its own around the move's body, so that who forgets
// to name strongroom 1.0 is refused, and moves nothing.
func (a *API) dryRunAction(moves []Resource) Resource {
	of := &endpoint{}
	for _, m := range moves {
		of.routes = append(of.routes, m.Routes...)
	}
	route := actionRoute("dryRun", dryRunBody, func(r *Request) (any, error) { return a.dryRun(r, of) })
	route.Own, route.Status = true, 0
	return Resource{Routes: []Route{route}}
}

// dryRun hands the move's request to the move's own handler.
func (a *API) dryRun(r *Request, moves *endpoint) (any, error) {
	asked := *r
	asked.dry, asked.document = true, r.document.(map[string]any)["dryRun"]
	action, err := asked.action(moves)
	if err != nil {
		return nil, err
	}
	route, err := moves.at(action, r.Version)
	if err != nil {
		return nil, err
	}
	if err := asked.validate(route); err != nil {
		return nil, err
	}
	return route.Handle(&asked)
}

// forecast is what a move would need, and what keeps it from succeeding.
type forecast struct {
	Action   compute.OperationKind `json:"action"`
	Succeeds bool                  `json:"succeeds"`
	Refusals []refusalView         `json:"refusals"`
	Stops    bool                  `json:"stops_guest"`
	// Host is the one that would be taken now, and Unfit are the others. Administrators alone
	// are told of hosts.
	Host  *hostView         `json:"host"`
	Unfit []unfitView       `json:"unfit_hosts"`
	Data  []compute.Carried `json:"data"`
	Bytes int64             `json:"bytes"` // of data, at most, without what is not known
	Lost  []compute.Carried `json:"lost"`  // what nobody has afterwards
	Keys  []keyView         `json:"keys"`
}

func newForecast(of compute.OperationKind) *forecast {
	return &forecast{Action: of, Refusals: []refusalView{}, Unfit: []unfitView{}, Data: []compute.Carried{}, Lost: []compute.Carried{}, Keys: []keyView{}}
}

// refusalView is why a move would not succeed. Code is that of the answer to the request; 0: the
// request would be taken, and the operation fail and be undone.
type refusalView struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message"`
}

type hostView struct {
	ID   compute.HostID `json:"id"`
	Name string         `json:"name"`
}

type unfitView struct {
	hostView
	Why string `json:"why"`
}

// keyView is a key that must be readable, and by whom.
type keyView struct {
	Secret   compute.SecretID       `json:"secret_uuid"`
	Of       string                 `json:"of"`
	Security compute.SecretSecurity `json:"secret_security"`
	ReadBy   string                 `json:"read_by"`
	Readable bool                   `json:"readable"`
}

// foresee answers a dry run. What is wrong with the request itself is answered as always; why a
// request that makes sense would be refused now is told.
func (a *API) foresee(r *Request, act action) (any, error) {
	row, _, err := a.findAtRest(r, act)
	if err != nil {
		return nil, err
	}
	f := newForecast(act.Kind)
	more, err := a.admit(r, act, row)
	if err == nil {
		err = a.roomFor(r, more)
	}
	if refused := fault.From(err); err != nil && (refused.Code == http.StatusConflict || isForNow(err)) {
		f.refuse(refused.Code, refused.Message)
		return map[string]any{"dry_run": f}, nil
	} else if err != nil {
		return nil, err
	}
	if err := a.plan(r, act, row.Server.ID, f); err != nil {
		return nil, err
	}
	f.Succeeds = len(f.Refusals) == 0
	return map[string]any{"dry_run": f}, nil
}

// forNow is a refusal for what is so at the moment, and not for what the request says.
type forNow struct{ error }

func (f forNow) Unwrap() error { return f.error }

func isForNow(err error) bool {
	var f forNow
	return errors.As(err, &f)
}

// roomFor asks the quota as the action would.
func (a *API) roomFor(r *Request, more *growth) error {
	quota, project := more.limit()
	err := a.inTurn(r.Context(), quota, project, func() error {
		return a.transact(r.Context(), func(q *schema.Queries) error { return more.check(r.Context(), q) })
	})
	if compute.Is(err, compute.Forbidden) {
		return forNow{err}
	}
	return err
}

func (f *forecast) refuse(code int, message string) {
	f.Refusals = append(f.Refusals, refusalView{Code: code, Message: message})
}

// plan tells what the move's operation would need, and asks what it would ask.
func (a *API) plan(r *Request, act action, id compute.ServerID, f *forecast) error {
	s, has, err := a.serverWithThings(r, id)
	if err != nil {
		return err
	}
	p, err := act.plan(s, has)
	if err != nil {
		return err
	}
	rows, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return err
	}
	return a.foretell(r, r.Credential(), s, p, schema.Hosts(rows), f)
}

// serverWithThings gives a server and what it has on the ledger.
func (a *API) serverWithThings(r *Request, id compute.ServerID) (s compute.Server, has []compute.Thing, err error) {
	if s, err = schema.LoadServer(r.Context(), a.db, id); err != nil {
		return s, nil, err
	}
	owner := compute.ServerOwner(id)
	rows, err := a.db.ThingsOf(r.Context(), schema.ThingsOfParams{OwnerKind: owner.Kind, OwnerID: owner.ID})
	for _, row := range rows {
		has = append(has, row.Ledger.Thing(row.HostName))
	}
	return s, has, err
}

// foretell tells what a plan needs that is carried out with a credential.
func (a *API) foretell(r *Request, cred compute.Credential, s compute.Server, p compute.MovePlan, hosts []compute.Host, f *forecast) error {
	f.Stops = p.Stops
	for _, why := range p.Fails {
		f.refuse(0, why)
	}
	affinity, err := schema.LoadAffinity(r.Context(), a.db, s.ID, r.ID, false)
	if err != nil {
		return err
	}
	sharedTPM, sharedDisks := a.foreseeHost(s, p, affinity, hosts, f)
	if sharedTPM {
		p = p.InPlace()
	}
	if sharedDisks && p.Seeks {
		p = p.WithDisks(s)
	}
	p = a.foreseeBackup(r, cred, s, p, f)
	f.Lost = append(f.Lost, p.Lost...)
	if stays := !p.Stored && f.Host != nil && s.Host != nil && f.Host.ID == *s.Host; !stays {
		f.carry(p.Data)
	}
	if !r.IsAdmin() {
		f.Host, f.Unfit = nil, []unfitView{}
	}
	if p.Image != nil {
		if _, err := a.activeImage(r, cred, *p.Image); err != nil { // as the hosts fetch it
			f.refuse(0, "The root disk is made anew of image "+p.Image.String()+": "+compute.Public(err))
		}
	}
	a.foreseeStores(r, cred, s, p, f)
	a.foreseeKeys(r, cred, p, f)
	return nil
}

func (f *forecast) carry(data []compute.Carried) {
	f.Data = append(f.Data, data...)
	for _, d := range data {
		if d.Bytes != nil {
			f.Bytes += *d.Bytes
		}
	}
}

// foreseeHost chooses the host that a claim would choose now, or finds the one that there is no
// choice of. sharedTPM, sharedDisks: it shares the storage of TPM states, or of disks, with the server's own.
func (a *API) foreseeHost(s compute.Server, p compute.MovePlan, affinity compute.Affinity, all []compute.Host, f *forecast) (sharedTPM, sharedDisks bool) {
	now, want := a.config.Now(), compute.RequestOf(p.Server)
	want.Affinity = affinity
	var own compute.Host
	for _, h := range all {
		if s.Host != nil && *s.Host == h.ID {
			own = h
		}
		if p.Goes != nil && *p.Goes == h.ID {
			f.Host = &hostView{h.ID, h.Name}
		}
		if slices.Contains(p.Needs, h.ID) && !h.Up(now) {
			f.refuse(0, "A host that has the server does not answer: it would be waited for.")
		}
	}
	if !p.Places {
		return false, false
	}
	if p.SeeksTPM {
		want.TPMStorage = own.TPMStorage
	}
	if p.Seeks {
		want.DiskStorage = own.DiskStorage
	}
	isNot := func(h compute.Host) bool { return p.Apart && own.SharesTPM(h) }
	isDiskNot := func(h compute.Host) bool { return !p.Seeks && own.SharesDisks(h) || p.Shared && !own.SharesDisks(h) }
	fit, refusal := compute.Candidates(compute.Among(all, p.Not, p.Only), want, now), error(compute.Errorf(compute.NoHost, compute.NoValidHost))
	if p.Only == nil {
		fit, refusal = want.Keep(fit, all, own.ID, nil, now)
	}
	fit, refusal = want.Cut(own, fit, refusal)
	fit = slices.DeleteFunc(fit, isDiskNot)
	if fit = slices.DeleteFunc(fit, isNot); len(fit) == 0 {
		f.refuse(0, refusal.Error())
	} else {
		f.Host, sharedTPM, sharedDisks = &hostView{fit[0].ID, fit[0].Name}, own.SharesTPM(fit[0]), own.SharesDisks(fit[0])
	}
	for _, h := range all {
		why := h.Unfit(want, now)
		switch {
		case slices.Contains(p.Not, h.ID):
			why = "has the server, or something of it that waits to be removed"
		case p.Only != nil && *p.Only != h.ID:
			why = "is not the host that was asked for"
		case why == "" && isNot(h):
			why = "shares the storage of TPM states with the server's host"
		case why == "" && isDiskNot(h) && own.SharesDisks(h):
			why = "shares the storage of disks with the server's host"
		case why == "" && isDiskNot(h):
			why = "does not share the storage of disks with the server's host"
		}
		if why != "" {
			f.Unfit = append(f.Unfit, unfitView{hostView{h.ID, h.Name}, why})
		}
	}
	return sharedTPM, sharedDisks
}

// foreseeStores asks the object store, and looks at what keeps a shelved server, as the operation
// does. What a trust gives access to is the workers' to ask.
func (a *API) foreseeStores(r *Request, cred compute.Credential, s compute.Server, p compute.MovePlan, f *forecast) {
	owner := s.OwnersCredential(cred)
	if owner == s.Delegated() {
		return
	}
	if p.Kept && (s.TPM != nil || s.NVRAM() != "") {
		what := "the state of the vTPM"
		if s.TPM == nil {
			what = "the UEFI variables"
		}
		if err := a.config.Objects.Check(r.Context(), owner); err != nil {
			f.refuse(0, "The object store does not take "+what+": "+compute.Public(err))
		}
	}
	if !p.Stored {
		return
	}
	for _, d := range s.Disks {
		if d.Shelved == nil {
			continue
		}
		img, err := a.activeImage(r, owner, d.Shelved.Image)
		if err == nil {
			err = s.TPM.CheckShelvedImage(img)
		}
		if err != nil {
			f.refuse(0, "Image "+d.Shelved.Image.String()+" keeps the data of disk "+d.Label()+": "+compute.Public(err))
		}
	}
	if stored := s.StoredTPM(); s.TPM != nil && stored != nil {
		if err := a.config.Objects.Has(r.Context(), owner, *stored); err != nil {
			f.refuse(0, "Object "+stored.Object+" keeps the state of the vTPM: "+compute.Public(err))
		}
	}
	if stored := s.StoredNVRAM(); stored != nil {
		if err := a.config.Objects.Has(r.Context(), owner, compute.StoredTPM(*stored)); err != nil {
			f.refuse(0, "Object "+stored.Object+" keeps the UEFI variables: "+compute.Public(err))
		}
	}
}

// activeImage gives an image that a disk can be made of. Conflict: it has no data, or not now.
func (a *API) activeImage(r *Request, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	img, err := a.config.Images.Image(r.Context(), cred, id)
	if err == nil && img.Status != "active" {
		err = compute.Errorf(compute.Conflict, "it is %s", img.Status)
	}
	return img, err
}

// foreseeBackup looks for the backup of the vTPM's state, as an evacuate does: where it is not there, the state is lost;
// where nobody can tell, the evacuate fails.
func (a *API) foreseeBackup(r *Request, cred compute.Credential, s compute.Server, p compute.MovePlan, f *forecast) compute.MovePlan {
	owner := s.BackupCredential(cred)
	if p.Backup == nil || owner == s.Delegated() {
		return p
	}
	err := a.config.Objects.Has(r.Context(), owner, p.Backup.StoredTPM)
	switch {
	case compute.Is(err, compute.NotFound), compute.Is(err, compute.Corrupt):
		return p.WithoutBackup()
	case err != nil:
		f.refuse(0, "Object "+p.Backup.Object+" has the backup of the vTPM's state: "+compute.Public(err))
	}
	return p
}

// foreseeKeys looks whether each key can be read with the credential that the operation would read
// it with. No key is in the answer.
func (a *API) foreseeKeys(r *Request, asker compute.Credential, p compute.MovePlan, f *forecast) {
	readers := p.Readers
	if readers == nil {
		readers = []compute.Server{p.Server}
	}
	for _, id := range p.Keys {
		view, cred := keyOf(id, asker, readers...)
		err := a.look(r, p.Server, cred, id)
		if p.KeptKeys && cannotRead(err) { // the host was asked before
			view.ReadBy, err = "its host, which keeps it", nil
		}
		if view.Readable = err == nil; err != nil {
			f.refuse(0, "Secret "+id.String()+", the key of "+view.Of+", cannot be read by "+view.ReadBy+": "+compute.Public(err))
		}
		f.Keys = append(f.Keys, view)
	}
}

// keyOf says what a key of a server is of, and with which credential an operation reads it: see
// compute.KeyCredential.
func keyOf(id compute.SecretID, asker compute.Credential, readers ...compute.Server) (keyView, compute.Credential) {
	s := readers[0]
	view, cred := keyView{Secret: id}, compute.KeyCredential(id, asker, readers...)
	var disks []compute.Disk
	hasTPM := false
	for _, one := range readers {
		disks = append(disks, one.Disks...)
		hasTPM = hasTPM || one.TPM != nil && one.TPM.Secret != nil && *one.TPM.Secret == id
	}
	var of []string // one key may be of several disks, if the server had a legacy key
	for _, d := range disks {
		what := ""
		if d.Secret != nil && *d.Secret == id {
			what = "disk " + d.Label()
		} else if d.BackingSecret != nil && *d.BackingSecret == id {
			what = "the image under disk " + d.Label()
		}
		if what != "" && !slices.Contains(of, what) {
			of = append(of, what)
		}
	}
	if hasTPM {
		of = append(of, "the vTPM")
	}
	if enc, err := s.Image.Encryption(); err == nil && enc != nil && enc.Secret == id && len(of) == 0 {
		of, cred = append(of, "image "+s.Image.ID.String()), asker
	}
	view.Of = strings.Join(of, ", ")
	view.Security, view.ReadBy = compute.SecurityUser, "whoever asks"
	switch {
	case cred == s.Delegated():
		view.Security, view.ReadBy = compute.SecurityHost, "strongroom, by what the server's owner delegated"
	case cred.IsDeployment():
		view.Security, view.ReadBy = compute.SecurityDeployment, "strongroom itself"
	case cred.IsMember():
		view.ReadBy = "strongroom, by a role of its own in the server's project"
	}
	return view, cred
}
