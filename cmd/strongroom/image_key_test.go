package main

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/imagekey"
	"strongroom/compute"
	"strongroom/schema/schematest"
)

// EE-44: an operator sees which keys are held because too many images are gone at once, and says of
// those of one project, or of all, that their images are gone.
func TestImageKeysThatAreHeld(t *testing.T) {
	f := schematest.NewFixture(t)
	t.Setenv("STRONGROOM_DATABASE__URL", f.DB.Config().ConnString())
	for _, project := range []string{"p1", "p1", "p2"} {
		f.Exec(`INSERT INTO image_keys (image_id, operation_id, project_id, secret, made, policy, gone_at, kept)
			VALUES ($1, 'req-x', $2, $3, true, 'True', now(), $4)`, uuid.New(), project, uuid.New(), compute.KeptWithMany)
	}
	held := func() []string {
		keys, err := imagekey.Held(f.Ctx, f.DB)
		require.NoError(t, err)
		projects := []string{}
		for _, k := range keys {
			projects = append(projects, k.Project)
		}
		return projects
	}
	r := &run{Context: t.Context(), cli: &cli{}}
	require.NoError(t, imageKeyHeld{}.Run(r))
	require.Equal(t, []string{"p1", "p1", "p2"}, held())
	require.NoError(t, imageKeyConfirm{Project: "p1", Yes: true}.Run(r))
	require.Equal(t, 2, f.CountRows("SELECT count(*) FROM image_keys WHERE confirmed AND project_id = 'p1' AND look_at <= now()"))
	require.Equal(t, []string{"p2"}, held())
	require.ErrorContains(t, imageKeyConfirm{}.Run(r), "say --yes")
	require.Equal(t, 1, f.CountRows("SELECT count(*) FROM image_keys WHERE NOT confirmed"))
	require.NoError(t, imageKeyConfirm{Yes: true}.Run(r))
	require.Empty(t, held())
}

// EE-44: nobody has to switch on that the key of an image goes with the image, and that one which stays is listed.
func TestEE44ImagesAreWatchedByDefault(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Hour, defaults().Control.ImageKeyInterval)
}

// What decides on keys relies on each image having been asked for once within the grace.
func TestImageKeyIntervals(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	require.NoError(t, checkIntervals(cfg))
	cfg.Control.ImageKeyGrace = time.Minute
	require.ErrorContains(t, checkIntervals(cfg), "image_key_grace")
	cfg.Control.ImageKeyGrace = time.Hour
	for _, percent := range []int{0, 101, -1} {
		cfg.Control.ImageKeyMostGone = percent
		require.ErrorContains(t, checkIntervals(cfg), "image_key_most_gone")
		cfg := defaults()
		cfg.Control.ShareMostMissed = percent
		require.ErrorContains(t, checkIntervals(cfg), "share_most_missed")
	}
}

// Control workers look every ten seconds whether something is due.
func TestNoIntervalIsShorterThanAPass(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Config, time.Duration){
		"share_interval":      func(c *Config, d time.Duration) { c.Control.ShareInterval = d },
		"tpm_backup_interval": func(c *Config, d time.Duration) { c.Control.TPMBackupInterval = d },
	} {
		cfg := defaults()
		for interval, good := range map[time.Duration]bool{0: true, time.Second: false, 10 * time.Second: true} {
			set(cfg, interval)
			err := checkIntervals(cfg)
			require.Equal(t, good, err == nil, "%s: %s", name, interval)
			if !good {
				require.ErrorContains(t, err, name)
			}
		}
	}
}
