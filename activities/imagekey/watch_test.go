package imagekey_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/imagekey"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// EE-44: the key of an image goes when the image store has said twice that the image is gone.
// It is then a thing that waits to be removed.
func TestEE44TheKeyGoesWithItsImage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k, other := b.make("True"), b.make("True")
	b.pass()
	require.NoError(t, b.Pass(b.Ctx))
	require.Zero(t, b.CountRows("SELECT count(*) FROM image_keys WHERE look_at < now() + interval '59 minutes'"), "each is looked at once an hour")
	b.remove(k.img)
	b.pass()
	require.Equal(t, compute.ThingHandedOver, b.state(k), "once may be a mistake")
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM image_keys WHERE gone_at IS NOT NULL AND look_at > now() + interval '23 hours'"))
	b.pass()
	require.Equal(t, compute.ThingWaiting, b.state(k))
	require.Equal(t, compute.ThingHandedOver, b.state(other))
	got, err := (&ledger.Activities{Pool: b.DB}).Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Len(t, got.Things, 1)
	require.Equal(t, k.key.Name, got.Things[0].Name)
	require.Equal(t, k.id.String(), got.Things[0].Reference)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM image_keys"))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'image' AND state <> 'released'"))
	b.pass()
}

// EE-44: an image that comes back, as when the image store's database was restored, keeps its key.
func TestEE44AnImageThatComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := b.make("True")
	b.pass()
	b.remove(k.img)
	b.pass()
	b.image(k.img.ID.UUID, k.img.Properties)
	b.pass()
	b.remove(k.img)
	b.pass()
	require.Equal(t, compute.ThingHandedOver, b.state(k), "the time begins anew")
}

// EE-44, EE-28: whatever is not sure leaves the key where it is: what the image store does not say, what
// another image or a disk names, what the image did not allow. Nobody who edits an image, or makes
// one, takes another's key away.
func TestEE44KeysThatStay(t *testing.T) {
	t.Parallel()
	away := compute.Errorf(compute.Unavailable, "away")
	no := compute.Errorf(compute.Forbidden, "no")
	failing := func(call string, err error) func(b *bench, k keyed) {
		return func(b *bench, k keyed) {
			b.remove(k.img)
			b.store.before = func(c string, _ compute.Credential) error {
				if c == call {
					return err
				}
				return nil
			}
		}
	}
	for name, c := range map[string]struct {
		policy string
		unseen bool // no look has seen the image
		do     func(b *bench, k keyed)
		kept   string // what the audit says
	}{
		"policy False":              {policy: "False", do: func(b *bench, k keyed) { b.remove(k.img) }, kept: compute.KeptByPolicy},
		"no policy":                 {policy: "", do: func(b *bench, k keyed) { b.remove(k.img) }, kept: compute.KeptByPolicy},
		"the store does not answer": {policy: "True", do: failing("list", away)},
		"nor for one image":         {policy: "True", do: failing("get", away)},
		"the store fails":           {policy: "True", do: failing("get", compute.Errorf(compute.Corrupt, "nonsense"))},
		"may not list":              {policy: "True", do: failing("list", no)},
		"may not see it":            {policy: "True", do: failing("get", no)},
		"nobody knows who names it": {policy: "True", do: failing("naming", away)},
		"not told who names it":     {policy: "True", do: failing("naming", no)},
		"an empty list":             {policy: "True", do: func(b *bench, _ keyed) { b.store.empty = true }},
		"an image of its user's names it": {policy: "True", kept: compute.KeptForOthers, do: func(b *bench, k keyed) {
			b.image(uuid.New(), map[string]string{"hw_ephemeral_encryption_secret_uuid": k.id.String()})
			b.remove(k.img)
		}},
		"an image was made with it": {policy: "True", kept: compute.KeptForOthers, do: func(b *bench, k keyed) {
			_, err := b.use(k.id, k.key.Name)
			require.NoError(b.t, err)
			b.remove(k.img)
			b.Exec("UPDATE image_keys SET look_at = NULL WHERE NOT made") // it stays, whatever the store says
		}},
		"a rescued server's disk": {policy: "True", kept: compute.KeptForOthers, do: func(b *bench, k keyed) {
			op := b.Server(compute.OpRescue)
			b.Exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb, encrypted, encryption_secret_uuid)
				VALUES ($1, $2, 'rescue', '/dev/vda', 1, true, $3)`, uuid.New(), op.ServerID, k.id)
			b.remove(k.img)
		}},
		"it became another project's": {policy: "True", kept: compute.KeptByPolicy, do: func(b *bench, k keyed) {
			b.Exec("UPDATE image_keys SET project_id = 'p2'") // as if its image were not the project's any more
			img := k.img
			img.Visibility = image.Public
			_, err := b.store.Update(b.Ctx, schematest.Owner, img)
			require.NoError(b.t, err)
			b.pass() // it is seen, and another's
			b.remove(k.img)
		}},
		"of an earlier release, gone before anybody looked": {policy: "True", unseen: true, kept: compute.KeptByPolicy, do: func(b *bench, k keyed) {
			b.Exec("DELETE FROM image_keys")
			b.remove(k.img)
			require.NoError(b.t, b.Adopt(b.Ctx))
			require.Equal(b.t, 1, b.CountRows("SELECT count(*) FROM image_keys"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			k := b.make(c.policy)
			if !c.unseen {
				b.pass()
			}
			c.do(b, k)
			for range 3 {
				b.pass()
			}
			require.Equal(t, compute.ThingHandedOver, b.state(k))
			require.Equal(t, c.kept, b.kept(k))
		})
	}
}

// EE-44: a key that others used goes once they are gone. One that somebody named for his image
// never does, whatever that image says.
func TestEE44AKeyThatSomebodyNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k, victim := b.make("True"), b.make("True")
	id, err := b.use(k.id, k.key.Name)
	require.NoError(t, err)
	// He says that it goes, and names what is another's.
	user := b.image(id.UUID, map[string]string{"os_encrypt_key_id": victim.id.String(), "os_encrypt_key_deletion_policy": "True"})
	b.pass()
	b.remove(k.img)
	b.pass()
	b.pass()
	require.Equal(t, compute.KeptForOthers, b.kept(k))
	b.remove(user)
	b.pass()
	b.pass()
	b.pass()
	require.Equal(t, compute.ThingWaiting, b.state(k), "nothing names it any more")
	require.Equal(t, compute.ThingHandedOver, b.state(victim), "its own image is there")
}

// EE-44: a pass may die at each of its calls, and two may run at once: the next one ends what
// they began, and each key goes once.
func TestEE44APassThatDies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k, other := b.make("True"), b.make("True")
	b.pass()
	b.remove(k.img)
	dead := compute.Errorf(compute.Unavailable, "dead")
	dieAt := func(n int) {
		b.store.before = func(string, compute.Credential) error {
			if n--; n < 0 {
				return dead
			}
			return nil
		}
	}
	for n := range 2 { // at the list, and at the image
		dieAt(n)
		b.pass()
		require.Zero(t, b.CountRows("SELECT count(*) FROM image_keys WHERE gone_at IS NOT NULL"))
	}
	b.store.before = nil
	b.pass()
	for n := range 4 { // and where it asks with its own user, and for images that name the key
		dieAt(n)
		b.pass()
		require.Equal(t, compute.ThingHandedOver, b.state(k))
	}
	b.store.before = nil
	b.due()
	for _, err := range schematest.AtOnce(4, func(int) error { return b.Pass(b.Ctx) }) {
		require.NoError(t, err)
	}
	require.Equal(t, compute.ThingWaiting, b.state(k))
	require.Equal(t, compute.ThingHandedOver, b.state(other))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE state = 'waiting'"))
}

// EE-44: a pass looks at a part of many images, each project with as few calls as can be, and the
// next ones at the rest.
func TestEE44ManyImages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.make("True")
	b.Exec(`INSERT INTO image_keys (image_id, operation_id, project_id, secret, made, policy, look_at)
		SELECT gen_random_uuid(), 'req-x', 'p' || i % 3, gen_random_uuid(), true, 'True', now() - interval '1 minute' FROM generate_series(1, 449) i`)
	b.Exec("UPDATE image_keys SET look_at = now() - interval '2 minutes' WHERE image_id = $1", first.img.ID)
	lists := 0
	b.store.before = func(call string, _ compute.Credential) error {
		if call == "list" {
			lists++
		}
		return nil
	}
	for _, left := range []int{250, 50, 0} {
		require.NoError(t, b.Pass(b.Ctx))
		require.Equal(t, left, b.CountRows("SELECT count(*) FROM image_keys WHERE look_at <= now()"))
	}
	require.Equal(t, 0, b.CountRows("SELECT count(*) FROM image_keys WHERE gone_at IS NOT NULL AND image_id = $1", first.img.ID))
	require.LessOrEqual(t, lists, 3*2*3)
}

// EE-44: where strongroom's own credentials are refused, the look waits for that of a passing
// request of the project, which is kept for it and not longer.
func TestEE44ALookWaitsForACredential(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := b.make("True")
	offer := compute.Credential{ID: uuid.New(), ProjectID: schematest.Owner.ProjectID, UserID: "u2"}
	b.store.before = func(_ string, cred compute.Credential) error {
		if cred.ID != offer.ID {
			return compute.Errorf(compute.Forbidden, "no")
		}
		return nil
	}
	waits := func() bool {
		waits, err := b.Q.ProjectWaits(b.Ctx, offer.ProjectID)
		require.NoError(t, err)
		return waits
	}
	offered := func() int { return b.CountRows("SELECT count(*) FROM credentials WHERE offered") }
	records := &ledger.Activities{Pool: b.DB}
	b.Exec("UPDATE image_keys SET policy = 'True'") // it was seen
	b.remove(k.img)
	for range 2 { // two looks
		b.pass()
		require.False(t, waits(), "not at once")
		b.Exec("UPDATE image_keys SET refused_at = now() - interval '2 minutes'")
		b.pass() // its own credentials are refused once more: that is no news
		require.True(t, waits())
		_, err := b.Q.OfferCredential(b.Ctx, schema.OfferCredentialParams{ID: offer.ID, ProjectID: offer.ProjectID, UserID: offer.UserID, Sealed: []byte("x")})
		require.NoError(t, err)
		due, err := records.IsDue(b.Ctx)
		require.NoError(t, err)
		require.False(t, due, "it is wanted here first")
		require.NoError(t, records.Reaped(b.Ctx, ledger.ReapedInput{Offers: []compute.Credential{offer}}))
		require.Equal(t, 1, offered())
		require.NoError(t, b.Pass(b.Ctx))
		due, err = records.IsDue(b.Ctx)
		require.NoError(t, err)
		require.True(t, due, "it was used")
		if b.state(k) == compute.ThingHandedOver {
			require.NoError(t, records.Reaped(b.Ctx, ledger.ReapedInput{Offers: []compute.Credential{offer}}))
			require.Zero(t, offered())
		}
	}
	require.Equal(t, compute.ThingWaiting, b.state(k))
	require.Equal(t, 1, offered(), "the key itself goes with it")
}

// EE-46: a secret of a server becomes no image's, whichever way strongroom knows it: by its id, by its
// name alone while it is being made, on its way out, or as a legacy key on no ledger row.
func TestEE46SecretsOfServers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.Server(compute.OpCreate)
	op.Credential = compute.Credential{ID: uuid.New(), ProjectID: "somebody else's"}
	plan := compute.DiskSecret(op.ServerID, op.ID, compute.Disk{Role: compute.RootDisk})
	key := op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, plan.Name)
	refused := func(why string) {
		t.Helper()
		_, err := b.use(plan.ID, plan.Name)
		require.True(t, compute.Is(err, compute.Conflict), "%s: %v", why, err)
		require.ErrorContains(t, err, "encryption.key 'same'")
	}
	b.write(func(q *schema.Queries) error { return ledger.Open(b.Ctx, q, []compute.Thing{key}) })
	refused("it is being made: the ledger has no id of it")
	key.Reference = plan.ID.String()
	b.write(func(q *schema.Queries) error { return ledger.Present(b.Ctx, q, []compute.Thing{key}) })
	refused("it is there")
	b.write(func(q *schema.Queries) error {
		return ledger.Wait(b.Ctx, q, []compute.Thing{key.Waits(compute.BlockedByHost, "down")})
	})
	refused("its server is deleted, and its host down")
	require.Zero(t, b.CountRows("SELECT count(*) FROM image_keys"))

	legacy := compute.SecretID{UUID: uuid.New()}
	b.Exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb, encrypted, encryption_secret_uuid)
		VALUES ($1, $2, 'ephemeral', '/dev/vdb', 1, true, $3)`, uuid.New(), op.ServerID, legacy)
	_, err := b.use(legacy, "a name of Nova's")
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	unmoved := compute.SecretID{UUID: uuid.New()}
	b.Exec("UPDATE servers SET ephemeral_key_uuid = $2 WHERE id = $1", op.ServerID, unmoved)
	_, err = b.use(unmoved, "")
	require.True(t, compute.Is(err, compute.Conflict), "a legacy key that is still to be moved to the disks: %v", err)
	_, err = b.use(compute.SecretID{UUID: uuid.New()}, "mine")
	require.NoError(t, err)
}

// EE-44: however often an image is looked at, its key stays for the whole grace.
func TestEE44AKeyStaysForTheWholeGrace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := b.make("True")
	b.pass()
	b.remove(k.img)
	for range 3 {
		b.Exec("UPDATE image_keys SET look_at = now() - interval '1 second'")
		require.NoError(t, b.Pass(b.Ctx))
		require.Equal(t, compute.ThingHandedOver, b.state(k))
	}
	b.pass()
	require.Equal(t, compute.ThingWaiting, b.state(k))
}

// EE-46, EE-44: of who makes an image with a key and who deletes the key, at once, one comes
// second and sees it.
func TestEE46UseAndRemovalAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	records := &ledger.Activities{Pool: b.DB}
	for range 20 {
		k := b.make("True")
		b.remove(k.img)
		var taken ledger.TakeKeyResult
		var used error
		for _, err := range schematest.AtOnce(2, func(i int) (err error) {
			if i == 0 {
				taken, err = records.TakeKey(b.Ctx, ledger.TakeKeyInput{Image: k.img.ID, Key: k.key})
				return err
			}
			_, used = b.use(k.id, k.key.Name)
			return nil
		}) {
			require.NoError(t, err)
		}
		require.Equal(t, taken.Taken, used != nil, "%v", used)
		if used != nil {
			require.ErrorContains(t, used, "is about to be deleted")
		}
	}
}

// EE-44: when the image store has lost more images at once than users delete, no key goes, whatever
// it says for how long, the audit lists them, and those that come back are as they were. An operator
// says that the others are gone.
func TestEE44ManyImagesAreGoneAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.MostGone = 20
	var all []keyed
	for range 14 {
		all = append(all, b.make("True"))
	}
	foreign, err := b.use(all[0].id, all[0].key.Name)
	require.NoError(t, err)
	named := b.image(foreign.UUID, nil)
	b.pass()
	for _, k := range all[:2] { // as every day
		b.remove(k.img)
	}
	b.remove(named)
	b.pass()
	b.pass()
	require.Equal(t, compute.ThingWaiting, b.state(all[1]))

	for _, k := range all[2:10] {
		b.remove(k.img)
	}
	for range 4 {
		b.pass()
	}
	for _, k := range all[2:10] {
		require.Equal(t, compute.ThingHandedOver, b.state(k))
		require.Equal(t, compute.KeptWithMany, b.kept(k))
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'image' AND name = $1 AND state <> 'released'", k.img.ID.String()))
	}
	e := compute.LedgerEntry{Thing: all[2].key, Kept: b.kept(all[2])}
	e.State = compute.ThingHandedOver
	require.Equal(t, compute.Held, e.Judge(true, true))
	held, err := imagekey.Held(b.Ctx, b.DB)
	require.NoError(t, err)
	require.Len(t, held, 8)

	back := b.image(all[2].img.ID.UUID, all[2].img.Properties) // one is restored
	confirm := slices.DeleteFunc(held, func(k imagekey.HeldKey) bool { return k.Image == back.ID })
	n, err := imagekey.Confirm(b.Ctx, b.DB, confirm[:3])
	require.NoError(t, err)
	require.Equal(t, 3, n)
	b.pass()
	b.pass()
	for _, k := range confirm[3:] {
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND reference = $1 AND state = 'handed_over'", k.Secret.String()))
	}
	for _, k := range confirm[:3] {
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND reference = $1 AND state = 'waiting'", k.Secret.String()))
	}
	held, err = imagekey.Held(b.Ctx, b.DB)
	require.NoError(t, err)
	require.Len(t, held, len(confirm)-3)
	for i, k := range held {
		require.Equal(t, confirm[3+i].Image, k.Image)
	}
	_, err = imagekey.Confirm(b.Ctx, b.DB, held)
	require.NoError(t, err)
	b.pass()
	b.remove(back) // it is one among many that are there, as every day
	b.pass()
	b.pass()
	require.Equal(t, compute.ThingWaiting, b.state(all[2]), "what was confirmed counts no more")
}

// EE-44: however few images with keys there are, when all of them are gone and the image store shows no
// other image either, it has lost its database: no key goes until an image is seen or an operator
// says that they are gone.
func TestEE44AStoreThatShowsNoImages(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		b := setup(t)
		b.MostGone = 100
		var all []keyed
		for range n {
			all = append(all, b.make("True"))
		}
		b.pass()
		b.remove(b.other)
		for _, k := range all {
			b.remove(k.img)
		}
		for range 4 {
			b.pass()
		}
		for _, k := range all {
			require.Equal(t, compute.ThingHandedOver, b.state(k), "of %d", n)
			require.Equal(t, compute.KeptWithMany, b.kept(k))
		}
		held, err := imagekey.Held(b.Ctx, b.DB)
		require.NoError(t, err)
		require.Len(t, held, n)
		_, err = imagekey.Confirm(b.Ctx, b.DB, held[:1])
		require.NoError(t, err)
		b.pass()
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND reference = $1 AND state = 'waiting'", held[0].Secret.String()))
		for _, k := range held[1:] {
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND reference = $1 AND state = 'handed_over'", k.Secret.String()))
		}

		b.image(uuid.New(), nil) // it works again
		b.pass()
		for _, k := range all {
			require.Equal(t, compute.ThingWaiting, b.state(k), "of %d", n)
		}
	}
}

// EE-44: who asks an image store that shows nothing to one credential, asks it with another one; one
// that answers neither is asked later.
func TestEE44WhoSeesAnyImages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error // of lists of all that the project's credential may see
		state compute.ThingState
	}{
		"the project may not list": {compute.Errorf(compute.Forbidden, "no"), compute.ThingWaiting},
		"no answer":                {compute.Errorf(compute.Unavailable, "away"), compute.ThingHandedOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			k := b.make("True")
			b.pass()
			b.remove(k.img)
			b.store.listed = func(cred compute.Credential, in image.ListInput) error {
				if in.IDs == nil && cred.ProjectID != "" {
					return c.err
				}
				return nil
			}
			b.pass()
			b.pass()
			require.Equal(t, c.state, b.state(k))
			require.Empty(t, b.kept(k))
		})
	}
}

// EE-44: an image that was given to another project looks gone to its own one, and keeps its key where
// strongroom's own user sees it; one whose visibility changed is there.
func TestEE44AnImageThatWasGivenAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	given, shown := b.make("True"), b.make("True")
	b.pass()
	b.remove(given.img)
	b.store.given = &given.img
	img := shown.img
	img.Visibility = image.Community
	_, err := b.store.Update(b.Ctx, schematest.Owner, img)
	require.NoError(t, err)
	for range 3 {
		b.pass()
	}
	for _, k := range []keyed{given, shown} {
		require.Equal(t, compute.ThingHandedOver, b.state(k))
	}
	b.store.given = nil // its new owner deleted it
	b.pass()
	b.pass()
	require.Equal(t, compute.ThingHandedOver, b.state(given), "what it said of its key, it said as another's")
	require.Equal(t, compute.KeptByPolicy, b.kept(given))
}

// EE-44: an image of which the image store says nothing, or of whose key, keeps no other waiting.
func TestEE44OneStuckImage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call string
		err  error
	}{
		"nonsense":          {"get", compute.Errorf(compute.Corrupt, "nonsense")},
		"no answer":         {"get", compute.Errorf(compute.Unavailable, "away")},
		"a refusal":         {"get", compute.Errorf(compute.Forbidden, "no")},
		"who names its key": {"naming", compute.Errorf(compute.Unavailable, "away")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			stuck, other := b.make("True"), b.make("True")
			b.pass()
			b.remove(stuck.img)
			b.remove(other.img)
			b.store.stuck, b.store.stuckCall, b.store.stuckErr = stuck, c.call, c.err
			for range 2 {
				b.due()
				b.Exec("UPDATE image_keys SET look_at = look_at - interval '1 minute' WHERE image_id = $1", stuck.img.ID)
				for range 2 { // the stuck one comes first
					require.NoError(t, b.Pass(b.Ctx))
				}
			}
			require.Equal(t, compute.ThingHandedOver, b.state(stuck))
			require.Equal(t, compute.ThingWaiting, b.state(other))
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM image_keys WHERE image_id = $1 AND look_at > now() + interval '4 minutes'", stuck.img.ID))
		})
	}
}
