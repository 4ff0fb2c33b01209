package guest

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// mostDamaged is how many parts of a file may come out wrong.
const mostDamaged = 50

// ReadFile gives a file of a guest that runs, over its serial line; ask types a
// command and gives what follows the beginning of the answer on its line. It is read
// part by part, each with its sum: the line has no checksums, and under emulation it
// doubles or loses a character every few thousand.
func ReadFile(ask func(command, answer string) string, file string) (text string, err error) {
	said := ""
	for range mostDamaged {
		for {
			said = ask(fmt.Sprintf("part %s %d", file, len(text)), "TG part ")
			sum, quoted, _ := strings.Cut(strings.TrimSuffix(said, " err=<nil>"), " ")
			part, err := strconv.Unquote(quoted)
			if err != nil || fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(part))) != sum {
				break
			}
			if part == "" {
				return text, nil
			}
			text += part
		}
	}
	return "", fmt.Errorf("guest: %s cannot be read: %s", file, said)
}
