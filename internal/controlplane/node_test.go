package controlplane

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/request"
)

// byName is like byHeader, but adds the group of nodes to users who have the name of a node.
type byName struct{ byHeader }

func (b byName) Authenticate(r *http.Request) (*request.Authentication, error) {
	found, err := b.byHeader.Authenticate(r)
	if strings.HasPrefix(found.User.Name, request.NodePrefix) {
		found.User.Groups = append(found.User.Groups, request.GroupNodes)
	}
	return found, err
}

// TestNodeInEffect checks that a node can read an object that a pod references as soon as the
// binding of the pod to the node has returned, and until the deletion of the pod returns.
func TestNodeInEffect(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Identity.Authenticator = byName{}
	c := newPlane(t, env, "/node")
	const secrets = "/api/v1/namespaces/default/secrets"
	pod := func(node string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":%q,"automountServiceAccountToken":false,
			"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"s","secret":{"secretName":"s"}}]}}`, node)
	}
	const none = `no relationship found between node 'n1' and this object`
	as(t, c, "admin", "POST", secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, 201, "")
	as(t, c, "system:node:n1", "GET", secrets+"/s", "", 403, none)
	for range 10 {
		as(t, c, "admin", "POST", pods, pod(""), 201, "")
		as(t, c, "system:node:n1", "GET", secrets+"/s", "", 403, none)
		as(t, c, "admin", "POST", pods+"/p/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`, 201, "")
		as(t, c, "system:node:n1", "GET", secrets+"/s", "", 200, "")
		as(t, c, "system:node:n1", "GET", secrets+"?fieldSelector=metadata.name%3Ds", "", 200, "")
		as(t, c, "system:node:n1", "GET", secrets, "", 403, "No Object name found")
		as(t, c, "system:node:n2", "GET", secrets+"/s", "", 403, "")
		as(t, c, "system:node:n1", "DELETE", pods+"/p?gracePeriodSeconds=0", "", 200, "")
		as(t, c, "system:node:n1", "GET", secrets+"/s", "", 403, none)
	}
	as(t, c, "system:node:n1", "GET", "/api/v1/services", "", 200, "") // a rule for all nodes
	as(t, c, "system:node:n1", "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
		`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"default"}}`, 201, `"evaluationError":"node authorizer does not support user rule resolution"`)
}
