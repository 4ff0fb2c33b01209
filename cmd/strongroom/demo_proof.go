package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/deploy/dev/stack"
)

// prove shows what a doubter would look at.
func (d demoCommand) prove(ctx context.Context, layout stack.Layout, s *servers.Server) error {
	fmt.Printf("\nserver    %s  %s\nstatus    %s\n", s.Name, s.ID, s.Status)
	dir := filepath.Join(layout.Instances(), s.ID)
	for _, file := range []string{"disk", "disk.eph0", "disk.swap"} {
		line, err := diskProof(ctx, filepath.Join(dir, file))
		if err != nil {
			return err
		}
		fmt.Printf("disk      %-10s %s\n", file, line)
	}
	left, err := stack.HypervisorSecrets(ctx, layout, s.ID)
	if err != nil {
		return err
	}
	fmt.Printf("secrets   %d known to libvirt, now that the guest runs\n", left)
	if d.Image != "" {
		return nil
	}
	line, err := guestLine(ctx, filepath.Join(dir, "console.log"), regexp.MustCompile(`TG (tpm version=.*)`))
	if err != nil {
		return err
	}
	fmt.Printf("guest     %s\n", line)
	return nil
}

// diskProof is what qemu-img says of a disk without any key.
func diskProof(ctx context.Context, path string) (string, error) {
	info, err := qemuImgInfo(ctx, path)
	if err != nil {
		return "", err
	}
	e := info.Specific.Data.Encrypt
	if !info.Encrypted || e.Format != "luks" {
		return "", fmt.Errorf("%s is not encrypted", path)
	}
	return strings.Join([]string{info.Format, fmt.Sprintf("%d MiB", info.Virtual>>20), "encrypted", e.Format, e.CipherAlg, e.CipherMode}, "  "), nil
}

// imageInfo is what qemu-img info prints of a file.
type imageInfo struct {
	Format    string `json:"format"`
	Encrypted bool   `json:"encrypted"`
	Virtual   int64  `json:"virtual-size"`
	Specific  struct {
		Data struct {
			Encrypt struct {
				Format     string `json:"format"`
				CipherAlg  string `json:"cipher-alg"`
				CipherMode string `json:"cipher-mode"`
			} `json:"encrypt"`
		} `json:"data"`
	} `json:"format-specific"`
}

func qemuImgInfo(ctx context.Context, path string) (info imageInfo, err error) {
	text, err := exec.CommandContext(ctx, "qemu-img", "info", "-U", "--output=json", path).Output()
	if err != nil {
		return info, fmt.Errorf("qemu-img info %s: %w", path, err)
	}
	return info, json.Unmarshal(text, &info)
}

// guestLine waits for a line on the guest's serial console.
func guestLine(ctx context.Context, path string, want *regexp.Regexp) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	line := newProgressLine()
	defer line.end()
	for begun := time.Now(); ; {
		text, _ := os.ReadFile(path)
		if m := want.FindSubmatch(text); m != nil {
			return strings.TrimSpace(string(m[1])), nil
		}
		line.since("the guest boots", begun)
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the guest did not say %s: see %s", want, path)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
