package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// starter notes what it is asked to start, and can be made to fail.
type starter struct {
	mu      sync.Mutex
	started []compute.Operation

	cancelled []compute.OperationID
	plugged   []compute.ServerID // whose creates were told that a port was plugged
	calls     int
	answer    func(call int) error
	waited    []compute.Operation // whose image's record a request waited for
	record    func(context.Context, compute.Operation) (*compute.Error, error)
	ended     func(context.Context, compute.Operation) (*compute.Error, error)
	progress  *compute.Progress // of each operation that runs; nil: none told
	health    error
	looks     int // how often it was asked how it is
}

// Health is what a test says.
func (s *starter) Health(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.health
}

func (s *starter) unwell(health error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health, s.looks = health, 0
}

// Progress is what a test says.
func (s *starter) Progress(context.Context, compute.Operation) (compute.Progress, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		return compute.Progress{}, false, nil
	}
	return *s.progress, true, nil
}

// ImageRecord is there at once unless a test says otherwise.
func (s *starter) ImageRecord(ctx context.Context, op compute.Operation) (*compute.Error, error) {
	s.mu.Lock()
	s.waited = append(s.waited, op)
	record := s.record
	s.mu.Unlock()
	if record == nil {
		return nil, nil
	}
	return record(ctx, op)
}

// Ended says that an operation has succeeded unless a test says otherwise.
func (s *starter) Ended(ctx context.Context, op compute.Operation) (*compute.Error, error) {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended == nil {
		return nil, nil
	}
	return ended(ctx, op)
}

// PortPlugged notes who was told.
func (s *starter) PortPlugged(_ context.Context, server compute.ServerID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plugged = append(s.plugged, server)
	return nil
}

// CancelExecution notes what is cancelled.
func (s *starter) CancelExecution(_ context.Context, op compute.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = append(s.cancelled, op.ID)
	return nil
}

func (s *starter) Start(_ context.Context, op compute.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.answer != nil {
		if err := s.answer(s.calls); err != nil {
			return err
		}
	}
	s.started = append(s.started, op)
	return nil
}

func (s *starter) ops() []compute.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]compute.Operation{}, s.started...)
}

// consoles gives console logs, and which keys hosts keep, as agents do.
type consoles struct {
	err   error
	text  string
	url   string
	lines int
	kept  []compute.SecretID
	told  compute.Diagnostics
	has   []compute.ConsoleType
}

func (d *consoles) Consoles(_ context.Context, _ compute.HostID, url string, _ compute.ServerID) ([]compute.ConsoleType, error) {
	d.url = url
	return d.has, d.err
}

func (d *consoles) Diagnostics(_ context.Context, _ compute.HostID, url string, _ compute.ServerID) (compute.Diagnostics, error) {
	d.url = url
	return d.told, d.err
}

func (d *consoles) Kept(_ context.Context, _ compute.HostID, url string, _ compute.ServerID) ([]compute.SecretID, error) {
	d.url = url
	return d.kept, d.err
}

func (d *consoles) Console(_ context.Context, _ compute.HostID, url string, _ compute.ServerID, lines int) ([]byte, error) {
	d.url, d.lines = url, lines
	return []byte(d.text), d.err
}

// cloud is an API with a flavor, an image and a host.
type cloud struct {
	*bundle
	t          *testing.T
	starter    *starter
	imageStore *imageStore
	consoles   *consoles
	image      string
	host       compute.HostID
}

const flavorID = "42"

func setupCloud(t *testing.T, change ...func(*api.Config)) *cloud {
	t.Helper()
	c := &cloud{t: t, starter: &starter{}, imageStore: &imageStore{images: map[compute.ImageID]compute.Image{}}, consoles: &consoles{}}
	c.bundle = setup(t, append(change, func(config *api.Config) {
		config.Images, config.Operations, config.Hosts = c.imageStore, c.starter, c.consoles
	})...)
	c.image = c.addImage(nil)
	c.addFlavor(flavorID, nil)
	c.host = compute.HostID{UUID: uuid.New()}
	c.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-1', 'http://agent', 8, 8192, 100, now())`, c.host)
	return c
}

func (c *cloud) exec(sql string, args ...any) {
	c.t.Helper()
	_, err := c.pool.Exec(c.t.Context(), sql, args...)
	require.NoError(c.t, err)
}

func (c *cloud) count(sql string, args ...any) int {
	c.t.Helper()
	var n int
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), sql, args...).Scan(&n))
	return n
}

func (c *cloud) addFlavor(id string, specs map[string]string) {
	c.t.Helper()
	c.exec(`INSERT INTO flavors (id, name, vcpus, memory_mb, root_gb, ephemeral_gb, swap_mb) VALUES ($1, $2, 1, 512, 1, 2, 256)`, id, "flavor-"+id)
	for key, value := range specs {
		c.exec(`INSERT INTO flavor_extra_specs (flavor_id, key, value) VALUES ($1, $2, $3)`, id, key, value)
	}
}

// addImage adds a public image; change alters it first.
func (c *cloud) addImage(change func(*compute.Image)) string {
	img := compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "tiny", Status: "active", DiskFormat: "qcow2", ContainerFormat: "bare",
		SizeBytes: 1 << 20, VirtualBytes: 1 << 26, Visibility: "public", Properties: map[string]string{},
	}
	if change != nil {
		change(&img)
	}
	c.imageStore.put(img)
	return img.ID.String()
}

// body is the body of a create; more adds keys to the server or, with the
// value nil, takes them away.
func (c *cloud) body(more map[string]any) string {
	c.t.Helper()
	server := map[string]any{"name": "one", "imageRef": c.image, "flavorRef": flavorID, "networks": "none"}
	for key, value := range more {
		if server[key] = value; value == nil {
			delete(server, key)
		}
	}
	text, err := json.Marshal(map[string]any{"server": server})
	require.NoError(c.t, err)
	return string(text)
}

// create makes a server as the member and gives its id.
func (c *cloud) create(more map[string]any) string {
	c.t.Helper()
	return c.createAs(member, more)
}

func (c *cloud) createAs(as who, more map[string]any) string {
	c.t.Helper()
	a := c.do(c.t, as, "POST", "/servers", c.body(more), at("2.90")).ok(202)
	return a.get("server", "id").(string)
}

// settle puts a server into a state, as an operation that ended does.
func (c *cloud) settle(id string, vm compute.VMState, task compute.TaskState) {
	c.t.Helper()
	c.exec(`UPDATE servers SET vm_state = $2, task_state = $3, current_operation = '', power_state = 1, host_id = $4,
		availability_zone = 'nova', launched_at = '2026-11-20 12:00:00.5+00' WHERE id = $1`, id, vm, task, c.host)
	c.exec(`UPDATE server_disks SET encryption_format = 'luks' WHERE server_id = $1 AND encrypted AND encryption_format = ''`, id) // a host has it
}

// active makes a server that runs.
func (c *cloud) active() string {
	c.t.Helper()
	id := c.create(nil)
	c.settle(id, compute.VMActive, compute.TaskNone)
	return id
}

// waiting sends a request that has to wait for something, and gives what waits for its answer.
func waiting(t *testing.T, ask func() answer) func() answer {
	t.Helper()
	answered := make(chan answer, 1)
	go func() { answered <- ask() }()
	select {
	case got := <-answered:
		t.Fatalf("it did not wait: %d %s", got.code, got.body)
	case <-time.After(300 * time.Millisecond):
	}
	return func() answer { return <-answered }
}

func (c *cloud) act(t *testing.T, as who, id, body string, tweaks ...tweak) answer {
	t.Helper()
	return c.do(t, as, "POST", fmt.Sprintf("/servers/%s/action", id), body, tweaks...)
}

func (c *cloud) text(sql string, args ...any) string {
	c.t.Helper()
	var s string
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), sql, args...).Scan(&s))
	return s
}
