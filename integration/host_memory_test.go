package integration_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
)

// memoryOf reads what a process can write in its memory; nothing where it ends meanwhile.
func memoryOf(pid int) []byte {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return nil
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer func() { _ = mem.Close() }()
	var all bytes.Buffer
	var from, to int64 // of the part whose size in memory comes next
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var a, b, kB int64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &a, &b, &mode); err == nil {
			from, to = a, b
			if !strings.HasPrefix(mode, "rw") {
				to = from
			}
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "Rss: %d kB", &kB); err != nil || kB == 0 {
			continue
		}
		for at := from; at < to; at += 1 << 20 { // large parts of Go's are not there
			part := make([]byte, min(1<<20, to-at))
			n, _ := mem.ReadAt(part, at)
			if len(bytes.Trim(part[:n], "\x00")) > 0 {
				all.Write(part[:n])
			}
		}
	}
	return all.Bytes()
}
