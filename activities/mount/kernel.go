package mount

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
)

// kernelHas reports whether the kernel has a kind of file systems, or a module for it that it would load.
func kernelHas(ctx context.Context, kind string) bool {
	text, err := os.ReadFile("/proc/filesystems")
	if err == nil && slices.ContainsFunc(bytes.Split(text, []byte("\n")), func(line []byte) bool { return bytes.HasSuffix(line, []byte("\t"+kind)) }) {
		return true
	}
	return exec.CommandContext(ctx, "modprobe", "--dry-run", "--quiet", "fs-"+kind).Run() == nil
}
