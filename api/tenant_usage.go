package api

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleShowUsage = "os_compute_api:os-simple-tenant-usage:show"

// usagePages is the version that brought pages of usage. Earlier ones give one page.
const usagePages microversion.Version = 40

// tenantUsage is how long the servers of projects ran in a period, times what they hold.
func (a *API) tenantUsage() Resource {
	const (
		list = "os_compute_api:os-simple-tenant-usage:list"
		path = "/os-simple-tenant-usage"
	)
	return Resource{
		Rules: policy.Rules{list: policy.Admin, ruleShowUsage: policy.ProjectReaderOrAdmin},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Rule: list, Query: usageQuery(true), Handle: a.listUsage},
			{Method: http.MethodGet, Path: path + "/:id", Query: usageQuery(false), Handle: a.showUsage},
		},
	}
}

func usageQuery(list bool) validation.Versions {
	text := validation.Repeated(validation.Text)
	return validation.Since(func(v microversion.Version) validation.Schema {
		p := validation.Properties{"start": text, "end": text}
		if list {
			p["detailed"] = text
		}
		if v >= usagePages {
			p["limit"], p["marker"] = validation.Repeated(validation.NonNegative), text
		}
		if v >= 75 {
			return validation.Object(nil, p)
		}
		return validation.Open(p)
	}, microversion.Min, usagePages, 75)
}

// usage is a project's use of a period. The numbers are hours of what servers hold.
type usage struct {
	Project  string        `json:"tenant_id"`
	DiskGB   float64       `json:"total_local_gb_usage"`
	VCPUs    float64       `json:"total_vcpus_usage"`
	MemoryMB float64       `json:"total_memory_mb_usage"`
	Hours    float64       `json:"total_hours"`
	Start    any           `json:"start"`
	Stop     any           `json:"stop"`
	Servers  []serverUsage `json:"server_usages,omitempty"`
}

type serverUsage struct {
	ID       compute.ServerID `json:"instance_id"`
	Name     string           `json:"name"`
	Project  string           `json:"tenant_id"`
	Flavor   string           `json:"flavor"`
	VCPUs    int              `json:"vcpus"`
	MemoryMB int              `json:"memory_mb"`
	DiskGB   int              `json:"local_gb"`
	Hours    float64          `json:"hours"`
	Uptime   int64            `json:"uptime"` // seconds
	Started  any              `json:"started_at"`
	Ended    any              `json:"ended_at"`
	State    string           `json:"state"`
}

// period is what a request asks for.
type period struct{ since, until, now time.Time }

// usagePeriod reads a period. It ends now at the latest.
func (a *API) usagePeriod(r *Request) (p period, err error) {
	p.now = a.config.Now().UTC()
	p.since, p.until = p.now, p.now.Add(time.Microsecond)
	for name, at := range map[string]*time.Time{"start": &p.since, "end": &p.until} {
		if text := r.Query.Get(name); text != "" {
			if *at, err = usageTime(text); err != nil {
				return p, err
			}
		}
	}
	if !p.since.Before(p.until) {
		return p, fault.BadRequest("Invalid start time. The start time cannot occur after the end time.")
	}
	if p.until.After(p.now) {
		p.until = p.now
	}
	return p, nil
}

// usageTime reads a time in one of the forms that this resource takes, which are not those of others.
func usageTime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} { // a fraction may follow
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.BadRequest("Invalid datetime string: Datetime is in invalid format")
}

func (a *API) listUsage(r *Request) (any, error) {
	all, next, err := a.usages(r, nil, r.Query.Get("detailed") == "1", "os-simple-tenant-usage")
	if err != nil {
		return nil, err
	}
	return Collection("tenant_usages", all, next), nil
}

func (a *API) showUsage(r *Request) (any, error) {
	project := r.Param("id")
	if err := r.EnforceOn(ruleShowUsage, project, r.UserID()); err != nil {
		return nil, err
	}
	all, next, err := a.usages(r, &project, true, "os-simple-tenant-usage/"+project)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"tenant_usage": map[string]any{}}
	if len(all) > 0 {
		answer["tenant_usage"] = all[0]
	}
	if next != nil {
		answer["tenant_usage_links"] = next
	}
	return answer, nil
}

// usages sums up a page of servers, of one project or of all, and links the next one. A project
// that has servers on several pages is on each of them.
func (a *API) usages(r *Request, project *string, detailed bool, collection string) ([]*usage, []Link, error) {
	p, err := a.usagePeriod(r)
	if err != nil {
		return nil, nil, err
	}
	in := schema.ServersInPeriodParams{Since: p.since, Until: p.until, ProjectID: project, Most: MaxLimit}
	if r.Version >= usagePages {
		in.Most = int32(r.Limit())
		if in.Marker, err = a.usageMarker(r, project); err != nil {
			return nil, nil, err
		}
	}
	rows, err := a.db.ServersInPeriod(r.Context(), in)
	if err != nil {
		return nil, nil, err
	}
	all := []*usage{}
	of := map[string]*usage{}
	for _, row := range rows {
		sum := of[row.ProjectID]
		if sum == nil {
			sum = &usage{Project: row.ProjectID, Start: microseconds(&p.since), Stop: microseconds(&p.until)}
			of[row.ProjectID], all = sum, append(all, sum)
		}
		sum.add(serverUsageOf(row, p), detailed)
	}
	var next []Link
	if r.Version >= usagePages && len(rows) > 0 {
		next = r.Next(collection, len(rows), rows[len(rows)-1].ID.String())
	}
	return all, next, nil
}

// usageMarker finds the server after which a page begins.
func (a *API) usageMarker(r *Request, project *string) (*uuid.UUID, error) {
	text := r.Marker()
	if text == "" {
		return nil, nil
	}
	id, err := uuid.Parse(text)
	found := false
	if err == nil {
		if found, err = a.db.HasServer(r.Context(), schema.HasServerParams{ID: id, ProjectID: project}); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fault.BadRequest("Marker %s could not be found.", text)
	}
	return &id, nil
}

func (u *usage) add(s serverUsage, detailed bool) {
	u.DiskGB += float64(s.DiskGB) * s.Hours
	u.VCPUs += float64(s.VCPUs) * s.Hours
	u.MemoryMB += float64(s.MemoryMB) * s.Hours
	u.Hours += s.Hours
	if detailed {
		u.Servers = append(u.Servers, s)
	}
}

func serverUsageOf(row schema.ServersInPeriodRow, p period) serverUsage {
	ran := compute.Ran{From: *row.LaunchedAt, To: row.TerminatedAt}
	s := serverUsage{
		ID: row.ID, Name: row.Name, Project: row.ProjectID, Flavor: row.Flavor.Name,
		VCPUs: row.Flavor.VCPUs, MemoryMB: row.Flavor.MemoryMB, DiskGB: row.Flavor.RootGB + row.Flavor.EphemeralGB,
		Hours: ran.Within(p.since, p.until).Hours(), Uptime: int64(ran.For(p.now).Seconds()),
		Started: microseconds(row.LaunchedAt), Ended: microseconds(row.TerminatedAt), State: string(row.VMState),
	}
	if row.TerminatedAt != nil {
		s.State = "terminated"
	}
	return s
}
