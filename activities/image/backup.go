package image

import (
	"context"
	"slices"

	"strongroom/compute"
)

// OldBackupsInput asks which backups of a server are more than are kept.
type OldBackupsInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	Backup     compute.Backup     `json:"backup"`
	Newest     compute.ImageID    `json:"newest"` // the one that was just made
}

// OldBackup is one that is to go.
type OldBackup struct {
	Image compute.ImageID `json:"image"`
	// TakeKey is whether its key is to go with it, by the image's deletion policy.
	TakeKey bool `json:"take_key"`
}

// oldBackupsAtOnce is how many old backups a new one removes at most. The next backup removes more.
const oldBackupsAtOnce = 200

// OldBackupsResult lists them, the oldest first, and at most oldBackupsAtOnce.
type OldBackupsResult struct {
	Images []OldBackup `json:"images"`
}

// OldBackups is the activity image.OldBackups. Only what the credential's own
// project has counts, and only whole images do: what is half made is no backup yet.
func (a *Activities) OldBackups(ctx context.Context, in OldBackupsInput) (OldBackupsResult, error) {
	if in.Backup.Rotation < 0 {
		return OldBackupsResult{}, compute.Errorf(compute.Invalid, "the rotation %d is no number of backups", in.Backup.Rotation)
	}
	var kept []compute.Image
	for img, err := range All(ctx, a.Library, in.Credential, ListInput{Own: true, Statuses: []string{StatusActive}}) {
		if err != nil {
			return OldBackupsResult{}, err
		}
		if img.IsBackup(in.Server, in.Backup.Type) {
			kept = append(kept, img)
		}
	}
	slices.SortFunc(kept, func(a, b compute.Image) int {
		// Image stores keep times in whole seconds, and this one is known to be the newest.
		if a.ID == in.Newest || b.ID == in.Newest {
			return map[bool]int{true: 1, false: -1}[a.ID == in.Newest]
		}
		return a.CreatedAt.Compare(b.CreatedAt)
	})
	var out OldBackupsResult
	for _, img := range kept[:min(max(0, len(kept)-in.Backup.Rotation), oldBackupsAtOnce)] {
		out.Images = append(out.Images, OldBackup{img.ID, img.KeyGoes()})
	}
	return out, nil
}
