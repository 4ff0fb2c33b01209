package compute

// ConfigDriveFile is the file in a server's folder that is its config drive.
const ConfigDriveFile = "disk.config"

// The image properties of config drives.
const (
	propertyConfigDrive = "img_config_drive"
	propertyCDROMBus    = "hw_cdrom_bus"
)

// ConfigDriveOf reports whether a server has a config drive: its owner asked for
// one, or its image needs one (img_config_drive is mandatory).
func ConfigDriveOf(asked bool, img Image) bool {
	return asked || img.Properties[propertyConfigDrive] == "mandatory"
}

// DefaultCDROMBus is the bus of CD-ROMs where the image does not say: kernels
// that are made for clouds have no driver for SATA.
const DefaultCDROMBus = "scsi"

// CDROMBus is the bus of a server's CD-ROM, by its image's hw_cdrom_bus: scsi or
// sata. Anything else is Invalid: the machine has no such bus.
func CDROMBus(img Image) (string, error) {
	switch bus := img.Properties[propertyCDROMBus]; bus {
	case "":
		return DefaultCDROMBus, nil
	case "scsi", "sata":
		return bus, nil
	default:
		return "", Errorf(Invalid, "Image %s has an invalid hw_cdrom_bus property: '%s' is not offered, 'scsi' and 'sata' are.", img.Name, bus)
	}
}

// ConfigDriveSecret names the passphrase that opens the server's config drive: its
// root disk's, for what a user writes into his metadata is worth as much as what
// he writes on his disks. nil: it is not encrypted.
func (s Server) ConfigDriveSecret() *SecretID {
	if root, ok := s.RootDisk(); ok && root.Encrypted {
		return root.Secret
	}
	return nil
}
