package integration_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// finds requires that the search finds some keys in the memory of a process that has them.
func (w *hostLooks) finds(t *testing.T, part string, names ...string) {
	t.Helper()
	pid, running := process.Named(w.PIDFile(part))
	require.True(t, running)
	require.Subset(t, w.known.finder()(memoryOf(pid)), names, part)
}

// findsWhatIsPlanted requires that the search finds each canary, and a token, in files of a host: each
// in a short one, also where a look is quick, and all at the end of a long one.
func (w *hostLooks) findsWhatIsPlanted(t *testing.T, h stack.Host, token string) {
	t.Helper()
	all := w.anywhere()
	require.GreaterOrEqual(t, len(all), 20)
	short, long := map[string]string{}, filepath.Join(h.Instances(), "planted")
	var end []byte
	plant := func(name string, value []byte) {
		path := fmt.Sprintf("%s-%d", long, len(short))
		require.NoError(t, os.WriteFile(path, value, 0o600))
		short[path] = name
		end = append(append(end, value...), '\n')
	}
	plant(aTokenOrDatabase, []byte(token))
	for name, forms := range all {
		plant(name, forms[0])
	}
	found := w.inFiles(t, h, duringOperations, all)
	for path, name := range short {
		require.NoError(t, os.Remove(path))
		require.Contains(t, found, path+": "+name)
	}
	require.NoError(t, os.WriteFile(long, slices.Concat(make([]byte, 2*ofFile), end), 0o600))
	found = w.inFiles(t, h, ofFile, all)
	require.NoError(t, os.Remove(long))
	for _, name := range short {
		require.Contains(t, found, long+": "+name)
	}
}

// findsWhatIsPlantedInMemory is findsWhatIsPlanted of the folders in a host's memory: nothing is to
// be there, but while an operation runs that of its server.
func (w *hostLooks) findsWhatIsPlantedInMemory(t *testing.T, h stack.Host) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(w.of))
	own, other := ids[0], ids[1]
	look := func(busy, folder string, content []byte) []string {
		path := filepath.Join(memoryFolder(w.workers[h]), folder)
		require.NoError(t, os.Mkdir(path, 0o700))
		defer func() { _ = os.RemoveAll(path) }()
		require.NoError(t, os.WriteFile(filepath.Join(path, "x"), content, 0o600))
		w.busy = busy
		defer func() { w.busy = "" }()
		return w.inMemory(t, h)
	}
	require.Empty(t, look(own, serverFolder+own, nil))
	for _, found := range [][]string{
		look("", serverFolder+own, nil),
		look(own, serverFolder+other, nil),
		look(own, mountFolder+"0123456789abcdef", []byte("pid_file = "+w.State+"/mounts/x/pid")),
	} {
		require.Len(t, found, 1)
		require.Contains(t, found[0], "is left")
	}
	for name, forms := range w.anywhere() {
		require.Contains(t, strings.Join(look(own, serverFolder+own, forms[0]), "\n")+"\n", "/x: "+name+"\n")
	}
}
