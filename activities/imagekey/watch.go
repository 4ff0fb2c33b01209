// Package imagekey sees to the keys of images: no image service deletes the key of an image with
// it, whatever os_encrypt_key_deletion_policy says, so strongroom does (EE-44), for the keys that
// it made.
package imagekey

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/image"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

const (
	// most is how many images one pass looks at: with a pass every ten seconds a hundred
	// thousand of them take some 80 minutes.
	most = 200
	// atOnce is how many images the image store is asked for at once.
	atOnce = 50
	// later is when an image store is asked again that gave no answer.
	later = 5 * time.Minute
)

// Watch looks at the images whose keys are on record, each of them every now and then.
//
// A key goes when its image is gone: the image store answered at two looks, with Grace between them,
// that it has none of that id, to a credential that may list the images of its project; the image said
// last that its key may go; no other image, and no disk, names the key; and not too many are gone at once. What the key is, the
// ledger says and nothing that a user can change. From then on the key is a thing that waits to
// be removed, like all others. Credentials are those that things which wait are removed with:
// strongroom's own role in the project, the trusts of its servers, and the token of a passing
// request.
type Watch struct {
	Pool     *pgxpool.Pool
	Library  image.Library
	Interval time.Duration // how often an image is looked at; 0: never
	Grace    time.Duration // how long after the look that did not find an image the next one decides; not less than Interval
	MostGone int           // percent of the images that may be gone at once (tooMany); 100: all, unless the store shows none at all
	Logger   *slog.Logger
}

// Adopt puts keys on record that an earlier release made. What their images say of them is not
// known before a look has seen it.
func (w *Watch) Adopt(ctx context.Context) error {
	if w.Interval <= 0 {
		return nil
	}
	_, err := schema.New(w.Pool).AdoptImageKeys(ctx)
	return fence.Unavailable(err)
}

// Pass looks at the images whose time has come, at most some of them.
func (w *Watch) Pass(ctx context.Context) error {
	if w.Interval <= 0 {
		return nil
	}
	due, err := schema.New(w.Pool).DueImageKeys(ctx, schema.DueImageKeysParams{Grace: w.Grace.Seconds(), Most: most})
	if err != nil || len(due) == 0 {
		return fence.Unavailable(err)
	}
	projects := map[string][]schema.DueImageKeysRow{}
	var names []string
	for _, row := range due {
		if projects[row.ProjectID] == nil {
			names = append(names, row.ProjectID)
		}
		projects[row.ProjectID] = append(projects[row.ProjectID], row)
	}
	known, err := w.access(ctx, names)
	if err != nil {
		return err
	}
	for _, project := range names {
		if err := w.project(ctx, project, projects[project], known[project]); err != nil {
			return err
		}
	}
	return nil
}

// access is what there is to look into a project with.
type access struct {
	credentials []compute.Credential
	offered     bool // that of a passing request is among them
}

func (w *Watch) access(ctx context.Context, projects []string) (map[string]access, error) {
	q := schema.New(w.Pool)
	trusts, err := q.TrustsOf(ctx, projects)
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	offers, err := q.OffersIn(ctx, projects)
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	out := map[string]access{}
	for _, project := range projects {
		a := access{credentials: []compute.Credential{compute.MemberCredential(project)}}
		for _, t := range trusts {
			if t.ProjectID == project {
				a.credentials = append(a.credentials, compute.Credential{ID: t.ID, ProjectID: project, UserID: t.UserID})
			}
		}
		for _, o := range offers {
			if o.ProjectID == project {
				a.credentials = append(a.credentials, compute.Credential{ID: o.ID, ProjectID: project, UserID: o.UserID})
				a.offered = true
			}
		}
		out[project] = a
	}
	return out, nil
}

// project looks at images of one project. A store that does not answer is asked later.
func (w *Watch) project(ctx context.Context, project string, rows []schema.DueImageKeysRow, with access) error {
	q := schema.New(w.Pool)
	for part := range slices.Chunk(rows, atOnce) {
		var failed error
		err := compute.WithAny(with.credentials, func(cred compute.Credential) error {
			err := w.look(ctx, cred, part)
			if err != nil && !compute.Is(err, compute.Forbidden) {
				failed = err
			}
			return err
		})
		switch {
		case failed != nil:
			w.Logger.WarnContext(ctx, "images could not be looked at", "project", project, "error", failed)
			return w.later(ctx, rows)
		case err != nil: // all were refused, also for the other parts
			return fence.Unavailable(q.ImagesRefused(ctx, schema.ImagesRefusedParams{
				Offered: with.offered, Again: w.Interval.Seconds(), ProjectID: project,
			}))
		}
	}
	return nil
}

// look looks at images with one credential and puts on record what it saw. What fails for some
// of them is tried later, for these alone. Forbidden: the credential is good for none.
func (w *Watch) look(ctx context.Context, cred compute.Credential, rows []schema.DueImageKeysRow) error {
	images := make([]compute.ImageID, len(rows))
	for i, row := range rows {
		images[i] = row.ImageID
	}
	seen, err := image.Look(ctx, w.Library, cred, images)
	if err != nil {
		return err
	}
	many, err := w.tooMany(ctx, cred)
	if err != nil {
		return err
	}
	var failed []schema.DueImageKeysRow
	var failure error
	refused := 0
	for _, row := range rows {
		img, isThere := seen.There[row.ImageID]
		err := seen.Failed[row.ImageID]
		switch {
		case isThere:
			err = w.isThere(ctx, cred, img)
		case !seen.Gone[row.ImageID]:
		case !row.WasGone:
			err = schema.New(w.Pool).ImageIsGone(ctx, schema.ImageIsGoneParams{Again: w.Grace.Seconds(), ImageID: row.ImageID})
		default:
			err = w.isGone(ctx, cred, row, many)
		}
		if err != nil {
			failed, failure = append(failed, row), err
			if compute.Is(err, compute.Forbidden) {
				refused++
			}
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case refused == len(rows):
		return failure
	}
	w.Logger.WarnContext(ctx, "some images could not be looked at", "project", cred.ProjectID, "images", len(failed), "error", failure)
	return w.later(ctx, failed)
}

// later has images looked at later that the image store gave no answer for.
func (w *Watch) later(ctx context.Context, rows []schema.DueImageKeysRow) error {
	return fence.Unavailable(schema.New(w.Pool).LookAtImagesLater(ctx, schema.LookAtImagesLaterParams{Again: later.Seconds(), Images: uuids(rows)}))
}

// isThere notes what an image says of its key. One that is another project's now may vanish
// from sight without being gone: its key stays then.
func (w *Watch) isThere(ctx context.Context, cred compute.Credential, img compute.Image) error {
	policy := img.KeyPolicy()
	if !image.Owns(cred, img) {
		policy = ""
	}
	return schema.New(w.Pool).ImageIsThere(ctx, schema.ImageIsThereParams{Policy: policy, Again: w.Interval.Seconds(), ImageID: img.ID})
}

// isGone ends the record of an image that is gone for sure, and lets its key go, if it may.
func (w *Watch) isGone(ctx context.Context, cred compute.Credential, row schema.DueImageKeysRow, many bool) error {
	// An image that was given to another project looks gone to this one. Where strongroom's own user
	// is shown the images of all projects, he sees it.
	switch img, err := w.Library.Get(ctx, compute.DeploymentCredential(), row.ImageID); {
	case err == nil:
		return w.isThere(ctx, cred, img)
	case !compute.Is(err, compute.NotFound) && !compute.Is(err, compute.Forbidden):
		return err
	}
	gone := ledger.GoneImage{Image: row.ImageID, Again: w.Interval, Held: many && !row.Confirmed}
	if row.Made {
		named, err := w.Library.Naming(ctx, cred, row.Secret)
		if err != nil {
			return err
		}
		gone.Named = len(named) > 0
	}
	return fence.Transaction(ctx, w.Pool, func(q *schema.Queries) error { return ledger.EndImage(ctx, q, gone) })
}

func uuids(rows []schema.DueImageKeysRow) []uuid.UUID {
	out := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		out[i] = row.ImageID.UUID
	}
	return out
}
