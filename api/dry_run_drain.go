package api

import (
	"math"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

var drainQuery = validation.Always(validation.Object(nil, validation.Properties{"cold": validation.Repeated(validation.Enum("true", "false"))}))

// drainForecast is what a drain of a host would do. Its servers are in the order in which they would be
// taken up, each placed beside those before it.
type drainForecast struct {
	Action   compute.OperationKind `json:"action"`
	Succeeds bool                  `json:"succeeds"` // no server would be left
	Refusals []refusalView         `json:"refusals"`
	Host     hostView              `json:"host"`
	Cold     bool                  `json:"cold"`
	Bytes    int64                 `json:"bytes"`
	Servers  []departureView       `json:"servers"`
}

// departureView is how a server would leave; its action is "" where it would not be tried.
type departureView struct {
	ID      compute.ServerID `json:"id"`
	Name    string           `json:"name"`
	VMState compute.VMState  `json:"vm_state"`
	*forecast
}

// foreseeDrain answers GET /os-services/{id}/drain, for clients that name strongroom 1.0: what a drain of
// the host would do. Nothing is claimed and nothing is written.
func (a *API) foreseeDrain(r *Request) (any, error) {
	if !r.Extended {
		return nil, fault.NotFound("The resource could not be found.")
	}
	rows, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	service, err := a.serviceByID(r)
	if err != nil {
		return nil, err
	}
	d := drainForecast{
		Action: compute.OpDrain, Succeeds: true, Refusals: []refusalView{}, Host: hostView{service.ID, service.Name}, Cold: r.Query.Get("cold") == "true", Servers: []departureView{},
	}
	if !a.hostUp(withoutUse(service)) {
		d.Succeeds = false
		d.Refusals = append(d.Refusals, refusalView{Message: "Host " + service.Name + " does not answer: what is on it cannot be moved."})
	}
	all, err := a.db.ServersToDrain(r.Context(), schema.ServersToDrainParams{HostID: service.ID.UUID, Most: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	hosts := schema.Hosts(rows)
	for i := range hosts {
		hosts[i].Disabled = hosts[i].Disabled || hosts[i].ID == service.ID
	}
	for _, row := range all {
		view, err := a.foreseeDeparture(r, row, d.Cold, service.AgentURL, hosts)
		if err != nil {
			return nil, err
		}
		d.Servers, d.Bytes, d.Succeeds = append(d.Servers, view), d.Bytes+view.Bytes, d.Succeeds && view.Succeeds
	}
	return map[string]any{"dry_run": d}, nil
}

// foreseeDeparture tells how a server would leave its host, as the drain decides it, and takes up room
// for it on the host to which it would go.
func (a *API) foreseeDeparture(r *Request, row schema.ServersToDrainRow, cold bool, agent string, hosts []compute.Host) (departureView, error) {
	s, has, err := a.serverWithThings(r, row.ID)
	if err != nil {
		return departureView{}, err
	}
	view := departureView{ID: s.ID, Name: s.Name, VMState: s.VMState, forecast: newForecast("")}
	how, err := compute.DrainMove(s, cold)
	if err == nil {
		err = schema.MayBegin(r.Context(), a.db, how.Facts, s.ID)
	}
	asker := compute.MemberCredential(s.ProjectID) // nobody's token goes with a drain
	var p compute.MovePlan
	switch {
	case err != nil:
	case how.Kind == compute.OpShelveOffload:
		p = s.PlanOffload(has)
	case how.Kind == compute.OpLiveMigrate:
		p, err = s.PlanLiveMigrate(has, nil), a.checkKept(r, asker, s, agent)
	default:
		p = s.PlanMove(s, has, false, nil)
	}
	if refused := fault.From(err); err != nil && (refused.Code == http.StatusConflict || isForNow(err)) {
		view.refuse(0, refused.Message)
		return view, nil
	} else if err != nil {
		return view, err
	}
	view.Action = how.Kind
	if row.Busy {
		view.refuse(0, "An operation is at work on it ("+string(s.TaskState)+"): its end would be waited for.")
	}
	if err := a.foretell(r, asker, s, p, hosts, view.forecast); err != nil {
		return view, err
	}
	view.Succeeds = len(view.Refusals) == 0
	for i := range hosts {
		if view.Succeeds && view.Host != nil && hosts[i].ID == view.Host.ID {
			hosts[i].Used = hosts[i].Used.And(s.ResourcesOn(hosts[i]))
			hosts[i].Servers++
		}
	}
	return view, nil
}
