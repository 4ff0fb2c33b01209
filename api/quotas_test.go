package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// given is the quota of every project. That of projects without one of their own has
// three servers.
type given compute.Quota

func (g given) Of(context.Context, string) compute.Quota { return compute.Quota(g) }

func (g given) AreElsewhere() bool { return false }

// keystones are Keystone's.
type keystones struct{ given }

func (keystones) AreElsewhere() bool { return true }

func (g given) Default(context.Context) compute.Quota {
	g.Instances = 3
	return compute.Quota(g)
}

func quotas(q compute.Quota) func(*api.Config) {
	return func(config *api.Config) { config.Quotas = given(q) }
}

// only limits nothing but servers and disk.
func only(instances, diskGB int64) func(*api.Config) {
	return quotas(compute.Quota{Instances: instances, Cores: compute.Unlimited, MemoryMB: compute.Unlimited, DiskGB: diskGB})
}

// lingering makes each write of a server take a while, so that requests at once meet.
func (c *cloud) lingering() {
	c.t.Helper()
	c.exec(`CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END'`)
	c.exec("CREATE TRIGGER linger BEFORE INSERT OR UPDATE ON servers FOR EACH ROW EXECUTE FUNCTION linger()")
}

// H7: a project does not get more than its quota, however many ask at once.
func TestH7CreatesAtOnceDoNotPassTheQuota(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, only(3, compute.Unlimited))
	c.create(nil)
	c.create(nil)
	c.lingering()
	var passed, refused atomic.Int32
	var all sync.WaitGroup
	body := c.body(nil)
	begin := make(chan struct{})
	for range 8 {
		all.Go(func() {
			<-begin
			switch c.do(t, member, "POST", "/servers", body, at("2.90")).code {
			case 202:
				passed.Add(1)
			case 403:
				refused.Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	require.EqualValues(t, 1, passed.Load())
	require.EqualValues(t, 7, refused.Load())
	require.Equal(t, 3, c.count("SELECT count(*) FROM servers"))
	c.do(t, member, "POST", "/servers", body, at("2.90")).
		fails(403, "forbidden", "Quota exceeded for instances: Requested 1, but already used 3 of 3 instances")
	c.createAs(stranger, nil) // another project has its own
}

// H7: requests that wait for a project's turn leave connections for others.
func TestH7WhoWaitsHoldsNoConnection(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, only(100, compute.Unlimited))
	holder, err := pgx.ConnectConfig(t.Context(), c.pool.Config().ConnConfig)
	require.NoError(t, err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock(11, hashtext($1))", project)
	require.NoError(t, err)
	body, codes := c.body(nil), make(chan int, 20)
	for range cap(codes) {
		go func() { codes <- c.do(t, member, "POST", "/servers", body, at("2.90")).code }()
	}
	require.Eventually(t, func() bool {
		var waiting bool
		return holder.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&waiting) == nil && waiting
	}, time.Minute, 10*time.Millisecond)
	for range 50 {
		c.do(t, stranger, "GET", "/servers", "").ok(200)
		require.LessOrEqual(t, c.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"), 1)
	}
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
	require.NoError(t, err)
	for range cap(codes) {
		require.Contains(t, []int{202, 503}, <-codes)
	}
}

// H7: a create or a rescue that waits for its project's lock in vain says what it waited for.
func TestH7WhoWaitedInVainIsToldForWhat(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, only(100, 100))
	id := c.active()
	large := c.addImage(func(img *compute.Image) { img.VirtualBytes = 3 << 30 })
	holder, err := pgx.ConnectConfig(t.Context(), c.pool.Config().ConnConfig)
	require.NoError(t, err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock(11, hashtext($1))", project)
	require.NoError(t, err)
	waits := "Other requests wait for the same quota. Try again."
	c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).fails(503, "serviceUnavailable", waits)
	c.act(t, member, id, fmt.Sprintf(`{"rescue":{"rescue_image_ref":"%s"}}`, large), at("2.90")).fails(503, "serviceUnavailable", waits)
}

// N10: so does a request that waits in vain for a server's row.
func TestN10WhoWaitedInVainForARowIsToldSo(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	holder, err := pgx.ConnectConfig(t.Context(), c.pool.Config().ConnConfig)
	require.NoError(t, err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT FROM servers WHERE id = $1 FOR UPDATE", id)
	require.NoError(t, err)
	c.act(t, member, id, `{"os-stop":null}`, at("2.90")).fails(503, "serviceUnavailable", "Another request changes the same. Try again.")
}

// H7: each of the resources has its limit, and what is deleted counts no more.
func TestH7EveryResourceHasItsQuota(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]struct {
		quota   compute.Quota
		refused string
	}{
		"cores": {compute.Quota{Instances: -1, Cores: 1, MemoryMB: -1, DiskGB: -1}, "Quota exceeded for cores: Requested 1, but already used 1 of 1 cores"},
		"ram":   {compute.Quota{Instances: -1, Cores: -1, MemoryMB: 1000, DiskGB: -1}, "Quota exceeded for ram: Requested 512, but already used 512 of 1000 ram"},
		"disk":  {compute.Quota{Instances: -1, Cores: -1, MemoryMB: -1, DiskGB: 7}, "Quota exceeded for disk: Requested 4, but already used 4 of 7 disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t, quotas(q.quota))
			id := c.create(nil)
			c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).fails(403, "forbidden", q.refused)
			require.Equal(t, 1, c.count("SELECT count(*) FROM servers"))
			require.Equal(t, 1, c.count("SELECT count(*) FROM operations"))
			c.exec("UPDATE servers SET vm_state = 'error' WHERE id = $1", id)
			c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).fails(403, "forbidden", q.refused)
			c.exec("UPDATE servers SET deleted_at = now() WHERE id = $1", id)
			c.create(nil)
		})
	}
}

// H7: as many as fit, if they are as many as the least.
func TestH7AsManyAsFit(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, only(5, compute.Unlimited))
	c.create(nil)
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": 5, "max_count": 9}), at("2.90")).
		fails(403, "forbidden", "Quota exceeded for instances: Requested 5-9, but already used 1 of 5 instances")
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": 2, "max_count": 9}), at("2.90")).ok(202)
	require.Equal(t, 5, c.count("SELECT count(*) FROM servers"))
	require.Equal(t, 4, c.count("SELECT count(*) FROM servers WHERE name LIKE 'one-_'"))
}

// H7: a rescue takes a disk of the image's size, for as long as it lasts; of many at once
// only those pass for which there is room.
func TestH7RescueCountsItsDisk(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, only(compute.Unlimited, 12))
	first, second := c.active(), c.active() // 4 GiB each
	large := c.addImage(func(img *compute.Image) { img.VirtualBytes = 3 << 30 })
	body := fmt.Sprintf(`{"rescue":{"rescue_image_ref":"%s"}}`, large)
	c.lingering()
	codes := make(chan int, 2)
	for _, id := range []string{first, second} {
		go func() { codes <- c.act(t, member, id, body, at("2.90")).code }()
	}
	require.ElementsMatch(t, []int{200, 403}, []int{<-codes, <-codes})
	rescued := c.text("SELECT id::text FROM servers WHERE task_state = 'rescuing'")
	other := first
	if rescued == first {
		other = second
	}
	refused := "Quota exceeded for disk: Requested 3, but already used 11 of 12 disk"
	c.act(t, member, other, body, at("2.90")).fails(403, "forbidden", refused)
	c.settle(rescued, compute.VMRescued, compute.TaskNone)
	c.act(t, member, other, body, at("2.90")).fails(403, "forbidden", refused)
	c.settle(rescued, compute.VMActive, compute.TaskNone) // unrescued, or the rescue failed
	c.act(t, member, other, body, at("2.90")).ok(200)
}

// H7: a rebuild counts what it takes more: the root disk of a flavor without a size is as
// large as its image.
func TestH7RebuildCountsWhatItTakesMore(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, only(compute.Unlimited, 6))
	c.exec("UPDATE flavors SET root_gb = 0, ephemeral_gb = 0, swap_mb = 0")
	id := c.active() // 1 GiB
	image := func(gb int64) string {
		return fmt.Sprintf(`{"rebuild":{"imageRef":"%s"}}`, c.addImage(func(img *compute.Image) { img.VirtualBytes = gb << 30 }))
	}
	c.act(t, member, id, image(7), at("2.90")).fails(403, "forbidden", "Quota exceeded for disk: Requested 6, but already used 1 of 6 disk")
	c.act(t, member, id, image(6), at("2.90")).ok(202)
	c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).ok(403)
	c.settle(id, compute.VMActive, compute.TaskNone) // it failed
	c.create(nil)
	c.act(t, member, id, image(1), at("2.90")).ok(202)
}

// The columns that are summed say what the rules say.
func TestH7ColumnsSayWhatAServerHolds(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for i, f := range []compute.Flavor{
		{VCPUs: 3, MemoryMB: 777, RootGB: 5}, {RootGB: 1, EphemeralGB: 7, SwapMB: 1}, {SwapMB: 1024}, {SwapMB: 1025}, {EphemeralGB: 1}, {},
	} {
		for j, img := range []compute.Image{
			{}, {SizeBytes: 1}, {VirtualBytes: 1 << 30}, {VirtualBytes: 1<<30 + 1, SizeBytes: 5},
			{Properties: map[string]string{"os_decrypt_size": "10737418241"}}, {SizeBytes: 5, Properties: map[string]string{"os_decrypt_size": "-1"}},
			{Properties: map[string]string{"os_decrypt_size": "99999999999999999999999999"}}, {Properties: map[string]string{"os_decrypt_size": "+1099511627776"}},
			{Properties: map[string]string{"os_decrypt_size": "00000001099511627776"}},
		} {
			name := fmt.Sprintf("%d-%d", i, j)
			c.exec(`INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, image)
				VALUES (gen_random_uuid(), 'p', 'u', $1, $1, 'r', 'active', $2, $3)`, name, f, img)
			got := compute.Use{Instances: 1}
			require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT vcpus, memory_mb, disk_gb FROM servers WHERE name = $1", name).
				Scan(&got.Cores, &got.MemoryMB, &got.DiskGB))
			require.Equal(t, compute.UseOf(f, img), got, name)
		}
	}
}

// A project of many servers costs a walk through an index, not through their rows.
func TestH7TheSumReadsAnIndexAlone(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	var plan []string
	require.NoError(t, pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		// The database is empty: only what the plan can be shows, not what it would be; each index on
		// servers would do.
		if _, err := tx.Exec(t.Context(), "DROP INDEX servers_project, servers_project_name, servers_age, servers_name"); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = off"); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), "EXPLAIN SELECT count(*), sum(vcpus), sum(memory_mb), sum(disk_gb) FROM servers WHERE project_id = 'p' AND deleted_at IS NULL")
		if err != nil {
			return err
		}
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}))
	require.Contains(t, strings.Join(plan, "\n"), "Index Only Scan using servers_use")
}
