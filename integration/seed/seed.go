// Package seed chooses the samples of tests that have too many cases for every run.
package seed

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Variable holds any text that chooses a sample. The same text chooses the same.
const Variable = "STRONGROOM_TEST_SEED"

// Text is the commit where nothing is said, or the day where there is no commit.
var Text = sync.OnceValue(func() string {
	if s := os.Getenv(Variable); s != "" {
		return s
	}
	commit, err := exec.CommandContext(context.Background(), "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return time.Now().UTC().Format(time.DateOnly)
	}
	return strings.TrimSpace(string(commit))
})
