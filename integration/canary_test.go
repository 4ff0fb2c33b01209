package integration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	keylocal "strongroom/activities/key/local"
	"strongroom/compute"
)

// canaries are values that must be nowhere, each in the forms in which it could
// have been written down.
type canaries map[string][][]byte

func (c canaries) add(name string, value []byte) {
	forms := [][]byte{bytes.Clone(value), []byte(hex.EncodeToString(value))}
	for shift := range 3 { // base64 of the value inside a longer text, at each alignment
		text := base64.StdEncoding.EncodeToString(append(make([]byte, shift), value...))
		forms = append(forms, []byte(text[4:len(text)-4]))
	}
	c[name] = forms
}

// in names the canaries that a text holds.
func (c canaries) in(text []byte) []string {
	var found []string
	for name, forms := range c {
		for _, form := range forms {
			if bytes.Contains(text, form) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

// Design §4: passphrases and tokens of a spawn and a delete are found neither in
// Temporal's histories and database, nor in PostgreSQL, logs, arguments,
// environments, or any file of the stack.
func TestNoSecretWhereItShouldNotBe(t *testing.T) {
	c := startedCloud(t)
	provider, endpoint, err := c.provider("-demo")
	require.NoError(t, err)
	api, err := openstack.NewComputeV2(provider, endpoint)
	require.NoError(t, err)
	api.Microversion = microversion
	known := canaries{}
	known.add("the user's token", []byte(provider.Token()))

	watch := watchProcesses()
	s, err := servers.Create(t.Context(), api, servers.CreateOpts{
		Name: "canary", FlavorRef: c.flavor(t, encryptedTPM), ImageRef: c.image, Networks: "none",
	}, nil).Extract()
	require.NoError(t, err)
	c.becomes(t, s.ID, "ACTIVE")
	passphrases(t, c, known)
	require.GreaterOrEqual(t, len(known), 1+4, "three disks, a TPM and a token")
	require.NoError(t, servers.Stop(t.Context(), api, s.ID).ExtractErr())
	c.becomes(t, s.ID, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), api, s.ID).ExtractErr())
	c.becomes(t, s.ID, "ACTIVE")
	c.delete(t, s.ID)
	seen := watch()

	require.Empty(t, known.in([]byte("x" + provider.Token() + "x"))[1:], "the search finds what is there")
	require.Empty(t, known.in(seen), "arguments and environments of processes")
	histories(t, c, func(workflow string, text []byte) { require.Empty(t, known.in(text), "history of %s", workflow) })
	dump, err := exec.Command("pg_dump", "--inserts", databaseURL(t, c)).Output()
	require.NoError(t, err)
	require.Contains(t, string(dump), s.ID)
	require.Empty(t, known.in(dump), "the database")
	files := 0
	err = filepath.WalkDir(c.State, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go
		}
		text, err := os.ReadFile(path)
		if err == nil {
			files++
			require.Empty(t, known.in(text), path)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 20)
}

// passphrases adds every passphrase that the key manager holds.
func passphrases(t *testing.T, c *testCloud, known canaries) {
	t.Helper()
	keys, err := keylocal.Open(filepath.Join(c.State, "keys"), filepath.Join(c.State, "master.key"))
	require.NoError(t, err)
	items, err := keys.List(t.Context(), compute.Credential{})
	require.NoError(t, err)
	for _, item := range items {
		p, err := keys.Passphrase(t.Context(), compute.Credential{ProjectID: item.ProjectID}, item.ID)
		require.NoError(t, err)
		require.NoError(t, p.Use(func(value []byte) error {
			known.add(item.Name, value)
			return nil
		}))
		p.Wipe()
	}
}

// watchProcesses collects arguments and environments of all processes until the
// returned function is called, which gives them.
func watchProcesses() func() []byte {
	ctx, stop := context.WithCancel(context.Background())
	seen := map[string]bool{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			files, _ := filepath.Glob("/proc/[0-9]*/*")
			for _, f := range files {
				if base := filepath.Base(f); base == "cmdline" || base == "environ" {
					text, _ := os.ReadFile(f)
					seen[string(text)] = true
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() []byte {
		stop()
		watching.Wait()
		var all bytes.Buffer
		for text := range seen {
			all.WriteString(text + "\n")
		}
		return all.Bytes()
	}
}

// histories gives every event of every workflow, as it is stored.
func histories(t *testing.T, c *testCloud, each func(workflow string, text []byte)) {
	t.Helper()
	temporal, err := client.Dial(client.Options{HostPort: c.TemporalAddress()})
	require.NoError(t, err)
	defer temporal.Close()
	count := 0
	for page := []byte(nil); ; {
		list, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: "default", Query: "WorkflowId STARTS_WITH 'server/'", NextPageToken: page,
		})
		require.NoError(t, err)
		for _, w := range list.GetExecutions() {
			for events := temporal.GetWorkflowHistory(t.Context(), w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId(), false, 0); events.HasNext(); {
				e, err := events.Next()
				require.NoError(t, err)
				text, err := proto.Marshal(e)
				require.NoError(t, err)
				each(w.GetExecution().GetWorkflowId(), text)
				count++
			}
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			break
		}
	}
	require.Greater(t, count, 50, "histories were read")
}

func databaseURL(t *testing.T, c *testCloud) string {
	t.Helper()
	var cfg struct {
		Database struct{ URL string }
	}
	readYAML(t, c.ConfigFile(), &cfg)
	return cfg.Database.URL
}
