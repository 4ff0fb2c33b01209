package workflows_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/compute"
)

// H9: what restarts within half a minute fails no operation: not the key manager or another
// cloud service, and not a gateway, without which hosts get no passphrase and no image.
func TestH9OperationsOutlastARestart(t *testing.T) {
	t.Parallel()
	const restart = 30 * time.Second
	for _, name := range []string{
		"spawn", "spawn delegated", "spawn of an encrypted image", "start", "snapshot of a running server", "backup", "reboot hard",
		"rebuild with delegation", "rotation of a running server", "rescue", "unrescue from an encrypted image",
	} {
		for what, concerns := range map[string]func(c call) bool{
			"cloud": func(c call) bool {
				kind, _, _ := strings.Cut(c.name, ".")
				return kind == "key" || kind == "trust" || kind == "image" || kind == "object"
			},
			"gateway": func(c call) bool {
				return strings.HasPrefix(c.name, "disk.C") || strings.HasPrefix(c.name, "disk.AddKey") || c.name == "domain.Start" || c.name == "image.Upload"
			},
		} {
			s := subjects[name]
			whole, _ := failingLate(t, name)
			for _, at := range whole {
				if at.local || !concerns(at) {
					continue
				}
				t.Run(name+"/"+what+"/"+at.String(), func(t *testing.T) {
					t.Parallel()
					b := s.setup(t)
					in := b.accept(s.kind, s.task, s.arguments)
					var env *testsuite.TestWorkflowEnvironment
					var mu sync.Mutex
					var began time.Time
					b.fault = func(c call) fault {
						mu.Lock()
						defer mu.Unlock()
						if began.IsZero() && c.name == at.name && c.nth == at.nth {
							began = env.Now()
						}
						if !began.IsZero() && !c.local && concerns(c) && env.Now().Sub(began) < restart {
							return fault{before: func() error { return compute.Errorf(compute.Unavailable, "it restarts") }}
						}
						return fault{}
					}
					require.NoError(t, b.run(s.kind, in, func(e *testsuite.TestWorkflowEnvironment) { env = e }))
					require.False(t, began.IsZero())
					require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
					require.Empty(t, b.broken)
					require.Empty(t, b.audit())
				})
			}
		}
	}
}
