package hostile

import (
	"encoding/binary"
	"math"
)

// container is a LUKS 1 header, with as many active slots as are asked for, each of
// 1000 rounds, and room for their key material.
func container(slots int) []byte {
	const material = 64 * 4000
	data := make([]byte, 4096+8*504*512+512)
	u32 := func(at int, v uint32) { binary.BigEndian.PutUint32(data[at:], v) }
	copy(data, "LUKS\xba\xbe\x00\x01")
	copy(data[8:], "aes")
	copy(data[40:], "xts-plain64")
	copy(data[72:], "sha256")
	u32(104, (4096+8*504*512)/512)
	u32(108, 64)
	u32(164, 1000)
	copy(data[168:], "6a5a1ed8-7d1e-4a35-9d6c-6f0f2191e508")
	for i := range 8 {
		at := 208 + 48*i
		u32(at, 0x0000DEAD)
		if i < slots {
			u32(at, 0x00AC71F3)
			u32(at+4, 1000)
		}
		u32(at+40, uint32(8+504*i))
		u32(at+44, 4000)
	}
	_ = data[4096+7*504*512+material]
	return data
}

// luksHeaders are headers that cost too much, or lead astray.
func luksHeaders() map[string][]byte {
	changed := func(slots int, change func(u32 func(at int, v uint32), data []byte) []byte) []byte {
		data := container(slots)
		return change(func(at int, v uint32) { binary.BigEndian.PutUint32(data[at:], v) }, data)
	}
	return map[string][]byte{
		"2^32 rounds for its digest": changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(164, math.MaxUint32); return data }),
		"2^32 rounds for a slot":     changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(212, math.MaxUint32); return data }),
		"2^32 rounds for every slot": changed(8, func(u32 func(int, uint32), data []byte) []byte {
			for i := range 8 {
				u32(212+48*i, math.MaxUint32)
			}
			return data
		}),
		"much for its digest, eight times": changed(8, func(u32 func(int, uint32), data []byte) []byte { u32(164, 7_000_000); return data }),
		"2^32 stripes":                     changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(252, math.MaxUint32); return data }),
		"no stripes":                       changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(252, 0); return data }),
		"a key of 4 GiB":                   changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(108, math.MaxUint32); return data }),
		"no key":                           changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(108, 0); return data }),
		"key material outside":             changed(1, func(u32 func(int, uint32), data []byte) []byte { u32(248, math.MaxUint32); return data }),
		"an end within it":                 container(1)[:300],
		"version 2, argon2id with 4 TiB":   luks2(),
	}
}

// luks2 is a LUKS 2 header whose one key slot asks for more memory than there is.
func luks2() []byte {
	data := make([]byte, 1<<20)
	copy(data, "LUKS\xba\xbe\x00\x02")
	binary.BigEndian.PutUint64(data[8:], 16384)
	copy(data[4096:], `{"keyslots":{"0":{"type":"luks2","key_size":64,"af":{"type":"luks1","stripes":4000,"hash":"sha256"},`+
		`"area":{"type":"raw","offset":"32768","size":"258048","encryption":"aes-xts-plain64","key_size":64},`+
		`"kdf":{"type":"argon2id","time":4294967295,"memory":4294967295,"cpus":4,"salt":"AAAA"}}},"tokens":{},`+
		`"segments":{"0":{"type":"crypt","offset":"16777216","size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512}},`+
		`"digests":{},"config":{"json_size":"12288","keyslots_size":"16744448"}}`)
	return data
}
