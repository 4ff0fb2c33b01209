package disk

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"strongroom/compute"
)

// PoolImages gives those of a server's disks that are in the host's Ceph pool, as
// "<pool>/<image>". The cluster answers, and they are there. Corrupt: one is not;
// Unavailable: the cluster does not answer.
func (a *Activities) PoolImages(ctx context.Context, s compute.Server) (map[compute.DiskID]string, error) {
	dir, err := a.serverDir(s.ID)
	if err != nil {
		return nil, err
	}
	images := map[compute.DiskID]string{}
	looking, both := errgroup.WithContext(ctx)
	for _, d := range s.Disks {
		i, linked, err := a.pooled(filepath.Join(dir, d.Name()))
		if err != nil {
			return nil, errors.Join(err, looking.Wait())
		}
		if !linked {
			continue
		}
		images[d.ID] = i.String()
		looking.Go(func() error {
			_, found, err := a.findImage(both, i)
			if err == nil && !found {
				err = compute.Errorf(compute.Corrupt, "%s is missing", i)
			}
			if err != nil {
				return failed(ctx, err, "disk %s", d.ID)
			}
			return nil
		})
	}
	return images, looking.Wait()
}

// PoolRoom gives what the host's pool holds at most and what it can still take. ok is
// false when the host has none.
func (a *Activities) PoolRoom(ctx context.Context) (total, free int64, ok bool, err error) {
	if a.Pool.Name == "" {
		return 0, 0, false, nil
	}
	var doc struct {
		Pools []struct {
			Name  string `json:"name"`
			Stats struct {
				Stored int64 `json:"stored"`
				Free   int64 `json:"max_avail"`
			} `json:"stats"`
		} `json:"pools"`
	}
	if err := a.cephDoc(ctx, &doc, "ceph", "df"); err != nil {
		return 0, 0, true, failed(ctx, err, "room in the Ceph pool %s", a.Pool.Name)
	}
	for _, p := range doc.Pools {
		if p.Name == a.Pool.Name {
			return p.Stats.Stored + p.Stats.Free, p.Stats.Free, true, nil
		}
	}
	return 0, 0, true, compute.Errorf(compute.Unavailable, "there is no Ceph pool %s", a.Pool.Name)
}
