package guest

import (
	"context"
	"slices"
)

// countingProgram goes before the idle guest's: it counts its boots in the byte at the beginning
// of the disk's second sector, and says how many there were on the first serial port. SeaBIOS
// loads it at 0x7c00, with the disk's number in dl.
var countingProgram = slices.Concat([]byte{
	0x31, 0xc0, // xor ax, ax
	0x8e, 0xd8, // mov ds, ax
	0x8e, 0xc0, // mov es, ax
	0x8e, 0xd0, // mov ss, ax
	0xbc, 0x00, 0x7c, // mov sp, 0x7c00
	0xb8, 0x01, 0x02, // mov ax, 0x0201: read one sector
	0xe8, 0x29, 0x00, // call sector
	0xfe, 0x06, 0x00, 0x80, // inc byte [0x8000]
	0xb8, 0x01, 0x03, // mov ax, 0x0301: write one sector
	0xe8, 0x1f, 0x00, // call sector
	0xa0, 0x00, 0x80, // mov al, [0x8000]
	0x04, '0', // add al, '0'
	0xa2, 0x50, 0x7c, // mov [digit], al
	0xbe, 0x45, 0x7c, // mov si, text
	0xfc,             // cld
	0xba, 0xfd, 0x03, // next: mov dx, 0x3fd
	0xec,       // wait: in al, dx
	0xa8, 0x20, // test al, 0x20: may be written to
	0x74, 0xfb, // jz wait
	0xac,       // lodsb
	0x84, 0xc0, // test al, al
	0x74, 0x29, // jz idle
	0xba, 0xf8, 0x03, // mov dx, 0x3f8
	0xee,       // out dx, al
	0xeb, 0xed, // jmp next
	0xb9, 0x02, 0x00, // sector: mov cx, 2: the second
	0xb6, 0x00, // mov dh, 0
	0xbb, 0x00, 0x80, // mov bx, 0x8000
	0xcd, 0x13, // int 0x13
	0xc3, // ret
}, []byte(CountingText+"0 TG ready\r\n\x00"))

// CountingText is what the counting guest says before the number, a digit, of its boots.
const CountingText = "\r\nTG boots="

// BuildCounting writes a bootable qcow2 image to the file out, of a guest that counts its boots
// on its disk, says on its serial port how many there were, up to nine, and powers off when
// it is asked to. It boots in seconds also where the CPU that is emulated emulates another. It
// needs qemu-utils.
func BuildCounting(ctx context.Context, out string) error {
	return buildSector(ctx, out, slices.Concat(countingProgram, idleProgram))
}
