package integration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"strongroom/worker/pki"
)

// canaries are values that must be nowhere, each in the forms in which it could
// have been written down.
type canaries map[string][][]byte

func (c canaries) add(name string, values ...[]byte) {
	var forms [][]byte
	for _, value := range values {
		forms = append(forms, bytes.Clone(value), []byte(hex.EncodeToString(value)))
		for shift := range 3 { // base64 of the value inside a longer text, at each alignment
			text := base64.StdEncoding.EncodeToString(append(make([]byte, shift), value...))
			forms = append(forms, []byte(text[4:len(text)-4]))
		}
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

// finder is in for long texts and for many: each is read once, however much there is to find.
func (c canaries) finder() func(text []byte) []string {
	type form struct {
		name  string
		value []byte
	}
	begins := make([][]form, 1<<16) // by their first two bytes
	at := func(text []byte) int { return int(text[0])<<8 | int(text[1]) }
	for name, forms := range c {
		for _, value := range forms {
			begins[at(value)] = append(begins[at(value)], form{name, value})
		}
	}
	return func(text []byte) (found []string) {
		for i := range max(len(text)-1, 0) {
			for _, f := range begins[at(text[i:])] {
				if bytes.HasPrefix(text[i:], f.value) && !slices.Contains(found, f.name) {
					found = append(found, f.name)
				}
			}
		}
		return found
	}
}

// anyToken is what every token of the run's identity service looks like, whosever
// it is: those of strongroom's own user are in no test's hands.
func anyToken() *regexp.Regexp {
	if leansOn() == openStack {
		return regexp.MustCompile(`gAAAAAB[\w-]{60,}|67414141414142[0-9a-f]{120,}|Z0FBQUFB[\w+/-]{80,}`) // as it is, as hex, in base64
	}
	return regexp.MustCompile(`eyJhIjoi[\w-]{60,}|65794a68496a6f69[0-9a-f]{120,}|ZXlKaElqb2[\w+/-]{80,}`)
}

// Design §4: passphrases and tokens of a spawn, of a rotation of keys, of an image, of a server of it and of
// deletes, and strongroom's own password, are found neither in Temporal's histories and database, nor in
// PostgreSQL, logs, arguments, environments, or any file of the stack. SH-25: nor is the key of the server's share, nor where that is exported;
// and where on its host it is mounted is in no history, log, fault or answer to its users.
func TestNoSecretWhereItShouldNotBe(t *testing.T) {
	backends(t, openStack, local)
	c := shareCloud(t)
	owner, err := c.login("-demo")
	require.NoError(t, err)
	api := owner.compute(t)
	known := canaries{}
	passwordFile := filepath.Join(c.State, "service.password")
	password, err := os.ReadFile(passwordFile)
	require.NoError(t, err)
	known.add("the service user's password", bytes.TrimSpace(password))
	noteToken := func() { known.add("the user's token at "+time.Now().String(), []byte(api.Token())) }
	noteToken()

	watch := watchProcesses(t)
	s, err := servers.Create(t.Context(), api, servers.CreateOpts{
		Name: "canary", FlavorRef: c.flavor(t, encryptedTPM), ImageRef: c.idler, Networks: "none",
	}, nil).Extract()
	require.NoError(t, err)
	noteToken()
	c.becomes(t, s.ID, "ACTIVE")
	own := 0
	for name, value := range c.passphrases(t) {
		known.add(name, value)
		if strings.HasPrefix(name, "strongroom server "+s.ID+" ") {
			own++
		}
	}
	require.Equal(t, 4, own, "three disks and a TPM; images of other tests have keys too")
	noCores(t)
	require.NoError(t, servers.Stop(t.Context(), api, s.ID).ExtractErr())
	noteToken()
	c.becomes(t, s.ID, "SHUTOFF")
	shared := c.share(t)
	require.NoError(t, c.attach(t, s.ID, shared, "data"))
	c.hasShare(t, s.ID, shared, "inactive")
	if c.real == nil {
		c.failsToStart(t, s.ID, shared)
	} else {
		known.add("the key of the server's share", []byte(c.accessRules(t, shared)[1].Key))
	}
	places := canaries{}
	places.add("where the share is exported", []byte(shared.location[strings.LastIndex(shared.location, ":")+1:]))
	mounted := filepath.Join("mounts", shared.id)
	require.NoError(t, servers.Reboot(t.Context(), api, s.ID, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	noteToken()
	c.becomes(t, s.ID, "ACTIVE")
	c.hasShare(t, s.ID, shared, "active")
	told := c.toldOf(t, "-demo", s.ID, shared)
	require.Empty(t, places.in(told), invariant+"its user is told where a share is")
	require.NotContains(t, string(told), mounted)
	require.NotEmpty(t, places.in(c.toldOf(t, "-admin", s.ID, shared)), "an administrator is told, and the search finds it")
	require.NoError(t, c.rotate(t, "-demo", s.ID, nil)) // the new passphrases are read below
	c.becomes(t, s.ID, "ACTIVE")
	img := c.createImage(t, s.ID, "canary", map[string]any{"key": "new"})
	of := c.createOf(t, unspoken, img.ID)
	c.becomes(t, of, "ACTIVE")
	for name, value := range c.passphrases(t) { // the image's, and those of the server of it
		known.add(name, value)
	}
	c.delete(t, of)
	c.deleteImage(t, img)
	c.delete(t, s.ID)
	seen := watch()

	tokens := anyToken()
	require.Regexp(t, tokens, api.Token(), "the search finds what is there")
	require.NotEmpty(t, known.in([]byte("x"+api.Token()+"x")))
	require.NotEmpty(t, known.in([]byte(base64.StdEncoding.EncodeToString([]byte("xx"+api.Token()+"x")))))
	nowhere := func(text []byte, where string) {
		t.Helper()
		require.Empty(t, known.in(text), invariant+where)
		require.Empty(t, places.in(text), invariant+where)
		require.Empty(t, tokens.Find(text), invariant+where)
		if strings.HasPrefix(where, "history ") || where == "the database" || strings.HasPrefix(where, filepath.Dir(c.LogFile("api"))) {
			require.NotContains(t, string(text), mounted, where)
		}
	}
	require.Empty(t, known.in(seen), invariant+"arguments and environments of processes")
	search(t, c, s.ID, nowhere, passwordFile)
}

// failsToStart has a server fail to start with a share of this machine that has lost its folder meanwhile.
func (c *testCloud) failsToStart(t *testing.T, server string, s testShare) {
	t.Helper()
	require.NoError(t, os.Rename(s.folder, s.folder+".lost"))
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), server).ExtractErr())
	require.Contains(t, c.becomes(t, server, "ERROR").Fault.Message, s.id)
	c.hasShare(t, server, s, "error")
	require.NoError(t, os.Rename(s.folder+".lost", s.folder))
}

// toldOf gives what the API tells a user of a server and its share.
func (c *testCloud) toldOf(t *testing.T, user, server string, s testShare) []byte {
	t.Helper()
	client := *c.compute(t, user)
	client.Microversion = "2.97"
	var all []byte
	for _, path := range []string{"", "/shares", "/shares/" + s.id, "/os-instance-actions", "/metadata"} {
		resp, err := client.Request(t.Context(), http.MethodGet, client.ServiceURL("servers", server)+path, &gophercloud.RequestOpts{OkCodes: []int{200}, KeepResponseBody: true})
		require.NoError(t, err, path)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		all = append(all, text...)
	}
	require.Contains(t, string(all), s.id)
	return all
}

// search reads what is kept of a server and of all else: Temporal's histories, the database, and all
// files of the stack but for one.
func search(t *testing.T, c *testCloud, server string, nowhere func(text []byte, where string), but string) {
	t.Helper()
	histories(t, c, func(workflow string, text []byte) { nowhere(text, "history of "+workflow) })
	dump, err := exec.Command("pg_dump", "--inserts", databaseURL(t, c)).Output()
	require.NoError(t, err)
	require.Contains(t, string(dump), server)
	nowhere(dump, "the database")
	files := 0
	err = filepath.WalkDir(c.State, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == but {
			return nil //nolint:nilerr // files come and go
		}
		text, err := os.ReadFile(path)
		if err == nil {
			files++
			nowhere(text, path)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 20)
}

// watchProcesses collects arguments and environments of all processes until the
// returned function is called, which gives them, or the test ends. Those of a young
// process are read again and again: it may still become another program.
func watchProcesses(t *testing.T) func() []byte {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	seen, looks := map[string]bool{}, map[string]int{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			entries, _ := os.ReadDir("/proc")
			for _, e := range entries {
				pid := e.Name()
				if pid[0] < '0' || pid[0] > '9' || looks[pid] > 100 && looks[pid]%100 != 0 {
					looks[pid]++
					continue
				}
				looks[pid]++
				for _, what := range []string{"cmdline", "environ"} {
					text, _ := os.ReadFile(filepath.Join("/proc", pid, what))
					seen[string(text)] = true
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
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

// noCores requires that the processes of strongroom that run dump no core: their memory has secrets in it (S12).
func noCores(t *testing.T) {
	t.Helper()
	products, err := made()
	require.NoError(t, err)
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	seen, temporals := 0, 0
	for _, e := range entries {
		dir := filepath.Join("/proc", e.Name())
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		isTemporal := filepath.Base(exe) == "strongroom-temporal"
		if err != nil || exe != products.binary && !isTemporal {
			continue
		}
		limits, err := os.ReadFile(filepath.Join(dir, "limits"))
		if err != nil { // it has ended
			continue
		}
		require.Regexp(t, `(?m)^Max core file size +[01] +[01] `, string(limits), invariant+dir)
		if isTemporal {
			temporals++
		} else {
			seen++
		}
	}
	require.Greater(t, seen, 3, "the api, a gateway, workers")
	require.Positive(t, temporals)
}

// histories gives every event of every workflow, as it is stored.
func histories(t *testing.T, c *testCloud, each func(workflow string, text []byte)) {
	t.Helper()
	temporal, err := c.DialTemporal(pki.Operator)
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
