package strongroom_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// taskOf is what these tests read of a task.
type taskOf struct {
	Deps []any
	Cmds []any
	Vars map[string]any
}

// tasksOf gives the tasks by the names by which they are called.
func tasksOf(t *testing.T) map[string]taskOf {
	t.Helper()
	tasks := map[string]taskOf{}
	for _, in := range []struct {
		file, prefix string
		more         int // than so many tasks
	}{{"Taskfile.yml", "", 20}, {"deploy/cloud/Taskfile.yml", "cloud:", 2}} {
		text, err := os.ReadFile(in.file)
		require.NoError(t, err)
		var file struct{ Tasks map[string]taskOf }
		require.NoError(t, yaml.Unmarshal(text, &file))
		require.Greater(t, len(file.Tasks), in.more, in.file)
		for name, task := range file.Tasks {
			tasks[in.prefix+name] = task
		}
	}
	return tasks
}

// A task runs one thing at a time before its commands: a failure is the last that is printed, and packages are there before what is built.
func TestTasksRunOneThingAtATime(t *testing.T) {
	t.Parallel()
	tasks := tasksOf(t)
	for name, task := range tasks {
		assert.LessOrEqual(t, len(task.Deps), 1, "task runs all deps of %s at once: make them cmds", name)
	}
	for _, name := range []string{"demo", "dev", "needs", "bench"} {
		first, _ := tasks[name].Cmds[0].(map[string]any)
		assert.Equal(t, "packages", first["task"], "the first command of %s", name)
	}
	first, _ := tasks["test"].Cmds[0].(map[string]any)
	require.Equal(t, "needs", first["task"])
}

// Packages are installed by one script, which waits for its turn, and CI does what the README says.
func TestPackagesAreInstalledInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := exec.Command("git", "ls-files", "-z", "--", ".ci", "deploy", "tools", "task", "Taskfile.yml", ":!*.go").Output()
	require.NoError(t, err)
	installs := regexp.MustCompile(`(?m)^[^#\n]*\b(apt|apt-get|aptitude)\b[^\n|;]* (install|update)\b`)
	for _, name := range strings.Split(strings.TrimRight(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if name != "deploy/install-packages" {
			assert.NotRegexp(t, installs, string(text), name)
		}
	}
	ci, err := os.ReadFile(".ci/run")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(ci), "\n./task test\n"))
	require.NotRegexp(t, `packages|modules`, string(ci))
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "**`./task test`**")
}

// Each package with tests is in unit, but for the end-to-end suite and its benchmarks, which have tasks of their own, and for packages all of whose
// tests are deep.
func TestEachPackageIsTested(t *testing.T) {
	t.Parallel()
	tasks := tasksOf(t)
	unit, _ := tasks["unit"].Vars["UNIT"].(string)
	without := regexp.MustCompile(regexp.MustCompile(`grep -vE '(.*)' \|`).FindStringSubmatch(unit)[1])
	files, err := exec.Command("git", "ls-files", "--", "*_test.go", ":!client", ":!deploy/temporal").Output()
	require.NoError(t, err)
	left := map[string]bool{}
	for _, file := range strings.Fields(string(files)) {
		if folder := path.Dir(file); without.MatchString("strongroom/" + folder) {
			left[folder] = true
		}
	}
	deep := map[string]bool{"integration": true, "integration/bench": true}
	for _, folder := range []string{"activities/port/neutron", "activities/share/manila", "deploy/cloud/ceph"} {
		deep[folder] = true
		require.True(t, slices.ContainsFunc(areasOf(t), func(a area) bool { return slices.Contains(a.Packages, folder) }), folder)
	}
	require.Equal(t, deep, left)
}

// area is what these tests read of an area of deep tests.
type area struct {
	Name            string
	Packages, Tasks []string
}

func areasOf(t *testing.T) (areas []area) {
	t.Helper()
	text, err := os.ReadFile("integration/areas.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &areas))
	require.Greater(t, len(areas), 10)
	return areas
}

// Each area of deep tests has a task, and the tasks that it names are there.
func TestEachAreaHasATask(t *testing.T) {
	t.Parallel()
	tasks := tasksOf(t)
	for _, a := range areasOf(t) {
		require.Contains(t, tasks, "test:"+a.Name)
		require.Equal(t, tasks["test:moves"], tasks["test:"+a.Name], a.Name)
		for _, name := range a.Tasks {
			require.Contains(t, tasks, name)
		}
	}
}
