package integration_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/deploy/cloud"
	"strongroom/deploy/dev/stack"
)

// backendVariable chooses the back end of this run.
const backendVariable = "STRONGROOM_TEST_BACKEND"

// The back ends: what strongroom dev brings along, the default; real Keystone,
// Barbican, Glance and Swift.
const (
	local     = "local"
	openStack = "openstack"
)

func leansOn() string {
	if b := os.Getenv(backendVariable); b != "" {
		return b
	}
	return local
}

// tokenLife is so short that tokens end in the middle of what tests do.
const tokenLife = 90 * time.Second

// The services of a cloud, and those that one with shares has besides.
var (
	coreServices  = []string{"keystone", "barbican", "glance", "swift"}
	shareServices = []string{manilaService, "ceph"}
)

func startOpenStack(dir, api string, services []string) (*cloud.Cloud, error) {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(filepath.Dir(dir), "cloud.log"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return cloud.Start(ctx, cloud.Config{
		Dir: dir, Services: services, Strongroom: api, Guests: slices.Contains(services, cloud.Neutron), TokenExpiry: tokenLife, TokenCache: cloud.TestTokenCache, ManilaRoot: os.Getenv(cloud.ManilaRootVariable),
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// entry names a user's cloud in clouds.yaml: "" is the administrator in the
// project demo, "-admin" the one in a project of his own; "-demo" and "-alt" are
// users of these projects, "-reader" is one who may only look at demo.
func (c *testCloud) entry(user string) string {
	if c.real == nil {
		return stack.CloudName + user
	}
	if user == "" {
		return "admin-demo"
	}
	return user[1:]
}

// CloudsFile is the clouds.yaml of the users.
func (c *testCloud) CloudsFile() string {
	if c.real == nil {
		return c.Layout.CloudsFile()
	}
	return c.real.CloudsFile()
}

// rows are the ports of stacks: below those that other services choose from, and
// apart from those of a run on the other back end.
var rows = struct {
	sync.Mutex
	next int
}{next: rand.IntN(rowsOfARun)}

const (
	firstRow   = 10000
	rowLength  = 9
	rowsOfARun = 300
)

// freeRow finds a row of ports that nobody uses, and gives each once.
func freeRow() int {
	rows.Lock()
	defer rows.Unlock()
	base := firstRow
	if leansOn() == openStack {
		base += rowsOfARun * rowLength
	}
	for {
		row := base + rows.next*rowLength
		rows.next = (rows.next + 1) % rowsOfARun
		if (stack.Layout{PortBase: row}).PortsAreFree() == nil {
			return row
		}
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), fmt.Sprint(path))
}
