package controlplane

import (
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestUnsafeDeletionNeedsItsVerb checks that the deletion of unreadable objects requires a separate
// permission.
func TestUnsafeDeletionNeedsItsVerb(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Identity.Authenticator = byHeader{}
	c := newPlane(t, env, "/rbac")
	const (
		secrets = "/api/v1/namespaces/default/secrets"
		unsafe  = `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	)
	as(t, c, "admin", "GET", secrets, "", 200, "")
	if _, err := env.Storage.Backend.Commit(t.Context(),
		kv.Op{Key: "/rbac/secrets/default/encrypted", Value: []byte("k8s:enc:aescbc:v1:lost:0123456789abcdef")},
		kv.Op{Key: "/rbac/secrets/default/garbage", Value: []byte("k8s\x00\xff\xff\xff")},
	); err != nil {
		t.Fatal(err)
	}
	as(t, c, "admin", "POST", roles, roleBody("deleter", `{"apiGroups":[""],"resources":["secrets"],"verbs":["delete"]}`), 201, "")
	as(t, c, "admin", "POST", roles, roleBody("breaker", `{"apiGroups":[""],"resources":["secrets"],"verbs":["delete","unsafe-delete-ignore-read-errors"]}`), 201, "")
	as(t, c, "admin", "POST", bindings, bindingBody("jane", "Role", "deleter", "jane"), 201, "")
	as(t, c, "admin", "POST", bindings, bindingBody("joe", "Role", "breaker", "joe"), 201, "")

	as(t, c, "nobody", "DELETE", secrets+"/encrypted", unsafe, 403, "")
	as(t, c, "jane", "DELETE", secrets+"/encrypted", unsafe, 403, `secrets \"encrypted\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: `)
	as(t, c, "jane", "DELETE", secrets+"/encrypted", "", 500, "identity transformer tried to read encrypted data")
	for _, name := range []string{"encrypted", "garbage"} {
		as(t, c, "joe", "DELETE", secrets+"/"+name, unsafe, 200, `"status":"Success"`)
		as(t, c, "joe", "DELETE", secrets+"/"+name, unsafe, 404, "")
	}
	as(t, c, "admin", "GET", secrets, "", 200, `"items":[]`)
}
