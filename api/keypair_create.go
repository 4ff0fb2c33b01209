package api

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/keypair"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

var keypairCreate = validation.Since(func(v microversion.Version) validation.Schema {
	format := "keypair_name_20"
	required := []string{"name"}
	if v >= 92 {
		format = "keypair_name_292"
		required = []string{"name", "public_key"}
	}
	p := validation.Properties{
		"name": {"allOf": []validation.Schema{
			validation.Name, {"type": "string", "minLength": 1, "maxLength": 255, "format": format},
		}},
		"public_key": validation.Text,
	}
	if v >= 2 {
		p["type"] = validation.Enum(keypair.SSH, keypair.X509)
	}
	if v >= 10 {
		p["user_id"] = validation.Text
	}
	return validation.Object([]string{"keypair"}, validation.Properties{"keypair": validation.Object(required, p)})
}, 1, 2, 10, 92)

// createKeypair imports a public key or makes a pair. A private key that is made
// here is in the answer and nowhere else.
func (a *API) createKeypair(r *Request) (any, error) {
	var body struct {
		Keypair struct {
			Name      string  `json:"name"`
			Type      string  `json:"type"`
			PublicKey *string `json:"public_key"`
			UserID    string  `json:"user_id"`
		} `json:"keypair"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := body.Keypair
	user, err := keypairUser(r, "create", in.UserID)
	if err != nil {
		return nil, err
	}
	if in.Type == "" {
		in.Type = keypair.SSH
	}
	quota, err := a.quotaOf(r.Context(), r.ProjectID())
	if err != nil {
		return nil, err
	}
	var pair keypair.Pair
	if in.PublicKey != nil {
		pair, err = keypair.Import(in.Type, *in.PublicKey)
	} else if err = countKeypairs(r.Context(), a.db, quota.Quota, user); err == nil { // before it takes its time
		pair, err = a.generateKeypair(r, in.Type)
	}
	if err != nil {
		return nil, err
	}
	var k schema.Keypair
	err = a.transact(r.Context(), func(q *schema.Queries) (err error) {
		if err := checkKeypairQuota(r.Context(), q, quota.Quota, user); err != nil {
			return err
		}
		k, err = q.InsertKeypair(r.Context(), schema.InsertKeypairParams{
			UserID: user, Name: in.Name, Type: in.Type, PublicKey: pair.Public, Fingerprint: pair.Fingerprint,
		})
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Conflict("Key pair '%s' already exists.", in.Name)
	}
	if err != nil {
		return nil, err
	}
	view := viewKeypair(r, k)
	view["user_id"] = k.UserID
	if pair.Private != "" {
		view["private_key"] = pair.Private
	}
	return map[string]any{"keypair": view}, nil
}

// checkKeypairQuota asks the quota of a user (S10), whose lock is held until the transaction ends.
func checkKeypairQuota(ctx context.Context, q *schema.Queries, quota compute.Quota, user string) error {
	if quota.KeyPairs < 0 {
		return nil
	}
	if err := lockQuota(ctx, q, "key pairs of "+user); err != nil {
		return err
	}
	return countKeypairs(ctx, q, quota, user)
}

// countKeypairs refuses a further key pair of a user who has all that he may.
func countKeypairs(ctx context.Context, q *schema.Queries, quota compute.Quota, user string) error {
	if quota.KeyPairs < 0 {
		return nil
	}
	n, err := q.CountKeypairs(ctx, user)
	if err == nil && n >= quota.KeyPairs {
		err = fault.Forbidden("Quota exceeded, too many key pairs.")
	}
	return err
}

// generateKeypair makes one pair at a time of a project, for it takes a while.
func (a *API) generateKeypair(r *Request, kind string) (keypair.Pair, error) {
	done, err := a.keyTurns.take(r.Context(), r.ProjectID())
	if err != nil {
		return keypair.Pair{}, err
	}
	defer done()
	return keypair.Generate(kind)
}
