package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// newNVRAM is the file with the variables of the new machine's UEFI, where the old one does not have
// it on the same host; "" where there is none to be made.
func (s *switchover) newNVRAM() string {
	file := s.to.server.NVRAM()
	if s.from != nil && s.from.host.ID == s.to.host.ID && s.from.server.NVRAM() == file {
		return ""
	}
	return file
}

// withNVRAM is a step that makes the new machine's disks, and the variables of its UEFI beside them: of
// is the old machine's file that they are copied of on the same host, "" for those of a new machine, which have
// so many bytes; 0: as the host has them.
func (s *switchover) withNVRAM(made step, of string, bytes int64) step {
	file := s.newNVRAM()
	if file == "" {
		return made
	}
	made.makes = append(made.makes, s.file(s.to.host, file))
	disks := made.do
	made.do = func(ctx workflow.Context) error {
		if err := disks(ctx); err != nil {
			return err
		}
		firmware, err := s.to.server.Firmware()
		if err != nil {
			return err
		}
		return disk.CreateNVRAM.On(s.to.host).Do(ctx, disk.NVRAMInput{
			Server: s.Server, File: file, Firmware: firmware, Machine: s.to.server.MachineType(), Of: of, Bytes: bytes,
		})
	}
	return made
}

// filesOf are the files of a server that go where it goes: its disks, the root disk first, and the variables of its UEFI.
func filesOf(s compute.Server) []string {
	var names []string
	for _, d := range s.Disks {
		names = append(names, d.Name())
	}
	if file := s.NVRAM(); file != "" {
		names = append(names, file)
	}
	return names
}

// comingNVRAM are the variables, of so many bytes, that a server brings to a host; nil: it brings none.
func comingNVRAM(s compute.Server, bytes int64) *disk.ComingNVRAM {
	firmware, err := s.Firmware()
	if err != nil || !firmware.UEFI || bytes == 0 {
		return nil
	}
	return &disk.ComingNVRAM{Firmware: firmware, Machine: s.MachineType(), Bytes: bytes}
}

// receiveNVRAM has the new machine's host copy the variables of the old one's UEFI.
func (m *migration) receiveNVRAM(ctx workflow.Context, from compute.Agent, limit time.Duration) error {
	file := m.to.server.NVRAM()
	if file == "" {
		return nil
	}
	return disk.ReceiveNVRAM.On(m.to.host).TakenWithin(limit).Do(ctx, disk.ReceiveNVRAMInput{Server: m.Server, Operation: m.Operation, File: file, From: from})
}
