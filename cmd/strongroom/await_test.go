package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/client"
)

// On a terminal a bar tells bytes, elsewhere a line each tenth; what has no size is told by its step.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	at := func(done int64) client.Operation {
		return client.Operation{Kind: "create", State: client.Running, Progress: &client.Progress{Phase: "download", Done: done << 20, Total: 8 << 20, Unit: "bytes"}}
	}
	var terminal, plain strings.Builder
	bar, lines := progressLine{out: &terminal, terminal: true}, progressLine{out: &plain}
	booting := client.Operation{Kind: "create", State: client.Running, AcceptedAt: client.Time{Time: time.Now()}, Events: []client.Event{{Event: "start_guest"}}}
	for _, op := range []client.Operation{at(0), at(4), at(4), at(8), booting} {
		bar.operation("vault", op)
		lines.operation("vault", op)
	}
	bar.end()
	lines.end()
	require.Equal(t, "vault: create download 0% of 8.0 MiB\nvault: create download 50% of 8.0 MiB\nvault: create download 100% of 8.0 MiB\nvault: create start_guest, running\n", plain.String())
	require.Regexp(t, `vault: create download  50% \|█+ +\| \(4(\.0)?/8(\.0)? MiB, [0-9.]+ [KMGT]i?B/s\)`, terminal.String())
	require.Contains(t, terminal.String(), "vault: create start_guest, running")
	require.True(t, strings.HasSuffix(terminal.String(), "\r\033[K"), "the line is taken off")
}

// What others named steers no terminal, and is one line.
func TestPrintable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, output{Output: "table"}.printTo(&out, nil, func(w *sheet) {
		w.header("NAME")
		w.row("a\x1b[2Jb\nc")
	}))
	require.Equal(t, "NAME\na [2Jb c\n", out.String())
}
