package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/microversion"
	"strongroom/compute"
	"strongroom/integration/seed"
)

// mostMemory is what the process may have at most under the attack: the API and what
// attacks it.
const mostMemory = 300 << 20

// between is how many requests come before everything is put back as it was.
const between = 100

// A tenant with a script: no request, however odd, is answered with an error of the server,
// with anything but a fault of the API's own form, or with a text of another project's, and
// none makes the API large. It is not parallel: the memory is the process's.
func TestATenantWithAScript(t *testing.T) {
	requests := 2_000
	if os.Getenv("STRONGROOM_TEST_FULL") != "" {
		requests = 100_000
	}
	fmt.Printf("%d requests, %s=%s\n", requests, seed.Variable, seed.Text())
	groups := &ownGroups{}
	a := &attack{tenants: setupTenants(t, func(config *api.Config) { config.Networks = portless{groups} }), seed: seed.Text()}
	server := httptest.NewUnstartedServer(a.api)
	server.Config.MaxHeaderBytes = 64 << 10
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&a.serverLog, nil), slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	a.address = server.Listener.Addr().String()
	a.seeds = a.seedsOf(t)

	forgetPeak()
	for first := 0; first < requests; first += between {
		a.renew()
		groups.plant(a.home, a.there)
		a.between(t, first, min(first+between, requests))
	}
	peak := peakMemory(t)
	t.Logf("answers by status: %v; at most %d MiB", a.statuses, peak>>20)
	require.Empty(t, a.errors.all(), "INVARIANT: the server made errors of its own")
	require.NotContains(t, a.serverLog.String(), "panic", "INVARIANT")
	require.Less(t, peak, mostMemory)
	changes := a.statuses[http.StatusCreated] + a.statuses[http.StatusAccepted] + a.statuses[http.StatusNoContent]
	require.Positive(t, a.statuses[http.StatusAccepted], "the attack is so odd that it starts no operation")
	require.Greater(t, changes, requests/80, "the attack is so odd that it hardly gets in")
	require.Greater(t, a.statuses[400], requests/10, "the attack is not odd")
}

// attack is a cloud that is attacked.
type attack struct {
	*tenants
	seed      string
	address   string
	seeds     []seedRequest
	serverLog logBuffer

	mu       sync.Mutex
	statuses map[int]int
}

// seedRequest is a request of which others are made.
type seedRequest struct {
	method, path, query, body string
	oldest, newest            microversion.Version
	volume                    bool // of the volume types API, whose versions are 3.x
}

// shot is a request as it is sent.
type shot struct {
	as      who
	method  string
	target  string
	headers []string
	body    string // as it stands behind the headers
	large   bool   // more than the API reads
	crooked bool   // it may be no HTTP
	cut     bool   // it may end before its body does, as its headers have it, so its client stops writing
}

// more are bodies that say more than those of the demands.
var more = []seedRequest{
	{method: "POST", path: "/servers", oldest: 67, newest: 97, body: `{"server":{"name":"n","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none","metadata":{"a":"b"},
		"tags":["a"],"description":"d","hostname":"host-1","user_data":"dGV4dA==","config_drive":true,"min_count":1,"max_count":2,"return_reservation_id":false,
		"availability_zone":"nova","adminPass":"secret","accessIPv4":"192.0.2.1","accessIPv6":"2001:db8::1","OS-DCF:diskConfig":"AUTO",
		"security_groups":[{"name":"default"}],"key_name":"KEY","trusted_image_certificates":null,
		"block_device_mapping_v2":[{"boot_index":0,"uuid":"PUBLIC-IMAGE","source_type":"image","destination_type":"local","volume_size":1,"delete_on_termination":true},
		{"boot_index":-1,"source_type":"blank","destination_type":"local","volume_size":1,"guest_format":"swap","tag":"t","disk_bus":"virtio"}]},
		"os:scheduler_hints":{"group":"00000000-0000-0000-0000-000000000000","different_host":["a"]}}`},
	{method: "POST", path: "/servers", oldest: 1, newest: 36, body: `{"server":{"name":"n","imageRef":"PUBLIC-IMAGE","flavorRef":42,"min_count":"1","max_count":"1",
		"networks":[{"uuid":"00000000-0000-0000-0000-000000000000","fixed_ip":"192.0.2.9","port":null}],"personality":[{"path":"/etc/motd","contents":"dGV4dA=="}],
		"block_device_mapping":[{"device_name":"vda","volume_id":"00000000-0000-0000-0000-000000000000","volume_size":"1"}]},"OS-SCH-HNT:scheduler_hints":{}}`},
	{method: "POST", path: "/servers/SERVER/action", oldest: 54, newest: 97, body: `{"rebuild":{"imageRef":"IMAGE","adminPass":"p","metadata":{},"accessIPv4":"192.0.2.1","accessIPv6":"::1",
		"OS-DCF:diskConfig":"MANUAL","description":null,"key_name":"KEY","user_data":null,"trusted_image_certificates":["a"],"preserve_ephemeral":true}}`},
	{method: "GET", path: "/servers/detail", oldest: 1, newest: 97, query: "name=a.*&limit=10&marker=SERVER&sort_key=display_name&sort_dir=asc&status=ACTIVE&changes-since=2020-01-01T00:00:00Z"},
	{method: "GET", path: "/servers", oldest: 26, newest: 97, query: "tags=a,b&not-tags-any=c&hostname=(a|b)&ip=10.*&power_state=1&all_tenants=0"},
	{method: "GET", path: "/servers/SERVER/os-instance-actions", oldest: 58, newest: 97, query: "limit=1&changes-since=2020-01-01T00:00:00Z"},
	{method: "GET", path: "/flavors/detail", oldest: 1, newest: 97, query: "minRam=1&minDisk=1&sort_key=memory_mb&sort_dir=desc&is_public=true&limit=2&marker=42"},
}

// ofVolumes are the routes of the volume types API.
var ofVolumes = []seedRequest{
	{method: "GET", path: "/types", query: "is_public=None&limit=1&offset=0&sort=name:asc,id&marker=VOLUME"},
	{method: "GET", path: "/types", query: "extra_specs={'multiattach':'<is> True'}&name=a&sort_key=name&sort_dir=desc"},
	{method: "GET", path: "/types/VOLUME"},
	{method: "GET", path: "/types/default"},
	{method: "POST", path: "/types", body: `{"volume_type":{"name":"n","description":"d","os-volume-type-access:is_public":true,"extra_specs":{"a":"b"}}}`},
	{method: "PUT", path: "/types/VOLUME", body: `{"volume_type":{"name":"n","description":null,"is_public":false}}`},
	{method: "DELETE", path: "/types/VOLUME"},
	{method: "GET", path: "/types/VOLUME/extra_specs"},
	{method: "POST", path: "/types/VOLUME/extra_specs", body: `{"extra_specs":{"multiattach":"<is> True","volume_backend_name":"x"}}`},
	{method: "GET", path: "/types/VOLUME/extra_specs/multiattach"},
	{method: "PUT", path: "/types/VOLUME/extra_specs/multiattach", body: `{"multiattach":"<is> False"}`},
	{method: "DELETE", path: "/types/VOLUME/extra_specs/multiattach"},
	{method: "GET", path: "/types/VOLUME/os-volume-type-access"},
	{method: "POST", path: "/types/VOLUME/action", body: `{"addProjectAccess":{"project":"PROJECT"}}`},
	{method: "POST", path: "/types/VOLUME/action", body: `{"removeProjectAccess":{"project":"PROJECT"}}`},
	{method: "GET", path: "/types/VOLUME/encryption"},
	{method: "GET", path: "/types/VOLUME/encryption/cipher"},
	{method: "POST", path: "/types/VOLUME/encryption", body: `{"encryption":{"provider":"luks","control_location":"front-end","key_size":256,"cipher":"aes-xts-plain64"}}`},
	{method: "PUT", path: "/types/VOLUME/encryption/provider", body: `{"encryption":{"key_size":null}}`},
	{method: "DELETE", path: "/types/VOLUME/encryption/provider"},
	{method: "GET", path: "/types/VOLUME/changes"},
	{method: "GET", path: "/limits"},
	{method: "GET", path: "/qos-specs"},
	{method: "GET", path: "/os-quota-sets/PROJECT", query: "usage=true"},
	{method: "GET", path: "/os-quota-sets/PROJECT/defaults"},
	{method: "PUT", path: "/os-quota-sets/PROJECT", body: `{"quota_set":{"volumes":10}}`},
	{method: "DELETE", path: "/os-quota-sets/PROJECT"},
	{method: "GET", path: "/os-quota-class-sets/default"},
	{method: "PUT", path: "/os-quota-class-sets/default", body: `{"quota_class_set":{"volumes":10}}`},
}

// seedsOf makes a seed of each demand, of the volume types API's requests, and of what is more.
func (a *attack) seedsOf(t *testing.T) []seedRequest {
	t.Helper()
	seeds := slices.Clone(more)
	for _, r := range a.api.Routes() {
		for _, d := range demands[routeName(r)] {
			s := seedRequest{method: r.Method, path: d.to, query: d.query, body: d.body, oldest: max(r.Min, 1), newest: r.Max}
			if s.newest == 0 {
				s.newest = microversion.Max
			}
			if s.path == "" {
				s.path = r.Path
			}
			seeds = append(seeds, s)
		}
	}
	for _, r := range a.api.VolumeRoutes() {
		like := regexp.MustCompile("^" + regexp.MustCompile(`:\w+`).ReplaceAllString(r, `[^/]+`) + "$")
		require.True(t, slices.ContainsFunc(ofVolumes, func(s seedRequest) bool { return like.MatchString(s.method + " " + s.path) }), "%s: say in ofVolumes how it is asked", r)
	}
	for _, s := range ofVolumes {
		s.newest, s.volume = microversion.Volume.Max, true
		seeds = append(seeds, s)
	}
	require.Greater(t, len(seeds), len(demands))
	return seeds
}

// between sends some requests, several at once.
func (a *attack) between(t *testing.T, first, last int) {
	t.Helper()
	numbers := make(chan int)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for n := range numbers {
				s := a.shot(n)
				if wrong := a.fire(s); wrong != "" {
					if !strings.HasPrefix(wrong, "no answer") {
						t.Log("INVARIANT")
					}
					t.Errorf("request %d of seed %s: %s\n%s %s as %s, %q\n%.2000q", n, a.seed, wrong, s.method, s.target, s.as, s.headers, s.body)
				}
			}
		})
	}
	for n := first; n < last && !t.Failed(); n++ {
		if n%5 == 0 { // what is busy, or being deleted, refuses everything at once
			a.settle(a.there.server, pick(rand.New(rand.NewPCG(0, uint64(n))), vmStates), compute.TaskNone)
		}
		numbers <- n
	}
	close(numbers)
	done.Wait()
	if t.Failed() {
		t.Fatalf("the server's errors: %q", a.errors.all())
	}
}

// shot makes the n-th request of the seed. Only ids differ from one run to the next.
func (a *attack) shot(n int) shot {
	h := fnv.New64a()
	_, _ = io.WriteString(h, a.seed)
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(n)))
	seed := pick(r, a.seeds)
	of := a.there
	if r.IntN(4) == 0 {
		of = a.home // what is not theirs
	}
	words := of.words(a.tenants)
	s := shot{as: stranger, method: seed.method}
	switch r.IntN(20) {
	case 0:
		s.as = observer
	case 1:
		s.as = nobody
	case 2:
		s.as = powerless
	case 3:
		if seed.method == http.MethodGet || strings.HasPrefix(seed.path, "/servers") {
			s.as = operator // what is the whole cloud's stays as it is
		}
	}
	path, query, body := words.Replace(of.path(a.tenants, seed.path)), words.Replace(strings.ReplaceAll(seed.query, "MARK", "a")), words.Replace(seed.body)
	version := strconv.Itoa(int(seed.oldest) + r.IntN(int(seed.newest-seed.oldest)+1))
	root, service := "/v2.1", "compute 2."
	if seed.volume {
		root, service = "/v3", "volume 3."
	}
	if r.IntN(4) == 0 {
		root = pick(r, []string{"/v2.1/" + elsewhere, "/v2.1/" + elsewhere, "/v2", "/v2", "/v2.1/" + project, "/v3", "/volume/v3", "/v3/" + elsewhere, "/v3/" + project, "/v2.1/%2F", "/V2.1"})
	}
	if body != "" && r.IntN(10) < 6 {
		body = mutateJSON(r, body, []string{"name", "server", "metadata", "imageRef", "flavorRef", "count", "", "\x00", "__proto__", strings.Repeat("k", 300)})
	}
	if r.IntN(10) == 0 {
		body = mutateBytes(r, body)
	}
	if r.IntN(100) < 40 && (seed.method == http.MethodGet || r.IntN(4) == 0) {
		query = mutateQuery(r, query)
	}
	path = root + path
	if r.IntN(10) < 2 {
		path = mutatePath(r, path)
	}
	s.target = path
	if query != "" {
		s.target += "?" + query
	}
	s.large = len(body) > api.MaxBody
	s.body = body
	s.headers = []string{
		"Host: cloud.example:8774", "Connection: close", "Content-Type: application/json", microversion.Header + ": " + service + version,
		"X-Auth-Token: " + string(s.as), "Content-Length: " + strconv.Itoa(len(body)),
	}
	if r.IntN(10) < 2 {
		s.crook(r)
	}
	s.target = escapeLine(s.target)
	return s
}

// escapeLine keeps what a request line cannot hold out of it.
func escapeLine(target string) string {
	var b strings.Builder
	for _, c := range []byte(target) {
		if c <= ' ' || c == 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// crook changes the headers.
func (s *shot) crook(r *rand.Rand) {
	set := func(name, value string) {
		s.headers = slices.DeleteFunc(s.headers, func(h string) bool { return strings.HasPrefix(h, name+":") })
		s.headers = append(s.headers, name+": "+value)
	}
	odd := strings.NewReplacer("\r", "", "\n", "").Replace(pick(r, oddText))
	s.crooked = true
	switch r.IntN(14) {
	case 0:
		set(microversion.Header, pick(r, []string{
			"compute 2.1, compute 2.97", "compute latest", "compute 2.latest", "compute 02.01", "compute 2.98", "compute 3.1", "volume 3.71", "compute 2.999999999999999999999",
			"compute", ",,,,", "compute 2.1 strongroom 1.0", "compute 2.90, strongroom 1.0", "compute 2.90, strongroom 9.9", "strongroom 1.0", "compute 2.-1", odd,
		}))
	case 1:
		set(microversion.LegacyHeader, pick(r, []string{"2.1", "latest", "2.999", "x", odd}))
		s.headers = slices.DeleteFunc(s.headers, func(h string) bool { return strings.HasPrefix(h, microversion.Header) })
	case 2:
		set("Content-Type", pick(r, []string{"application/xml", "text/plain", "application/json; charset=utf-16", "multipart/form-data", "application/json;;;", "/", odd}))
	case 3:
		s.cut = true
		set("Transfer-Encoding", "chunked")
		s.headers = slices.DeleteFunc(s.headers, func(h string) bool { return strings.HasPrefix(h, "Content-Length:") })
		s.body = chunked(r, s.body)
	case 4:
		s.cut = true
		set("Transfer-Encoding", pick(r, []string{"gzip", "chunked, chunked", "identity", "gzip, chunked", odd}))
	case 5:
		s.cut = true
		set("Content-Length", pick(r, []string{"0", "1", "-1", "99999999999999999999", "1e3", "0x10", strconv.Itoa(len(s.body) + 10), odd}))
	case 6:
		set("Expect", "100-continue")
	case 7:
		s.as = nobody
		set("X-Auth-Token", pick(r, []string{"", " ", "token-of-nobody", "../../tokens", "token-of-admin\x00", strings.Repeat("t", 60_000), strings.Repeat("t", 200_000), odd}))
	case 8:
		s.method = pick(r, []string{"HEAD", "OPTIONS", "PATCH", "TRACE", "PUT", "DELETE", "get", "FOO", "CONNECT"})
	case 9:
		set("Host", pick(r, []string{"", "a b", "[::1]:80", "evil.example/../x", strings.Repeat("h", 1000), odd}))
	case 10:
		set("X-OpenStack-Request-ID", pick(r, []string{"req-00000000-0000-0000-0000-000000000000", "req-x", odd}))
	case 11:
		set("X-HTTP-Method-Override", "DELETE")
		set("X-Forwarded-For", odd)
		set("X-Forwarded-Proto", odd)
	case 12:
		set("Content-Encoding", "gzip")
		set("Accept", pick(r, []string{"application/xml", "*/*;q=x", odd}))
	default:
		for i := range 500 {
			set("X-Header-"+strconv.Itoa(i), odd)
		}
	}
}

// chunked encodes a body in chunks, rightly or not.
func chunked(r *rand.Rand, body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := 1 + r.IntN(len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	switch r.IntN(4) {
	case 0:
		return mutateBytes(r, b.String())
	case 1:
		return b.String() // without an end
	}
	return b.String() + "0\r\n\r\n"
}

// fire sends a request and says what is wrong with its answer.
func (a *attack) fire(s shot) string {
	code, header, body, err := a.send(s)
	if err != nil {
		if (s.large || s.crooked) && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
			return "" // it was refused before all of it was read
		}
		return "no answer: " + err.Error() // a busy machine may be the reason
	}
	a.mu.Lock()
	if a.statuses == nil {
		a.statuses = map[int]int{}
	}
	a.statuses[code]++
	a.mu.Unlock()
	for _, mark := range a.home.marks() {
		ownType := s.as == powerless && strings.Contains(body, `"volume_type`) // of its project: everybody there reads it
		if s.as != operator && !ownType && strings.Contains(body+fmt.Sprint(header), mark) {
			return fmt.Sprintf("what is another project's is in the answer: %d %.2000s", code, body)
		}
	}
	own := header.Get("X-Openstack-Request-Id") != "" // else HTTP itself was refused
	says := func(text string) bool {                  // a HEAD says nothing (K2)
		return s.method == http.MethodHead && body == "" || strings.Contains(body, text)
	}
	switch {
	case code == http.StatusNotImplemented && own && strings.Contains(s.target, "/os-hosts/") && says(notOffered):
	case !own && s.crooked && slices.Contains([]int{400, 417, 431, 501}, code):
	case !own && code == http.StatusRequestHeaderFieldsTooLarge && len(s.target) > 32<<10:
	case s.cut && code == http.StatusServiceUnavailable && says("given up"): // to HTTP its client had gone
	case code >= 500:
		return fmt.Sprintf("an error of the server: %d %.2000s", code, body)
	case !own:
		return fmt.Sprintf("not the API's answer: %d %.2000s", code, body)
	case code >= 400 && s.method != http.MethodHead && !isFault(code, body):
		return fmt.Sprintf("no fault of the API's form: %d %.2000q", code, body)
	}
	return ""
}

func isFault(code int, body string) bool {
	var fault map[string]struct {
		Code    int
		Message string
	}
	if json.Unmarshal([]byte(body), &fault) != nil || len(fault) != 1 {
		return false
	}
	one := slices.Collect(maps.Values(fault))[0]
	return one.Code == code && one.Message != ""
}

// send writes a request as it stands and reads its answer.
func (a *attack) send(s shot) (code int, header http.Header, body string, err error) {
	c, err := net.Dial("tcp", a.address)
	if err != nil {
		return 0, nil, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	go func() {
		_, _ = io.WriteString(c, s.method+" "+s.target+" HTTP/1.1\r\n"+strings.Join(s.headers, "\r\n")+"\r\n\r\n"+s.body)
		if s.cut { // else it would look as if nobody waited for the answer
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}()
	in := bufio.NewReader(c)
	for {
		answer, err := http.ReadResponse(in, &http.Request{Method: s.method})
		if err != nil {
			return 0, nil, "", err
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusContinue {
			continue
		}
		return answer.StatusCode, answer.Header, string(text), err
	}
}

// forgetPeak has the kernel measure the process's peak memory from here on.
func forgetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func peakMemory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	m := peakLine.FindSubmatch(bytes.TrimSpace(text))
	require.NotNil(t, m)
	kib, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return kib << 10
}
