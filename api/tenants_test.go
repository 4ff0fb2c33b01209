package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// tenants is a cloud with two projects that have the same things, each marked with a text
// that the other must never see.
type tenants struct {
	*cloud
	home, there *tenant
	spare       compute.HostID // a host without servers
	aggregate   string         // with that host
	hostless    string         // another one
	errors      *errorLog
	changed     bool   // something is not as it was any more
	empty       string // the statements by which nothing is left
}

// tenant is a project with one of each thing.
type tenant struct {
	project    string
	as         who // who has made all of it
	user       string
	name       string // in the names by which its things are asked for
	mark       string // in every other text of its
	server     string
	group      string                  // which the server is in
	secured    compute.SecurityGroupID // a security group, where there are any
	action     string                  // the request of the server's create
	image      string
	flavor     string // which the project alone may use
	key        string
	tag        string
	volume     string // a volume type that the project alone may use
	encryption string // of that type
}

// willing is the key manager, object store and console of a cloud where all is well. Unlike
// those of other tests it may be asked by many at once.
type willing struct{}

func (willing) Check(context.Context, compute.Credential) error                  { return nil }
func (willing) Look(context.Context, compute.Credential, compute.SecretID) error { return nil }
func (willing) Has(context.Context, compute.Credential, compute.StoredTPM) error { return nil }

func (willing) Console(_ context.Context, _ compute.HostID, _ string, server compute.ServerID, _ int) ([]byte, error) {
	return []byte("console of " + server.String()), nil
}

func (willing) Diagnostics(context.Context, compute.HostID, string, compute.ServerID) (compute.Diagnostics, error) {
	return compute.Diagnostics{State: compute.PowerRunning}, nil
}

func (willing) Consoles(context.Context, compute.HostID, string, compute.ServerID) ([]compute.ConsoleType, error) {
	return []compute.ConsoleType{compute.ConsoleSerial}, nil
}

func (willing) Kept(context.Context, compute.HostID, string, compute.ServerID) ([]compute.SecretID, error) {
	return nil, nil
}

// errorLog keeps what is logged as an error, panics among it, but for the one thing that is
// not offered yet, and for requests whose client had gone.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

func (*errorLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (l *errorLog) WithAttrs([]slog.Attr) slog.Handler             { return l }
func (l *errorLog) WithGroup(string) slog.Handler                  { return l }

func (l *errorLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	if strings.HasSuffix(text, context.Canceled.Error()) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, text)
	return nil
}

// notOffered is the one refusal that is a 501, of switching a host: as Nova's.
const notOffered = "The requested functionality is not supported."

func (l *errorLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// setupTenants gives two tenants; change may alter the API's configuration last.
func setupTenants(t *testing.T, change ...func(*api.Config)) *tenants {
	t.Helper()
	c := &tenants{
		cloud:  &cloud{t: t, starter: &starter{}, imageStore: &imageStore{images: map[compute.ImageID]compute.Image{}}},
		home:   &tenant{project: project, as: creator, user: "user-creator", name: "home", mark: "zq-home-zq"},
		there:  &tenant{project: elsewhere, as: stranger, user: "user-stranger", name: "there", mark: "zq-there-zq"},
		errors: &errorLog{},
	}
	c.bundle = setup(t, append([]func(*api.Config){func(config *api.Config) {
		config.Images, config.Operations, config.Hosts = c.imageStore, c.starter, willing{}
		config.Keys, config.Objects = willing{}, willing{}
		config.Logger = slog.New(c.errors)
	}}, change...)...)
	c.image = c.addImage(nil)
	for _, p := range []*tenant{c.home, c.there} {
		p.image, p.secured = uuid.NewString(), compute.SecurityGroupID{UUID: uuid.New()}
	}
	// TRUNCATE ... CASCADE does the same, and makes new files for some hundred tables and indexes each time.
	c.empty = c.text(`WITH RECURSIVE emptied (id) AS (
			SELECT unnest(ARRAY['servers', 'server_groups', 'keypairs', 'flavors', 'hosts', 'ledger', 'credentials', 'volume_types', 'volume_type_changes', 'project_quotas', 'aggregates'])::regclass::oid
			UNION SELECT conrelid FROM pg_constraint JOIN emptied ON confrelid = emptied.id WHERE contype = 'f')
		SELECT 'BEGIN; SET LOCAL session_replication_role = replica; ' || string_agg('DELETE FROM ' || id::regclass, '; ') || '; COMMIT' FROM emptied`)
	c.renew()
	return c
}

// marks are texts that nobody of another project can know, nor see.
func (p *tenant) marks() []string { return []string{p.mark, "console of " + p.server} }

// secrets are marks and what somebody of another project may know, and does not see either.
func (p *tenant) secrets() []string {
	return append(p.marks(), p.project, p.user, p.server, p.image, p.action, p.volume, p.group)
}

// renew puts everything back as it was.
func (c *tenants) renew() {
	c.t.Helper()
	c.changed = false
	c.exec(c.empty)
	c.addFlavor(flavorID, map[string]string{"color": "blue"})
	c.host, c.spare = compute.HostID{UUID: uuid.New()}, compute.HostID{UUID: uuid.New()}
	for name, id := range map[string]compute.HostID{"node-1": c.host, "node-2": c.spare} {
		c.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen, traits, release) VALUES ($1, $2, 'http://agent', 800, 819200, 10000, now(), $3, '1')`,
			id, name, allTraits)
	}
	for name, number := range map[string]*string{"spare": &c.aggregate, "hostless": &c.hostless} {
		*number = c.text(`INSERT INTO aggregates (uuid, name, metadata) VALUES (gen_random_uuid(), $1, '{"color": "blue"}') RETURNING number::text`, name)
	}
	c.exec(`INSERT INTO aggregate_hosts (aggregate_number, host_id) VALUES ($1, $2)`, c.aggregate, c.spare)
	for _, p := range []*tenant{c.home, c.there} {
		c.plant(p)
	}
}

// plant gives a project one of each thing.
func (c *tenants) plant(p *tenant) {
	c.t.Helper()
	c.addImage(func(img *compute.Image) {
		img.ID, img.Visibility, img.Owner, img.Name = compute.ImageID{UUID: uuid.MustParse(p.image)}, "private", p.project, p.mark
		img.Properties["color"] = p.mark
	})
	p.flavor, p.key, p.tag = "flavor-of-"+p.name, "key-of-"+p.name, "tag-of-"+p.name
	c.addFlavor(p.flavor, map[string]string{"color": p.mark})
	c.exec(`UPDATE flavors SET is_public = false WHERE id = $1`, p.flavor)
	c.exec(`INSERT INTO flavor_access (flavor_id, project_id) VALUES ($1, $2)`, p.flavor, p.project)
	p.volume, p.encryption = uuid.NewString(), uuid.NewString()
	c.exec(`INSERT INTO volume_types (id, name, description, is_public) VALUES ($1, $2, $2, false)`, p.volume, p.mark)
	c.exec(`INSERT INTO volume_type_access (volume_type_id, project_id) VALUES ($1, $2)`, p.volume, p.project)
	c.exec(`INSERT INTO volume_type_extra_specs (volume_type_id, key, value) VALUES ($1, 'multiattach', '<is> True'), ($1, 'volume_backend_name', $2)`, p.volume, p.mark)
	c.exec(`INSERT INTO volume_type_encryption (volume_type_id, id, provider, control_location, cipher) VALUES ($1, $3, 'luks', 'front-end', $2)`, p.volume, p.mark, p.encryption)
	c.exec(`INSERT INTO volume_type_changes (volume_type_id, name, action, request_id, user_id, project_id) VALUES ($1, $2, 'volume_type.create', 'req-1', $3, $4)`,
		p.volume, p.mark, p.user, p.project)
	text, err := json.Marshal(map[string]any{"keypair": map[string]any{"name": p.key, "public_key": publicKey + " " + p.mark}})
	require.NoError(c.t, err)
	c.do(c.t, p.as, "POST", "/os-keypairs", string(text)).ok(200)
	p.server = c.createAs(p.as, map[string]any{
		"name": p.mark, "description": p.mark, "metadata": map[string]string{"color": p.mark}, "tags": []string{p.tag},
		"hostname": p.mark, "user_data": base64.StdEncoding.EncodeToString([]byte(p.mark)), "key_name": p.key,
		"imageRef": p.image, "flavorRef": p.flavor,
	})
	p.action = c.text(`SELECT id FROM operations WHERE server_id = $1`, p.server)
	c.exec(`UPDATE operations SET state = 'failed', message = $2 WHERE id = $1`, p.action, p.mark)
	c.exec(`INSERT INTO operation_events (operation_id, event, host, started_at, finished_at, result, details) VALUES ($1, 'start_domain', $2, now(), now(), 'Error', $2)`,
		p.action, p.mark)
	c.exec(`UPDATE server_disks SET encryption_options = $2, tag = $3 WHERE server_id = $1`, p.server, `{"of":"`+p.mark+`"}`, p.mark)
	p.group = uuid.NewString()
	c.exec(`INSERT INTO server_groups (id, project_id, user_id, name, policy) VALUES ($1, $2, $3, $4, 'soft-affinity')`, p.group, p.project, p.user, p.mark)
	c.exec(`INSERT INTO server_hints (server_id, group_id) VALUES ($1, $2)`, p.server, p.group)
	c.settle(p.server, compute.VMActive, compute.TaskNone)
}
