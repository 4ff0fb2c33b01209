package compute

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const smallPageKiB = 4

var pagesOf = regexp.MustCompile(`\A(\d+)(?:([kKMGT])i?)?(b|bit|B)?\z`)

// HugePages says on which huge pages of the host's a server's memory is to be: on those of so many KiB, or, for 0,
// on those that are the host's default. ok is false where none are asked for: nothing is said, or any will do.
func (s Server) HugePages() (kib int, ok bool) {
	said := s.Flavor.ExtraSpecs["hw:mem_page_size"]
	if slices.Contains([]string{"", "large", "any"}, said) { // then the image may say more
		said = cmp.Or(s.Image.Properties["hw_mem_page_size"], said)
	}
	if said == "large" {
		return 0, true
	}
	parts := pagesOf.FindStringSubmatch(said)
	if parts == nil {
		return 0, false
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, false
	}
	if parts[2] != "" || parts[3] != "" { // a number alone is one of KiB, as Nova has it
		unit := strings.Index(" kmgt", cmp.Or(strings.ToLower(parts[2]), " "))
		n = n << (10 * unit) >> 10
		if parts[3] == "b" || parts[3] == "bit" {
			n /= 8
		}
	}
	return n, n > smallPageKiB
}
