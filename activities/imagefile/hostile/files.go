package hostile

import (
	"cmp"
	"fmt"
	"slices"
)

// File is an image.
type File struct {
	Name      string
	Format    string // the disk_format of its record
	Encrypted bool   // its record names a secret that opens it
	Data      []byte
}

// Files are images that every check must refuse for good. outside is a file of the
// host, which some of them name.
func Files(outside string) []File {
	out := qcow2s(outside)
	for name, header := range luksHeaders() {
		out = append(out,
			File{Name: "LUKS with " + name, Format: "luks", Encrypted: true, Data: header},
			File{Name: "LUKS in qcow2 with " + name, Format: "qcow2", Encrypted: true, Data: withLUKS(header)},
			File{Name: "LUKS in qcow2 twice, first with " + name, Format: "qcow2", Encrypted: true, Data: twoHeaders(header, container(1))})
	}
	out = append(out,
		File{Name: "no qcow2 at all", Format: "qcow2", Data: make([]byte, 4096)},
		File{Name: "no LUKS at all", Format: "luks", Encrypted: true, Data: make([]byte, 4096)},
		File{Name: "vmdk with extents", Format: "vmdk", Data: vmdk(outside)},
		File{Name: "vmdk that says qcow2", Format: "qcow2", Data: vmdk(outside)})
	slices.SortFunc(out, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Raws are images of the format raw whose bytes are those of another format. A host
// takes them for the bytes that they are.
func Raws(outside string) []File {
	backed := newHeader()
	backed.names(outside)
	return []File{
		{Name: "raw that begins as qcow2 with a backing file", Format: "raw", Data: append(backed.data, make([]byte, 504)...)},
		{Name: "raw that begins as vmdk with extents", Format: "raw", Data: append(vmdk(outside), make([]byte, 4096)...)},
		{Name: "raw that begins as LUKS", Format: "raw", Data: container(8)},
	}
}

func vmdk(outside string) []byte {
	return fmt.Appendf(nil, "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\n\n"+
		"RW 2048 FLAT %q 0\nRW 2048 VMFS %q 0\nddb.adapterType = \"ide\"\n", outside, outside)
}

// Sound are images that differ from Files by nothing but their harm: checks take them.
func Sound() []File {
	return []File{
		{Name: "qcow2", Format: "qcow2", Data: newHeader().data},
		{Name: "qcow2 with bitmaps that are not valid", Format: "qcow2", Data: marked(newHeader(), 0)},
		{Name: "qcow2 with a method of compression", Format: "qcow2", Data: compressed(newHeader(), 0, 0)},
		{Name: "qcow2 with zstd", Format: "qcow2", Data: compressed(newHeader(), 1<<3, 1)},
		{Name: "LUKS", Format: "luks", Encrypted: true, Data: container(1)},
		{Name: "LUKS with eight slots", Format: "luks", Encrypted: true, Data: container(8)},
		{Name: "LUKS in qcow2", Format: "qcow2", Encrypted: true, Data: withLUKS(container(1))},
	}
}
