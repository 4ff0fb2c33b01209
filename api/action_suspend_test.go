package api_test

import (
	"testing"

	"strongroom/compute"
)

// A server with something encrypted is suspended on a host that encrypts the memory of its guest, too, and nowhere else.
func TestSuspendOfAnEncryptedServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'luks', encryption_secret_uuid = gen_random_uuid() WHERE server_id = $1`, id)
	path := "/servers/" + id + "/action"
	c.do(t, member, "POST", path, `{"suspend": null}`).fails(409, "conflictingRequest",
		"Cannot 'suspend' instance "+id+": it has encrypted disks, and the memory of its guest would lie in clear on the host's disk. Pause it, shut it down or shelve it.")
	c.exec(`UPDATE hosts SET traits = traits || $1`, []string{compute.TraitEncryptedMemory})
	c.do(t, member, "POST", path, `{"suspend": null}`).ok(202)
}
