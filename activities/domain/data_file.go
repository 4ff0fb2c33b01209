package domain

import (
	"path/filepath"

	"strongroom/activities/folder"
	"strongroom/activities/imagefile"
	"strongroom/compute"
)

// checkDataFiles refuses disks whose header says that their data are in another file: QEMU would
// open that one by itself, and a guest that broke into its QEMU can write such a header (M4). No
// disk that strongroom makes has one. Corrupt: a disk has.
func (a *Activities) checkDataFiles(s compute.Server, pool map[compute.DiskID]string) error {
	for _, d := range s.Disks {
		if d.OnDevice() || pool[d.ID] != "" {
			continue
		}
		names, err := imagefile.NamesDataFile(filepath.Join(a.InstancesDir, s.ID.String(), d.Name()))
		if err != nil {
			return compute.Errorf(compute.Unavailable, "server %s: header of disk %s: %w", s.ID, d.ID, folder.WithoutPath(err))
		}
		if names {
			return compute.Errorf(compute.Corrupt, "disk %s names another file in its header: it was not made so, and its server is not started. "+
				"Rebuild the server, and look at its host: its guest may have broken into QEMU", d.ID)
		}
	}
	return nil
}
