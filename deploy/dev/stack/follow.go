package stack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// follower prints what the parts write to their log files, each line under its
// part's name.
type follower struct {
	mu  sync.Mutex
	out io.Writer
}

// follow prints what is appended to a file from now on, until ctx ends.
func (f *follower) follow(ctx context.Context, part, path string) {
	file, err := os.Open(path)
	for err != nil {
		sleep(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		file, err = os.Open(path)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return
	}
	r, begun := bufio.NewReader(file), ""
	for ctx.Err() == nil {
		text, err := r.ReadString('\n')
		begun += text
		if err != nil {
			sleep(ctx, 200*time.Millisecond)
			continue
		}
		f.mu.Lock()
		_, _ = fmt.Fprintf(f.out, "%-9s| %s", part, begun)
		f.mu.Unlock()
		begun = ""
	}
}
