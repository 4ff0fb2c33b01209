package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
)

// TPM-27, EE-25: a host gets the image that keeps a disk of a shelved server with the credential
// for what is the owner's, whoever asked; with no other, and no image of another server.
func TestAHostGetsWhatKeepsAShelvedServer(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	h := c.enrolled("a")
	op := h.server()
	kept, _ := c.image(owner)
	foreign, _ := c.image(owner)
	c.Exec("UPDATE server_disks SET shelved = jsonb_build_object('image', $2::text) WHERE server_id = $1", op.ServerID, kept)
	images := gateway.HostImages{Client: h.client}
	read := func(cred compute.Credential, id compute.ImageID) error {
		return as(t, "server/"+op.ServerID.String(), func(ctx context.Context) error {
			from, err := images.Open(ctx, cred, id)
			if err != nil {
				return err
			}
			defer from.Close()
			_, err = io.Copy(io.Discard, from)
			return err
		})
	}
	require.NoError(t, read(owner, kept))
	require.Equal(t, compute.Forbidden, compute.KindOf(read(owner, foreign)))
	member := compute.MemberCredential(owner.ProjectID)
	require.Equal(t, compute.Forbidden, compute.KindOf(read(member, kept)), "the owner asked himself")

	c.Exec("UPDATE operations SET project_id = 'p2' WHERE id = $1", op.ID)
	require.NoError(t, read(member, kept), "an administrator of another project asked")
	require.Equal(t, compute.Forbidden, compute.KindOf(read(member, foreign)))
	require.Equal(t, compute.Forbidden, compute.KindOf(read(compute.DeploymentCredential(), kept)))
}

// TPM-19: a revert reads the key of a vTPM that the resize took away, and no other operation does.
func TestAHostGetsTheKeyThatARevertBringsBack(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	h := c.enrolled("a")
	op := h.server()
	key := c.stray(owner)
	former, err := json.Marshal(compute.Former{
		Operation: "req-resize", Host: h.id, VMState: compute.VMActive,
		TPM: &compute.TPM{Version: compute.TPM20, Model: compute.TPMTIS, Security: compute.SecurityUser, Secret: &key},
	})
	require.NoError(t, err)
	c.Exec("UPDATE servers SET vm_state = 'resized', former = $2 WHERE id = $1", op.ServerID, former)
	for kind, allowed := range map[compute.OperationKind]bool{compute.OpRevertResize: true, compute.OpConfirmResize: false, compute.OpStart: false} {
		c.Exec("UPDATE operations SET kind = $2 WHERE id = $1", op.ID, kind)
		_, err := h.read(op.ServerID, owner, key)
		require.Equal(t, allowed, err == nil, "%s: %v", kind, err)
		if !allowed {
			require.Equal(t, compute.Forbidden, compute.KindOf(err))
		}
	}
}
