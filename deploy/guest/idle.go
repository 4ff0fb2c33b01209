package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// idleProgram is all of the idle guest: it sleeps, and at each tick of the BIOS's
// timer looks whether the power button was pressed. The ports are those of the ICH9 of
// a q35 machine, where SeaBIOS puts them.
var idleProgram = []byte{
	0xba, 0x02, 0x06, // mov dx, PM1_EN
	0xb8, 0x00, 0x01, // mov ax, PWRBTN_EN
	0xef,             // out dx, ax
	0xfb,             // sleep: sti
	0xf4,             // hlt
	0xba, 0x00, 0x06, // mov dx, PM1_STS
	0xed,             // in ax, dx
	0xf6, 0xc4, 0x01, // test ah, PWRBTN_STS >> 8
	0x74, 0xf5, // jz sleep
	0xba, 0x04, 0x06, // mov dx, PM1_CNT
	0xb8, 0x00, 0x20, // mov ax, SLP_EN, to the state S5
	0xef,       // out dx, ax
	0xeb, 0xec, // jmp sleep
}

const (
	idleBytes       = 1 << 20
	sectorBytes     = 512
	sectorSignature = "\x55\xaa"
)

// BuildIdle writes a bootable qcow2 image to the file out, of a guest that does
// nothing but power off when it is asked to. To boot it costs next to no CPU time: it
// is for tests of what goes on around a guest. It needs qemu-utils.
func BuildIdle(ctx context.Context, out string) error { return buildSector(ctx, out, idleProgram) }

// buildSector writes an image of a program in the disk's first sector.
func buildSector(ctx context.Context, out string, program []byte) error {
	sector := append(bytes.Clone(program), make([]byte, sectorBytes-len(sectorSignature)-len(program))...)
	sector = append(sector, sectorSignature...)
	raw := out + ".raw"
	defer os.Remove(raw)
	if err := errors.Join(os.WriteFile(raw, sector, 0o644), os.Truncate(raw, idleBytes)); err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	return run(exec.CommandContext(ctx, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, out))
}
