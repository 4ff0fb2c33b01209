package integration_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest"
	"strongroom/deploy/guest/vm"
)

// Tests run beside each other, for much of what they do is wait: for workers that
// died to be missed, and for guests that boot. Those that only use a cloud share
// one; those that cut it off, hold it or search it have one for themselves. More at
// once would not be faster: guests boot on emulated CPUs.
const (
	sharers = 2 // tests at once on the shared cloud
	owners  = 2 // clouds for tests of their own
	pairs   = 1 // of them, those with two hosts
)

var (
	shared    = &slot{name: "shared", once: new(sync.Once)}
	seats     = line{places: sharers}
	ownClouds = line{places: owners, slots: map[kind][]*slot{onNeutron: {nil}}}
)

// slot is a place for a cloud, which starts when it is first needed.
type slot struct {
	name     string
	hosts    int
	shares   bool // real ones, on OpenStack
	once     *sync.Once
	cloud    *testCloud
	err      error
	replaced int
}

func (s *slot) get(t *testing.T) *testCloud {
	t.Helper()
	s.once.Do(func() {
		has := coreServices
		if s.shares {
			has = slices.Concat(coreServices, shareServices)
		}
		start := func(name string) {
			if s.cloud, s.err = startWith(name, max(s.hosts, 1), has); s.err != nil && s.cloud != nil {
				s.cloud.end()
				s.cloud = nil
			}
		}
		start(s.name)
		if s.err != nil { // the sums at the end tell of it
			startsAgain(s.name, s.err)
			start(s.name + "-again")
		}
		if s.err == nil {
			s.cloud.shared = s == shared
		}
	})
	require.NoError(t, s.err)
	return s.cloud
}

// lend gives a cloud to one test. One that fails may leave anything in it: its state and logs are kept,
// and the next test gets another cloud.
func lend(t *testing.T, of kind) *testCloud {
	t.Helper()
	s := ownClouds.borrow(t, of, 1)
	t.Cleanup(func() {
		if t.Failed() && s.cloud != nil {
			t.Log("the state and logs of this cloud are in", s.cloud.dir)
			s.cloud.end()
			s.replaced++
			first, _, _ := strings.Cut(s.name, "-")
			*s = slot{name: fmt.Sprintf("%s-%d", first, s.replaced), hosts: s.hosts, shares: s.shares, once: new(sync.Once), replaced: s.replaced}
		}
	})
	return s.get(t)
}

func TestMain(m *testing.M) {
	flag.Parse()
	if vm.Inside() {
		os.Exit(vm.Main(m))
	}
	if err := choose(); err != nil {
		panic(err)
	}
	// What runs at once is decided here, by seats and clouds.
	if err := flag.Set("test.parallel", "1000"); err != nil {
		panic(err)
	}
	slots := []*slot{shared}
	has := func(of kind, s *slot) {
		s.once = new(sync.Once)
		slots = append(slots, s)
		ownClouds.slots[of] = append(ownClouds.slots[of], s)
	}
	for i := range owners {
		has(ofItsOwn, &slot{name: fmt.Sprintf("own%d", i)})
	}
	for i := range pairs {
		has(onTwoHosts, &slot{name: fmt.Sprintf("pair%d", i), hosts: 2})
	}
	has(onManila, &slot{name: "shares", shares: true})
	code := m.Run()
	printTally()
	var ending sync.WaitGroup
	for _, s := range slots {
		if s.cloud != nil {
			ending.Go(s.cloud.end)
		}
	}
	ending.Wait()
	if code == 0 {
		_ = os.RemoveAll(folder)
	} else if folder != "" {
		fmt.Println("state and logs are kept in", folder)
	}
	os.Exit(code)
}

// sharedCloud gives the cloud that tests use side by side.
func sharedCloud(t *testing.T) *testCloud {
	t.Helper()
	return seated(t, 1)
}

// quietCloud gives the shared cloud to a test that takes much of the machine.
func quietCloud(t *testing.T) *testCloud {
	t.Helper()
	return seated(t, sharers)
}

func seated(t *testing.T, places int) *testCloud {
	t.Helper()
	seat(t, places)
	return shared.get(t)
}

// seat waits until the test may run beside those of the shared cloud.
func seat(t *testing.T, places int) {
	t.Helper()
	t.Parallel()
	needRoot(t)
	seats.borrow(t, ofItsOwn, places)
}

// ownCloud gives a cloud that nobody else uses until the test ends.
func ownCloud(t *testing.T) *testCloud {
	t.Helper()
	t.Parallel()
	needRoot(t)
	return lend(t, ofItsOwn)
}

// shareCloud gives a cloud with shares that nobody else uses until the test ends.
func shareCloud(t *testing.T) *testCloud {
	t.Helper()
	if leansOn() == local {
		return ownCloud(t)
	}
	t.Parallel()
	needRoot(t)
	return lend(t, onManila)
}

// needRoot skips a test without root; in CI that is a failure.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("the end-to-end suites need root")
	}
	t.Skip("needs root: libvirt, QEMU, PostgreSQL")
}

// folder holds everything of this run; "" while there is nothing.
var folder string

// products are what all clouds are made from.
type products struct{ binary, guest, idle string }

// made makes them, once.
var made = sync.OnceValues(func() (p products, err error) {
	if folder, err = os.MkdirTemp("", "sr"); err != nil {
		return p, err
	}
	if err := os.Chmod(folder, 0o711); err != nil {
		return p, err
	}
	p = products{binary: filepath.Join(folder, "strongroom"), guest: filepath.Join(folder, "guest.qcow2"), idle: filepath.Join(folder, "idle.qcow2")}
	// The binary of a release, with the points at which tests cut it off. Go keeps what go run would run, and the suite on the other back end need not link it again.
	build := exec.Command("go", "run", "-exec=install -T -m 755", "-tags=faultpoints", "strongroom/cmd/strongroom", p.binary)
	if out, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("building strongroom: %w\n%s", err, out)
	}
	ctx := context.Background()
	return p, errors.Join(guest.Build(ctx, p.guest, guest.Options{}), guest.BuildIdle(ctx, p.idle))
})
