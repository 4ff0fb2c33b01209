package volume_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// keys checks that an object has these keys and no others.
func keys(t *testing.T, object map[string]any, want ...string) {
	t.Helper()
	var got []string
	for key := range object {
		got = append(got, key)
	}
	require.ElementsMatch(t, want, got)
}

// P1, P2, P3: what a create and an update answer has fewer keys than a show, and strict
// clients refuse others.
func TestP1CreateAnswersNoQosSpecs(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	made := b.do(admin, "POST", "/types", `{"volume_type":{"name":"one"}}`).thing("volume_type")
	common := []string{"id", "name", "description", "is_public", "extra_specs"}
	keys(t, made, append(common, "os-volume-type-access:is_public")...)
	shown := b.do(admin, "GET", "/types/"+made["id"].(string), "").thing("volume_type")
	keys(t, shown, append(common, "os-volume-type-access:is_public", "qos_specs_id")...)
	require.Nil(t, shown["qos_specs_id"])
	listed, _ := b.do(admin, "GET", "/types", "").types()
	require.Equal(t, shown, listed["one"])
}

func TestP2UpdateAnswersNeitherQosSpecsNorAccess(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	path := "/types/" + b.create("one", "")
	updated := b.do(admin, "PUT", path, `{"volume_type":{"name":"uno"}}`).thing("volume_type")
	keys(t, updated, "id", "name", "description", "is_public", "extra_specs")
	require.Equal(t, "uno", updated["name"])
}

func TestP3UpdateOfEncryptionAnswersWhatWasSent(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	path := "/types/" + b.create("one", "") + "/encryption"
	crypt := b.do(admin, "POST", path, `{"encryption":{"provider":"luks","control_location":"front-end"}}`).thing("encryption")["encryption_id"].(string)
	for _, sent := range []string{`{"encryption":{"key_size":512}}`, `{"encryption":{"key_size":"256","cipher":null}}`} {
		b.do(admin, "PUT", path+"/"+crypt, sent).is(200, sent)
	}
	b.do(admin, "GET", path+"/key_size", "").is(200, `{"key_size":256}`)
}

// P8: Cinder's own client looks for versions above the endpoint in the catalog, which is not
// where the compute API has its own.
func TestP8CindersClientFindsItsVersions(t *testing.T) {
	t.Parallel()
	cinder, err := exec.LookPath("cinder")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("python3-cinderclient is not installed")
	}
	require.NoError(t, err)
	address, serve := listen(t)
	c := onDevcloud(t, address)
	b := setup(t, c)
	serve(b.api)
	b.create("fast", "")
	run := exec.Command(cinder, "type-list")
	run.Env = append(c.environment(t, member, address), "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "fast")
}

// VT-12: Horizon asks for QoS specs, of which there are none, before it shows types.
func TestVT12ThereAreNoQoSSpecs(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	b.do(admin, "GET", "/qos-specs", "").is(200, `{"qos_specs":[]}`)
	for _, caller := range users {
		b.do(caller, "GET", "/qos-specs", "").denied("qos_specs_manage:get_all")
	}
}

// P17: clients ask for limits and quotas of both APIs at once.
func TestP17LimitsAndQuotasOfVolumes(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	b.createPrivate("private")
	own, other := b.cloud.project(t, member), b.cloud.project(t, stranger)
	for _, caller := range everyone {
		b.do(caller, "GET", "/limits", "").is(200, `{"limits":{"rate":[],"absolute":{
			"maxTotalVolumes":0,"maxTotalVolumeGigabytes":0,"maxTotalSnapshots":0,"maxTotalBackups":0,"maxTotalBackupGigabytes":0,
			"totalVolumesUsed":0,"totalGigabytesUsed":0,"totalSnapshotsUsed":0,"totalBackupsUsed":0,"totalBackupGigabytesUsed":0}}}`)
		const of = `"volumes":0,"snapshots":0,"gigabytes":0,"per_volume_gigabytes":0,"backups":0,"backup_gigabytes":0,"groups":0}}`
		b.do(caller, "GET", "/os-quota-sets/"+own, "").is(200, `{"quota_set":{"id":"`+own+`",`+of)
		b.do(caller, "GET", "/os-quota-sets/"+own+"/defaults", "").is(200, `{"quota_set":{"id":"`+own+`",`+of)
		usage := b.do(caller, "GET", "/os-quota-sets/"+own+"?usage=True", "").thing("quota_set")
		require.Len(t, usage, 8)
		require.Equal(t, map[string]any{"limit": 0.0, "in_use": 0.0, "reserved": 0.0}, usage["volumes"])
	}
	b.do(admin, "GET", "/os-quota-class-sets/default", "").ok(200)
	const none = "There are no volumes, snapshots or backups here: their quotas are 0 and cannot be changed."
	b.do(admin, "PUT", "/os-quota-sets/"+own, `{"quota_set":{"volumes":5}}`).fails(403, "forbidden", none)
	b.do(admin, "DELETE", "/os-quota-sets/"+own, "").fails(403, "forbidden", none)
	b.do(admin, "PUT", "/os-quota-class-sets/default", `{"quota_class_set":{"volumes":5}}`).fails(403, "forbidden", none)
	b.do(admin, "GET", "/os-quota-sets/"+other, "").ok(200)
	b.do(member, "GET", "/os-quota-sets/"+other, "").denied("quotas:show")
	b.do(member, "PUT", "/os-quota-sets/"+own, `{}`).denied("quotas:update")
	b.do(reader, "DELETE", "/os-quota-sets/"+own, "").denied("quotas:delete")
	b.do(reader, "GET", "/os-quota-class-sets/default", "").denied("quota_classes")
}
