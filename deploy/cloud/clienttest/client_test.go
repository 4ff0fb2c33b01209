package clienttest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/clienttest"
)

// Commands that run at once have each their own settings, output and end.
func TestCommandsKnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup
	for i := range 4 {
		var asked atomic.Int32
		keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			http.Error(w, fmt.Sprintf("this is cloud %d", i), http.StatusTeapot)
		}))
		t.Cleanup(keystone.Close)
		client := clienttest.Open(t, "OS_AUTH_URL="+keystone.URL+"/v3", "OS_USERNAME=u", "OS_PASSWORD=p", "OS_PROJECT_NAME=p",
			"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default")
		running.Go(func() {
			out, complaint, err := client.Run(t, "token", "issue")
			if err == nil || out != "" || complaint == "" || asked.Load() == 0 {
				t.Errorf("cloud %d was asked %d times: %q, %q, %v", i, asked.Load(), out, complaint, err)
			}
			out, complaint, err = client.Run(t, "--version")
			if err != nil || complaint != "" || !strings.HasPrefix(out, "openstack ") {
				t.Errorf("%q, %q, %v", out, complaint, err)
			}
		})
	}
	running.Wait()
	out, _, err := clienttest.Open(t).Run(t, "no-such-thing")
	require.ErrorContains(t, err, "exit code 2")
	require.Contains(t, out, "no-such-thing")
}
