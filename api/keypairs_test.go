package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"strongroom/compute"
)

const (
	publicKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnqzgiTeUGJ0WCkRUoTr8v5qw4S0nXF3q9q9rS9H1XQ me@here"
	badKeyName  = "An invalid 'name' value was provided. The name must be: Only expected characters: [_- 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ]"
	badKeyName2 = "An invalid 'name' value was provided. The name must be: Only expected characters: [@._- 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ]"
)

func TestKeypairOfEachVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := func(name string) string {
		return `{"keypair":{"name":"` + name + `","public_key":"` + publicKey + `"}}`
	}
	require.ElementsMatch(t, []string{"name", "public_key", "fingerprint", "user_id"},
		b.do(t, reader, "POST", "/os-keypairs", body("a")).ok(200).keys("keypair"))
	require.ElementsMatch(t, []string{"name", "public_key", "fingerprint", "user_id", "type"},
		b.do(t, reader, "POST", "/os-keypairs", body("b"), at("2.2")).ok(201).keys("keypair"))
	b.do(t, reader, "POST", "/os-keypairs", body("c@d.e"), at("2.92")).ok(201)

	shown := []string{"name", "public_key", "fingerprint", "user_id", "id", "created_at", "updated_at", "deleted", "deleted_at"}
	require.ElementsMatch(t, shown, b.do(t, reader, "GET", "/os-keypairs/a", "").keys("keypair"))
	require.ElementsMatch(t, append(shown, "type"), b.do(t, reader, "GET", "/os-keypairs/a", "", at("2.2")).keys("keypair"))
	a := b.do(t, reader, "GET", "/os-keypairs/c@d.e", "", at("2.97")).ok(200)
	require.Equal(t, publicKey, a.get("keypair", "public_key"))
	require.Equal(t, "ssh", a.get("keypair", "type"))
	require.Equal(t, "user-reader", a.get("keypair", "user_id"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$`, a.get("keypair", "created_at"))
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	require.NoError(t, err)
	require.Equal(t, ssh.FingerprintLegacyMD5(key), a.get("keypair", "fingerprint"))

	require.ElementsMatch(t, []string{"name", "public_key", "fingerprint"}, b.do(t, reader, "GET", "/os-keypairs", "").keys("keypairs", 0, "keypair"))
	require.ElementsMatch(t, []string{"name", "public_key", "fingerprint", "type"},
		b.do(t, reader, "GET", "/os-keypairs", "", at("2.2")).keys("keypairs", 0, "keypair"))

	b.do(t, reader, "DELETE", "/os-keypairs/a", "").is(202, "")
	b.do(t, reader, "DELETE", "/os-keypairs/b", "", at("2.2")).is(204, "")
	b.do(t, reader, "DELETE", "/os-keypairs/a", "").fails(404, "itemNotFound", "Keypair a not found for user user-reader")
	b.do(t, reader, "GET", "/os-keypairs/a", "").fails(404, "itemNotFound", "Keypair a not found for user user-reader")
}

func TestKeypairGenerated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.do(t, member, "POST", "/os-keypairs", `{"keypair":{"name":"made"}}`, at("2.2")).ok(201)
	signer, err := ssh.ParsePrivateKey([]byte(a.get("keypair", "private_key").(string)))
	require.NoError(t, err)
	require.Equal(t, a.get("keypair", "fingerprint"), ssh.FingerprintLegacyMD5(signer.PublicKey()))
	require.NotContains(t, b.do(t, member, "GET", "/os-keypairs/made", "", at("2.2")).keys("keypair"), "private_key")
	var stored string
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT row_to_json(k)::text FROM keypairs k").Scan(&stored))
	require.NotContains(t, stored, "PRIVATE")
	require.NotContains(t, b.log.String(), "PRIVATE")
}

func TestKeypairRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do(t, member, "POST", "/os-keypairs", `{"keypair":{"name":"a","public_key":"`+publicKey+`"}}`).ok(200)
	for _, c := range []struct {
		name, version, body string
		code                int
		key, want           string
	}{
		{"same name", "2.1", `{"keypair":{"name":"a","public_key":"` + publicKey + `"}}`, 409, "conflictingRequest", "Key pair 'a' already exists."},
		{"same name, made", "2.2", `{"keypair":{"name":"a"}}`, 409, "conflictingRequest", "Key pair 'a' already exists."},
		{"no key", "2.1", `{"keypair":{"name":"b","public_key":"nonsense"}}`, 400, "badRequest", "Keypair data is invalid: failed to generate fingerprint"},
		{"K21: a blank before the key", "2.2", `{"keypair":{"name":"b","public_key":" ` + publicKey + `"}}`, 400, "badRequest",
			"Keypair data is invalid: failed to generate fingerprint"},
		{"no name", "2.1", `{"keypair":{}}`, 400, "badRequest", "Invalid input for field/attribute keypair. Value: {}. 'name' is a required property"},
		{"unsafe name", "2.91", `{"keypair":{"name":"a@b"}}`, 400, "badRequest", badKeyName},
		{"unsafe name, later", "2.92", `{"keypair":{"name":"a!","public_key":"x"}}`, 400, "badRequest", badKeyName2},
		{"empty name", "2.1", `{"keypair":{"name":""}}`, 400, "badRequest", "Invalid input for field/attribute name. Value: . '' is too short"},
		{"type too early", "2.1", `{"keypair":{"name":"b","type":"ssh"}}`, 400, "badRequest",
			"Invalid input for field/attribute keypair. Value: {'name': 'b', 'type': 'ssh'}. Additional properties are not allowed ('type' was unexpected)"},
		{"unknown type", "2.2", `{"keypair":{"name":"b","type":"dsa"}}`, 400, "badRequest",
			"Invalid input for field/attribute type. Value: dsa. 'dsa' is not one of ['ssh', 'x509']"},
		{"no generation", "2.92", `{"keypair":{"name":"b"}}`, 400, "badRequest",
			"Invalid input for field/attribute keypair. Value: {'name': 'b'}. 'public_key' is a required property"},
		{"certificates are not made", "2.2", `{"keypair":{"name":"b","type":"x509"}}`, 400, "badRequest",
			"Keypair data is invalid: a key pair of type x509 must be imported"},
		{"for another user", "2.10", `{"keypair":{"name":"b","user_id":"user-admin"}}`, 403, "forbidden",
			"Policy doesn't allow os_compute_api:os-keypairs:create to be performed."},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.do(t, member, "POST", "/os-keypairs", c.body, at(c.version)).fails(c.code, c.key, c.want)
		})
	}
	require.Len(t, b.do(t, member, "GET", "/os-keypairs", "").get("keypairs"), 1, "nothing was left")
}

// S10: a user has no more key pairs than the quota says, however many requests come at once.
func TestS10AUserHasSoManyKeyPairs(t *testing.T) {
	t.Parallel()
	b := setup(t, quotas(compute.Quota{KeyPairs: 3}))
	create := func(as who, name string) answer {
		return b.do(t, as, "POST", "/os-keypairs", `{"keypair":{"name":"`+name+`","public_key":"`+publicKey+`"}}`)
	}
	codes := make(chan int, 12)
	for i := range cap(codes) {
		go func() { codes <- create(member, fmt.Sprintf("k%d", i)).code }()
	}
	made := 0
	for range cap(codes) {
		switch code := <-codes; code {
		case 200:
			made++
		default:
			require.Contains(t, []int{403, 503}, code)
		}
	}
	for ; made < 3; made++ { // others may have waited in vain
		create(member, fmt.Sprintf("more%d", made)).ok(200)
	}
	create(member, "beyond").fails(403, "forbidden", "Quota exceeded, too many key pairs.")
	keys := b.do(t, member, "GET", "/os-keypairs", "").get("keypairs").([]any)
	require.Len(t, keys, 3)
	create(reader, "his").ok(200)
	one := keys[0].(map[string]any)["keypair"].(map[string]any)["name"].(string)
	b.do(t, member, "DELETE", "/os-keypairs/"+one, "").ok(202)
	create(member, "again").ok(200)
}

func TestKeypairsOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"keypair":{"name":"mine","public_key":"` + publicKey + `"}}`
	b.do(t, member, "POST", "/os-keypairs", body).ok(200)
	b.do(t, reader, "GET", "/os-keypairs/mine", "").ok(404)
	b.do(t, admin, "GET", "/os-keypairs/mine", "").ok(404)

	b.do(t, reader, "GET", "/os-keypairs/mine?user_id=user-member", "", at("2.10")).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-keypairs:show to be performed.")
	b.do(t, reader, "GET", "/os-keypairs?user_id=user-member", "", at("2.10")).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-keypairs:index to be performed.")
	b.do(t, reader, "DELETE", "/os-keypairs/mine?user_id=user-member", "", at("2.10")).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-keypairs:delete to be performed.")
	require.Empty(t, b.do(t, reader, "GET", "/os-keypairs?user_id=user-member", "", at("2.9")).get("keypairs"), "the filter came with 2.10")

	b.do(t, admin, "GET", "/os-keypairs/mine?user_id=user-member", "", at("2.10")).ok(200)
	b.do(t, admin, "POST", "/os-keypairs", `{"keypair":{"name":"given","public_key":"`+publicKey+`","user_id":"user-member"}}`, at("2.10")).ok(201)
	require.Len(t, b.do(t, admin, "GET", "/os-keypairs?user_id=user-member", "", at("2.10")).get("keypairs"), 2)
	b.do(t, admin, "DELETE", "/os-keypairs/given?user_id=user-member", "", at("2.10")).is(204, "")
	b.do(t, unscoped, "GET", "/os-keypairs", "").ok(403)
}

func TestKeypairPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{"a", "b", "c"} {
		b.do(t, member, "POST", "/os-keypairs", `{"keypair":{"name":"`+name+`","public_key":"`+publicKey+`"}}`).ok(200)
	}
	names := func(query, version string) []string {
		found := []string{}
		for _, item := range b.do(t, member, "GET", "/os-keypairs"+query, "", at(version)).ok(200).get("keypairs").([]any) {
			found = append(found, item.(map[string]any)["keypair"].(map[string]any)["name"].(string))
		}
		return found
	}
	require.Equal(t, []string{"a", "b", "c"}, names("?limit=1", "2.34"))
	require.Equal(t, []string{"a", "b"}, names("?limit=2", "2.35"))
	require.Equal(t, []string{"c"}, names("?limit=2&marker=b", "2.35"))
	require.Equal(t, []string{}, names("?limit=0", "2.35"))
	first := b.do(t, member, "GET", "/os-keypairs?limit=2", "", at("2.35"))
	require.Equal(t, "http://cloud.example:8774/v2.1/os-keypairs?limit=2&marker=b", first.get("keypairs_links", 0, "href"))
	b.do(t, member, "GET", "/os-keypairs?marker=x", "", at("2.35")).fails(400, "badRequest", "marker [x] not found")
	b.do(t, member, "GET", "/os-keypairs?limit=-1", "", at("2.35")).
		fails(400, "badRequest", "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'")
	b.do(t, member, "GET", "/os-keypairs?x=1", "", at("2.75")).fails(400, "badRequest", "Additional properties are not allowed ('x' was unexpected)")
}
