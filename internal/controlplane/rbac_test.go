package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/request"
)

// byHeader authenticates requests as the user in the header User. The user admin is a member of
// system:masters.
type byHeader struct{}

func (byHeader) Authenticate(r *http.Request) (*request.Authentication, error) {
	user := &request.User{Name: r.Header.Get("User"), Groups: []string{request.GroupAuthenticated}}
	if user.Name == "admin" {
		user.Groups = append(user.Groups, request.GroupMasters)
	}
	return &request.Authentication{User: user}, nil
}

// as sends a request as a user. It reports an error unless the response has the given code and its
// body contains text.
func as(t *testing.T, c *ControlPlane, user, method, path, body string, code int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	if w.Code != code || !strings.Contains(w.Body.String(), text) {
		t.Errorf("%s: %s %s: %d %s\nwant %d with %s", user, method, path, w.Code, w.Body, code, text)
	}
}

func newRBACPlane(t *testing.T) *ControlPlane {
	t.Helper()
	env := newEnv(t)
	env.Identity.Authenticator = byHeader{}
	return newPlane(t, env, "/rbac")
}

const (
	roles    = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
	pods     = "/api/v1/namespaces/default/pods"
)

func roleBody(name, rules string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},"rules":[%s]}`, name, rules)
}

func bindingBody(name, kind, role, user string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":%q},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},"subjects":[{"kind":"User","name":%q}]}`, name, kind, role, user)
}

const mayReadPods = `{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}`

// TestRBACInEffect checks that a write of a role or binding has taken effect by the time it
// returns.
func TestRBACInEffect(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	as(t, c, "jane", "GET", pods, "", 403, `User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"`)
	as(t, c, "jane", "GET", "/api", "", 200, "") // system:discovery
	as(t, c, "jane", "GET", "/metrics", "", 403, "")
	for range 20 {
		as(t, c, "admin", "POST", roles, roleBody("reader", mayReadPods), 201, "")
		as(t, c, "admin", "POST", bindings, bindingBody("jane", "Role", "reader", "jane"), 201, "")
		as(t, c, "jane", "GET", pods, "", 200, "")
		as(t, c, "jane", "GET", "/api/v1/pods", "", 403, "")
		as(t, c, "admin", "PUT", roles+"/reader", roleBody("reader", ""), 200, "")
		as(t, c, "jane", "GET", pods, "", 403, "")
		as(t, c, "admin", "PUT", roles+"/reader", roleBody("reader", mayReadPods), 200, "")
		as(t, c, "jane", "GET", pods, "", 200, "")
		as(t, c, "admin", "DELETE", bindings+"/jane", "", 200, "")
		as(t, c, "jane", "GET", pods, "", 403, "")
		as(t, c, "admin", "POST", bindings, bindingBody("jane", "Role", "reader", "jane"), 201, "")
		as(t, c, "admin", "DELETE", roles+"/reader", "", 200, "")
		as(t, c, "jane", "GET", pods, "", 403, `RBAC: role.rbac.authorization.k8s.io \"reader\" not found`)
		as(t, c, "admin", "DELETE", bindings+"/jane", "", 200, "")
	}
}

// TestEscalation checks that users cannot grant permissions that they do not have.
func TestEscalation(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	writes := `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles","rolebindings"],"verbs":["create","update","patch","get"]}`
	as(t, c, "admin", "POST", roles, roleBody("writer", writes+","+mayReadPods), 201, "")
	as(t, c, "admin", "POST", bindings, bindingBody("esc", "Role", "writer", "esc"), 201, "")

	as(t, c, "esc", "POST", roles, roleBody("ok", mayReadPods), 201, "")
	secrets := `{"apiGroups":[""],"resources":["secrets","pods"],"verbs":["get"]}`
	as(t, c, "esc", "POST", roles, roleBody("more", secrets), 403,
		`roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"esc\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"`)
	as(t, c, "esc", "PUT", roles+"/ok", roleBody("ok", secrets), 403, "not currently held")
	as(t, c, "esc", "POST", roles+"?dryRun=All", roleBody("more", secrets), 403, "not currently held")
	as(t, c, "esc", "PATCH", roles+"/ok", `{"metadata":{"labels":{"a":"b"}}}`, 200, "")
	as(t, c, "admin", "PUT", roles+"/ok", roleBody("ok", secrets), 200, "")
	as(t, c, "esc", "PATCH", roles+"/ok", `{"metadata":{"labels":{"a":"c"}}}`, 403, "not currently held")
	as(t, c, "esc", "PATCH", roles+"/ok", `{"metadata":{"finalizers":["a.example.com/b"]}}`, 200, "") // as the garbage collector does
	as(t, c, "esc", "PATCH", roles+"/ok", `{"metadata":{"finalizers":null}}`, 200, "")
	as(t, c, "admin", "POST", bindings, bindingBody("given", "Role", "ok", "pal"), 201, "")
	as(t, c, "esc", "PATCH", bindings+"/given", `{"metadata":{"labels":{"a":"c"}}}`, 403, "not currently held")
	as(t, c, "esc", "PATCH", bindings+"/given", `{"metadata":{"finalizers":["a.example.com/b"]}}`, 200, "")
	as(t, c, "esc", "POST", bindings, bindingBody("pal", "Role", "ok", "pal"), 403, "not currently held")
	as(t, c, "esc", "POST", bindings, bindingBody("pal", "ClusterRole", "cluster-admin", "pal"), 403, `{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}`)
	as(t, c, "esc", "POST", bindings, bindingBody("pal", "Role", "missing", "pal"), 404, `roles.rbac.authorization.k8s.io \"missing\" not found`)
	as(t, c, "esc", "POST", bindings, bindingBody("self", "Role", "writer", "pal"), 201, "")

	as(t, c, "admin", "POST", roles, roleBody("lent", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"resourceNames":["edit"],"verbs":["bind"]},
		{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["escalate"]}`), 201, "")
	as(t, c, "admin", "POST", bindings, bindingBody("lent", "Role", "lent", "esc"), 201, "")
	as(t, c, "esc", "POST", bindings, bindingBody("edit", "ClusterRole", "edit", "pal"), 201, "")
	as(t, c, "esc", "POST", bindings, bindingBody("admin", "ClusterRole", "admin", "pal"), 403, "not currently held")
	as(t, c, "esc", "POST", roles, roleBody("more", secrets), 201, "")
}

// TestEscalationByLabel checks that users cannot label a role to add permissions that they do not
// have to an aggregated role. They cannot label a binding that grants such permissions either.
func TestEscalationByLabel(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	const group = "/apis/rbac.authorization.k8s.io/v1/"
	as(t, c, "admin", "POST", group+"clusterroles", `{"metadata":{"name":"editor"},"rules":[
		{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles","clusterrolebindings"],"verbs":["get","list","update","patch"]}]}`, 201, "")
	as(t, c, "admin", "POST", group+"clusterrolebindings",
		`{"metadata":{"name":"esc"},"roleRef":{"kind":"ClusterRole","name":"editor"},"subjects":[{"kind":"User","name":"esc"}]}`, 201, "")
	label := `{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}}`
	as(t, c, "esc", "PATCH", group+"clusterroles/cluster-admin", label, 403, "not currently held")
	as(t, c, "esc", "PATCH", group+"clusterroles/admin", label, 403, "must have cluster-admin privileges to use the aggregationRule")
	as(t, c, "esc", "PATCH", group+"clusterrolebindings/cluster-admin", label, 403, "not currently held")
	as(t, c, "esc", "PATCH", group+"clusterroles/editor", label, 200, "")
	as(t, c, "admin", "PATCH", group+"clusterroles/cluster-admin", label, 200, "")
}

// TestRulesReview checks that users can review their own permissions.
func TestRulesReview(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	as(t, c, "admin", "POST", roles, roleBody("reader", mayReadPods), 201, "")
	as(t, c, "admin", "POST", bindings, bindingBody("jane", "Role", "reader", "jane"), 201, "")
	const reviews = "/apis/authorization.k8s.io/v1/"
	asked := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"default"}}`
	as(t, c, "jane", "POST", reviews+"selfsubjectrulesreviews", asked, 201, `{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}`)
	may := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"namespace":"default","verb":"list","resource":"pods"}}}`
	as(t, c, "jane", "POST", reviews+"selfsubjectaccessreviews", may, 201, `"allowed":true,"reason":"RBAC: allowed by RoleBinding \"jane/default\" of Role \"reader\" to User \"jane\""`)
}

// TestAggregatedRoles checks that an aggregated role has the rules of all roles that it selects
// directly or indirectly, even after these roles change.
func TestAggregatedRoles(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := c.Open(ctx); err != nil {
		t.Fatal(err)
	}
	as(t, c, "admin", "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin", "", 200, `"pods/attach"`) // inherited from system:aggregate-to-edit
	as(t, c, "admin", "POST", bindings, bindingBody("jane", "ClusterRole", "admin", "jane"), 201, "")
	const things = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	may := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"namespace":"default","verb":"list","group":"example.com","resource":"things"}}}`
	as(t, c, "jane", "POST", things, may, 201, `"allowed":false`)
	const clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	viewer := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"things","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},
		"rules":[{"apiGroups":["example.com"],"resources":["things"],"verbs":["list"]}]}`
	as(t, c, "admin", "POST", clusterRoles, viewer, 201, "")
	awaitRight(t, c, may, true)
	as(t, c, "admin", "DELETE", clusterRoles+"/things", "", 200, "")
	awaitRight(t, c, may, false)
}

// awaitRight waits until jane's access review has the given result.
func awaitRight(t *testing.T, c *ControlPlane, review string, allowed bool) {
	t.Helper()
	for {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", strings.NewReader(review))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User", "jane")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), fmt.Sprintf(`"allowed":%t`, allowed)) {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the access review does not have the expected result")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
