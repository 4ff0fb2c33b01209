package hostile

import (
	"encoding/binary"
	"math"
	"slices"
)

const cluster = 64 << 10

// header is a qcow2 file of 1 MiB with nothing in it, of which a maker changes what it
// needs: header, table of reference counts, its block, first table.
type header struct{ data []byte }

func newHeader() header {
	h := header{make([]byte, 3*cluster+8)}
	copy(h.data, "QFI\xfb")
	h.u32(4, 3)
	h.u32(20, 16)        // bits of a cluster
	h.u64(24, 1<<20)     // virtual size
	h.u32(36, 1)         // entries of the first table
	h.u64(40, 3*cluster) // where that is
	h.u64(48, cluster)   // where the table of reference counts is
	h.u32(56, 1)         // its clusters
	h.u32(96, 4)         // 16 bits each
	h.u32(100, 104)      // the header's length
	h.u64(cluster, 2*cluster)
	for i := range 4 {
		binary.BigEndian.PutUint16(h.data[2*cluster+2*i:], 1)
	}
	return h
}

func (h header) u32(at int, v uint32) { binary.BigEndian.PutUint32(h.data[at:], v) }
func (h header) u64(at int, v uint64) { binary.BigEndian.PutUint64(h.data[at:], v) }

// extension puts an extension of the header at an offset, and gives that of the next.
func (h header) extension(at int, kind uint32, content []byte) int {
	h.u32(at, kind)
	h.u32(at+4, uint32(len(content)))
	copy(h.data[at+8:], content)
	return at + 8 + (len(content)+7)&^7
}

// names puts a backing file's name behind the header.
func (h header) names(file string) {
	h.u64(8, 1024)
	h.u32(16, uint32(len(file)))
	copy(h.data[1024:], file)
}

const (
	extDataFile = 0x44415441
	extBitmaps  = 0x23852875
	extCrypto   = 0x0537be77
)

// withLUKS makes a qcow2 file encrypted under a LUKS header.
func withLUKS(container []byte) []byte {
	h := newHeader()
	at := len(h.data) + cluster - 8
	h.data = append(h.data, make([]byte, cluster-8)...)
	h.data = append(h.data, container...)
	h.u32(32, 2)
	pointer := make([]byte, 16)
	binary.BigEndian.PutUint64(pointer, uint64(at))
	binary.BigEndian.PutUint64(pointer[8:], uint64(len(container)))
	h.extension(104, extCrypto, pointer)
	return h.data
}

// qcow2s are the images of the format qcow2. outside is a file of the host.
func qcow2s(outside string) []File {
	made := map[string]func(header) []byte{
		"a backing file":            func(h header) []byte { h.names(outside); return h.data },
		"a backing file, version 2": func(h header) []byte { h.u32(4, 2); h.names(outside); return h.data },
		"a backing file in JSON": func(h header) []byte {
			h.names(`json:{"driver":"raw","file":{"driver":"file","filename":"` + outside + `"}}`)
			return h.data
		},
		"a backing file of no length": func(h header) []byte { h.names(outside); h.u32(16, 0); return h.data },
		"itself as its backing file":  func(h header) []byte { h.names("/dev/fd/3"); return h.data },
		"a backing file in the network": func(h header) []byte {
			h.names("nbd://127.0.0.1:10809/disk")
			return h.data
		},
		"a data file": func(h header) []byte {
			h.u64(72, 1<<2)
			h.extension(104, extDataFile, []byte(outside))
			return h.data
		},
		"a data file without its flag": func(h header) []byte { h.extension(104, extDataFile, []byte(outside)); return h.data },
		"a data file behind other extensions": func(h header) []byte {
			at := 104
			for range 100 {
				at = h.extension(at, 0x6803f857, make([]byte, 48))
			}
			h.extension(at, extDataFile, []byte(outside))
			return h.data
		},
		"the flag of a data file":       func(h header) []byte { h.u64(72, 1<<2); return h.data },
		"a flag that nobody knows":      func(h header) []byte { h.u64(72, 1<<40); return h.data },
		"marked as corrupt":             func(h header) []byte { h.u64(72, 1<<1); return h.data },
		"8 EiB":                         func(h header) []byte { h.u64(24, math.MaxInt64&^511); return h.data },
		"16 EiB":                        func(h header) []byte { h.u64(24, math.MaxUint64); return h.data },
		"8 EiB and tables for it":       func(h header) []byte { h.u64(24, 1<<62); h.u32(36, math.MaxUint32); return h.data },
		"a first table of 32 GiB":       func(h header) []byte { h.u32(36, math.MaxUint32); return h.data },
		"a first table far outside":     func(h header) []byte { h.u64(40, 1<<60); return h.data },
		"reference counts of 256 TiB":   func(h header) []byte { h.u32(56, math.MaxUint32); return h.data },
		"reference counts far outside":  func(h header) []byte { h.u64(48, 1<<60); return h.data },
		"reference counts of 2^63 bits": func(h header) []byte { h.u32(96, 63); return h.data },
		"clusters of one byte":          func(h header) []byte { h.u32(20, 0); return h.data },
		"clusters of 2 GiB":             func(h header) []byte { h.u32(20, 31); return h.data },
		"clusters of 2^64 bytes":        func(h header) []byte { h.u32(20, 64); return h.data },
		"four thousand million snapshots": func(h header) []byte {
			h.u32(60, math.MaxUint32)
			h.u64(64, cluster)
			return h.data
		},
		"a header of 4 GiB":           func(h header) []byte { h.u32(100, math.MaxUint32); return h.data },
		"an extension of 4 GiB":       func(h header) []byte { h.u32(104, 0x11111111); h.u32(108, math.MaxUint32); return h.data },
		"extensions without end":      func(h header) []byte { return endless(h) },
		"AES, that is deprecated":     func(h header) []byte { h.u32(32, 1); return h.data },
		"LUKS without a header":       func(h header) []byte { h.u32(32, 2); return h.data },
		"a LUKS header at 2^63":       func(h header) []byte { return pointing(h, 1<<63, 1<<20) },
		"a LUKS header outside":       func(h header) []byte { return pointing(h, 1<<40, 1<<20) },
		"a LUKS header of 2^64":       func(h header) []byte { return pointing(h, cluster, math.MaxUint64) },
		"a LUKS header over its own":  func(h header) []byte { return pointing(h, 1, cluster) },
		"snapshots outside":           func(h header) []byte { h.u32(60, 1); h.u64(64, 1<<40); return h.data },
		"bitmaps":                     func(h header) []byte { return marked(h, 1) },
		"a compression of no name":    func(h header) []byte { return compressed(h, 1<<3, 7) },
		"zlib that is not":            func(h header) []byte { return compressed(h, 1<<3, 0) },
		"zstd without its flag":       func(h header) []byte { return compressed(h, 0, 1) },
		"a LUKS header without LUKS":  func(h header) []byte { pointing(h, cluster, cluster); h.u32(32, 0); return h.data },
		"a LUKS header of 15 bytes":   func(h header) []byte { pointing(h, cluster, cluster); h.u32(108, 15); return h.data },
		"version 99":                  func(h header) []byte { h.u32(4, 99); return h.data },
		"nothing but its first bytes": func(h header) []byte { return h.data[:4] },
		"half a header":               func(h header) []byte { return h.data[:60] },
	}
	var out []File
	for name, make := range made {
		h := newHeader()
		out = append(out, File{Name: "qcow2 with " + name, Format: "qcow2", Data: make(h), Encrypted: false})
	}
	// What no header shows, and QEMU must see.
	bitmaps := newHeader()
	bitmaps.u64(88, 1) // autoclear: they are valid
	content := make([]byte, 24)
	binary.BigEndian.PutUint32(content, math.MaxUint32)
	binary.BigEndian.PutUint64(content[8:], math.MaxInt64)
	binary.BigEndian.PutUint64(content[16:], cluster)
	bitmaps.extension(104, extBitmaps, content)
	short := newHeader()
	short.u32(36, 4<<20)
	short.u64(24, 1<<46)
	out = append(out,
		File{Name: "qcow2 with bitmaps of 8 EiB", Format: "qcow2", Data: bitmaps.data},
		File{Name: "qcow2 with a first table beyond its end", Format: "qcow2", Data: short.data})
	return out
}

// marked has one bitmap of the whole disk, which is valid if the flag says so.
func marked(h header, flags uint64) []byte {
	h.u64(88, flags)
	content := make([]byte, 24)
	binary.BigEndian.PutUint32(content, 1)
	binary.BigEndian.PutUint64(content[8:], 32)
	binary.BigEndian.PutUint64(content[16:], uint64(len(h.data)+cluster-8))
	h.extension(104, extBitmaps, content)
	return append(h.data, make([]byte, 2*cluster-8)...)
}

// compressed says how its clusters are compressed, of which it has none.
func compressed(h header, flags uint64, method byte) []byte {
	h.u64(72, flags)
	h.u32(100, 112)
	h.data[104] = method
	return h.data
}

// twoHeaders is a qcow2 file with two LUKS headers, the second of which opens.
func twoHeaders(first, second []byte) []byte {
	data := withLUKS(second)
	h := header{append(data, make([]byte, cluster-len(data)%cluster)...)}
	at := len(h.data)
	pointer := slices.Clone(h.data[112:128])
	binary.BigEndian.PutUint64(h.data[112:], uint64(at))
	binary.BigEndian.PutUint64(h.data[120:], uint64(len(first)))
	h.extension(128, extCrypto, pointer)
	return append(h.data, first...)
}

func endless(h header) []byte {
	for at := 104; at+16 <= len(h.data); at += 8 {
		h.u32(at, 0x11111111)
		h.u32(at+4, 0)
	}
	return h.data
}

func pointing(h header, offset, room uint64) []byte {
	h.u32(32, 2)
	pointer := make([]byte, 16)
	binary.BigEndian.PutUint64(pointer, offset)
	binary.BigEndian.PutUint64(pointer[8:], room)
	h.extension(104, extCrypto, pointer)
	return h.data
}
