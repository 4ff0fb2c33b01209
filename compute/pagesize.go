package compute

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const smallPageKiB = 4

// pageSizes are those of a host's memory, an x86, in KiB.
var pageSizes = []int{smallPageKiB, 2 << 10, 1 << 20}

var (
	pageWords = enum{"small", "large", "any"}
	pagesOf   = regexp.MustCompile(`\A(\d+)(?:([kKMGT])i?)?(b|bit|B)?\z`)
)

// HugePages says on which huge pages of the host's a server's memory is asked to be: on those of so many KiB, or, for 0,
// on those that are the host's default. ok is false where none are asked for: nothing is said, or any will do.
func (s Server) HugePages() (kib int, ok bool) {
	said := s.Flavor.ExtraSpecs["hw:mem_page_size"]
	if slices.Contains([]string{"", "large", "any"}, said) { // then the image may say more
		said = cmp.Or(s.Image.Properties["hw_mem_page_size"], said)
	}
	if said == "large" {
		return 0, true
	}
	kib = pageKiB(said)
	return kib, kib > smallPageKiB
}

// OnHugePages is HugePages of a guest that is started now. One of a server that an earlier release made has them where its memory is shared, as it had then.
func (s Server) OnHugePages() (kib int, ok bool) {
	if !s.Image.Pages && !s.SharesMemory() {
		return 0, false
	}
	return s.HugePages()
}

// checkGetsPages refuses, with Conflict, huge pages for a server that would not get them, since an earlier release made it.
func (s Server) checkGetsPages(to Flavor) error {
	_, has := s.HugePages()
	will := s
	will.Flavor = to
	if _, wants := will.HugePages(); has || !wants || s.Image.Pages || s.SharesMemory() {
		return nil
	}
	return Errorf(Conflict, "Server %s cannot be given the huge pages of flavor %s: an earlier release made it, or it was imported. Rebuild it first.", s.ID, to.Name)
}

// HugePagesTrait is of hosts that have set huge pages of so many KiB aside, or, for 0, those that are their default.
func HugePagesTrait(kib int) string {
	const trait = "CUSTOM_STRONGROOM_HUGE_PAGES"
	if kib == 0 {
		return trait
	}
	return trait + "_" + strconv.Itoa(kib)
}

// pageKiB reads a size of pages; 0: it is none.
func pageKiB(said string) int {
	const most = 1 << 31
	parts := pagesOf.FindStringSubmatch(said)
	if parts == nil {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n > most {
		return 0
	}
	if parts[2] != "" || parts[3] != "" { // a number alone is one of KiB, as Nova has it
		unit := strings.Index(" kmgt", cmp.Or(strings.ToLower(parts[2]), " "))
		n = n << (10 * unit) >> 10
		if parts[3] == "b" || parts[3] == "bit" {
			n /= 8
		}
	}
	return n
}

// havePages reports whether hosts can have such pages.
func havePages(said string) bool {
	return slices.Contains(pageWords, said) || slices.Contains(pageSizes, pageKiB(said))
}

// checkPages refuses pages that servers cannot have. As in Nova, an image has a say where the flavor leaves it one.
func checkPages(f Flavor, img Image) error {
	flavor, image := f.ExtraSpecs["hw:mem_page_size"], img.Properties["hw_mem_page_size"]
	if image != "" && flavor != "large" && flavor != "any" {
		return Errorf(Invalid, "Page size %s forbidden against '%s': image %s may have hw_mem_page_size where hw:mem_page_size of the flavor is large or any.",
			image, cmp.Or(flavor, "<empty>"), img.Name)
	}
	said := cmp.Or(image, flavor)
	if said == "" {
		return nil
	}
	if !havePages(said) {
		return Errorf(Invalid, "Invalid memory page size '%s': it is small, large, any, 4KiB, 2MiB or 1GiB.", said)
	}
	kib := pageKiB(said)
	if said == "large" { // they are at least so large
		kib = 2 << 10
	}
	if kib > 0 && f.MemoryMB<<10%kib != 0 {
		return Errorf(Invalid, "Flavor %s has %d MB of memory, which fill no pages of %s.", f.Name, f.MemoryMB, said)
	}
	return nil
}
