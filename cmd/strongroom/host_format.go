package main

import (
	"context"
	"fmt"

	"strongroom/compute"
)

// defaultFormatOption is Nova's [ephemeral_storage_encryption]default_format.
const defaultFormatOption = "host.ephemeral_storage_encryption.default_format"

const needsOfDevices = "it needs host.volume_group, LVM, cryptsetup and a kernel with dm-crypt"

var needsOf = map[compute.DiskFormat]string{
	compute.FormatLUKS: "it needs a qemu-img with LUKS", compute.FormatLUKSv2: needsOfDevices, compute.FormatPlain: needsOfDevices,
}

// format reads the encryption format of disks for which neither flavor nor image asks for one
// (EE-03). A host that cannot make it is not to start: servers would land there and fail.
func (e DiskEncryption) format(ctx context.Context, traits func(context.Context) ([]string, error)) (compute.DiskFormat, error) {
	format, err := compute.ParseDiskFormat(e.DefaultFormat)
	if err != nil {
		return compute.FormatNone, fmt.Errorf("%s: %w", defaultFormatOption, err)
	}
	has, err := traits(ctx)
	if err != nil {
		return compute.FormatNone, err
	}
	if !compute.Opens(has, format) {
		return compute.FormatNone, fmt.Errorf("%s is %s, which this host cannot make: %s", defaultFormatOption, format, needsOf[format])
	}
	return format, nil
}
