package domain

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

var defaultPage = regexp.MustCompile(`(?m)^Hugepagesize:\s+(\d+) kB$`)

// memoryOf is what a guest's memory is on, where that is not left to QEMU: the host's huge pages where the server has them (SH-05, K6), or
// else a memfd where it is shared with the programs that serve its shares, which read and write it.
func memoryOf(s compute.Server) *libvirtxml.DomainMemoryBacking {
	kib, huge := s.OnHugePages()
	shared := s.SharesMemory()
	if !huge && !shared {
		return nil
	}
	backing := &libvirtxml.DomainMemoryBacking{}
	if shared {
		backing.MemoryAccess = &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	}
	if !huge {
		backing.MemorySource = &libvirtxml.DomainMemorySource{Type: "memfd"}
		return backing
	}
	backing.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{}
	if kib > 0 { // else the host's default
		backing.MemoryHugePages.Hugepages = []libvirtxml.DomainMemoryHugepage{{Size: uint(kib), Unit: "KiB"}}
	}
	return backing
}

// pageTraits are those of the huge pages that a host, whose files are below root, has set aside.
func pageTraits(root string) (traits []string) {
	normal := defaultPageKiB(root)
	folders, _ := filepath.Glob(filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-*kB")) // the pattern is a good one
	for _, folder := range folders {
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folder), "hugepages-"), "kB"))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, "nr_hugepages"))
		if err != nil || strings.TrimSpace(string(text)) == "0" {
			continue
		}
		traits = append(traits, compute.HugePagesTrait(kib))
		if kib == normal {
			traits = append(traits, compute.HugePagesTrait(0))
		}
	}
	return traits
}

// defaultPageKiB is the size of a host's huge pages where nobody names one; 0: it has none.
func defaultPageKiB(root string) int {
	text, _ := os.ReadFile(filepath.Join(root, "proc/meminfo")) // without it there is none
	found := defaultPage.FindSubmatch(text)
	if found == nil {
		return 0
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib
}
