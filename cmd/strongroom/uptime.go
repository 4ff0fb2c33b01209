package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// uptime is since when the host runs, in the form of the command uptime, which clients take
// apart (P16). Users who are logged in are not counted.
func uptime(proc string, now time.Time) (string, error) {
	var ran float64
	var load [3]float64
	if err := scanFile(filepath.Join(proc, "uptime"), &ran); err != nil {
		return "", err
	}
	if err := scanFile(filepath.Join(proc, "loadavg"), &load[0], &load[1], &load[2]); err != nil {
		return "", err
	}
	minutes := int(ran) / 60
	since := fmt.Sprintf("%2d:%02d", minutes/60%24, minutes%60)
	switch days := minutes / (60 * 24); {
	case days == 1:
		since = "1 day, " + since
	case days > 1:
		since = fmt.Sprintf("%d days, %s", days, since)
	case minutes < 60:
		since = fmt.Sprintf("%d min", minutes)
	}
	return fmt.Sprintf(" %s up %s,  0 users,  load average: %.2f, %.2f, %.2f", now.Format(time.TimeOnly), since, load[0], load[1], load[2]), nil
}

func scanFile(name string, into ...any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if _, err = fmt.Fscan(strings.NewReader(string(text)), into...); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
