package workflows_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"strongroom"
	"strongroom/durable"
	"strongroom/workflows"
)

func replayer(t testing.TB) worker.WorkflowReplayer {
	t.Helper()
	r, err := durable.NewReplayer()
	require.NoError(t, err)
	workflows.Register(r)
	return r
}

// TestReplay: operations that a version began go on under this code. Of this version
// it must be so: whoever changes a workflow changes VERSION, or two workers of one
// version would not agree. Where it is so of an earlier version, workers of this one
// can take over its operations (see worker); its histories go with the change that
// ends this. They are recorded with `./task history:record`.
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/history/*/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, replayer(t).ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
}

// Each version has histories of its own, recorded with its code.
func TestHistoriesOfThisVersionAreRecorded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "history", strongroom.Version(), "*.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 20, "./task history:record")
}

// The histories of a release are those of its tag: were they recorded anew with a workflow
// that changed, its replay would prove nothing. Before the tag there is nothing to compare.
// Those that go altogether do so with a change that ends the take-over of its operations.
func TestReleasedHistoriesStay(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/history/*")
	require.NoError(t, err)
	for _, folder := range folders {
		if !strings.HasSuffix(folder, "-dev") {
			require.NoError(t, sameAsTagged(".", folder, "v"+filepath.Base(folder)), "a release's histories have changed: change VERSION and record its own")
		}
	}
}

// sameAsTagged gives an error when a folder differs from what a tag has, if there is such
// a tag.
func sameAsTagged(dir, folder, tag string) error {
	git := func(args ...string) *exec.Cmd {
		c := exec.Command("git", args...)
		c.Dir = dir
		return c
	}
	tagged := git("rev-parse", "--verify", "--quiet", "refs/tags/"+tag).Run() == nil
	if !tagged {
		return nil
	}
	if out, err := git("diff", "--stat", "--exit-code", tag, "--", folder).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestHistoriesThatDifferFromTheirTagAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "1.0.0", "a.json")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	write("recorded")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"}} {
		c := exec.Command("git", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	write("not released yet")
	require.NoError(t, sameAsTagged(dir, "1.0.0", "v1.0.0"))
	tag := exec.Command("git", "tag", "v1.0.0")
	tag.Dir = dir
	require.NoError(t, tag.Run())
	require.ErrorContains(t, sameAsTagged(dir, "1.0.0", "v1.0.0"), "a.json")
	write("recorded")
	require.NoError(t, sameAsTagged(dir, "1.0.0", "v1.0.0"))
}
