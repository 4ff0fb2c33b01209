package mount

import (
	"strongroom/activities/folder"
	"strongroom/compute"
)

func noFolder() error {
	return compute.Errorf(compute.Unavailable, "this host mounts no shares: host.shares is empty")
}

// refused is failed for what the next try will hardly mend: whoever waits is told at once.
func refused(id compute.ShareID, what string, err error) error {
	return compute.Errorf(compute.Conflict, "share %s: %s: %w", id, what, folder.WithoutPath(err))
}

// failed gives the error of a file system without the path, which tells where on the host
// the share is, or where it is exported (SH-25).
func failed(id compute.ShareID, what string, err error) error {
	if compute.KindOf(err) != "" {
		return err
	}
	return compute.Errorf(compute.Unavailable, "share %s: %s: %w", id, what, folder.WithoutPath(err))
}
