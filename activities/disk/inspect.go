package disk

import (
	"context"
	"strings"

	"strongroom/compute"
)

// maxIterations bounds the rounds of hashing that an image's LUKS header asks of who
// opens it: some ten seconds of one CPU. Its maker chose them.
const maxIterations = 50_000_000

// inspect refuses an image that would make QEMU open other files of the host, or
// that it cannot use.
func (a *Activities) inspect(ctx context.Context, path string, img compute.Image) error {
	format, err := img.BackingFormat()
	if err != nil {
		return err
	}
	i, err := a.info(ctx, path, format)
	if err != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		return compute.Errorf(compute.Corrupt, "image %s is no readable %s: %w", img.ID, format, err)
	}
	var wrong []string
	if i.BackingFilename != "" {
		wrong = append(wrong, "names a backing file")
	}
	if i.FormatSpecific.Data.DataFile != "" {
		wrong = append(wrong, "names a data file")
	}
	if i.FormatSpecific.Data.Corrupt {
		wrong = append(wrong, "is marked corrupt")
	}
	switch {
	case i.Encrypted && !img.IsEncrypted():
		wrong = append(wrong, "is encrypted but its record names no key")
	case !i.Encrypted && img.IsEncrypted():
		wrong = append(wrong, "is not encrypted but its record names a key")
	case i.Encrypted && i.usedOptions()["format"] != "luks":
		wrong = append(wrong, "is encrypted in another way than LUKS")
	case i.iterations() > maxIterations:
		wrong = append(wrong, "asks for too many rounds of hashing to be opened")
	}
	if len(wrong) > 0 {
		return compute.Errorf(compute.Corrupt, "image %s %s", img.ID, strings.Join(wrong, " and "))
	}
	return nil
}

// iterations counts the rounds of hashing that it takes to try a passphrase.
func (i imageInfo) iterations() int {
	crypto := i.FormatSpecific.Data.Encrypt.cryptoInfo
	if i.Format == compute.ImageLUKS {
		crypto = i.FormatSpecific.Data.cryptoInfo
	}
	sum := 0
	for _, slot := range crypto.Slots {
		if slot.Active {
			sum += slot.Iters
		}
	}
	return sum
}
