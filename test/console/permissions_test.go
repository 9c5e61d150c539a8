package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

const rbacAPI = "/apis/rbac.authorization.k8s.io/v1/"

// rbacTable is the content of console/src/tests/rbac.json.
type rbacTable struct {
	Objects struct {
		ClusterRoles, Roles, ClusterRoleBindings, RoleBindings []json.RawMessage
	}
	Cases []accessCase
}

type accessCase struct {
	User, Verb, Group, Resource, Name, Namespace, Path string
	Groups                                             []string
	Allowed                                            bool
}

// apply creates the objects of the table.
func (table *rbacTable) apply(u *apiUser) {
	u.t.Helper()
	for _, kind := range []struct {
		name    string
		objects []json.RawMessage
	}{
		{"ClusterRole", table.Objects.ClusterRoles}, {"Role", table.Objects.Roles},
		{"ClusterRoleBinding", table.Objects.ClusterRoleBindings}, {"RoleBinding", table.Objects.RoleBindings},
	} {
		for _, raw := range kind.objects {
			var object map[string]any
			if err := json.Unmarshal(raw, &object); err != nil {
				u.t.Fatal(err)
			}
			object["apiVersion"], object["kind"] = "rbac.authorization.k8s.io/v1", kind.name
			if ref, ok := object["roleRef"].(map[string]any); ok {
				ref["apiGroup"] = "rbac.authorization.k8s.io"
			}
			subjects, _ := object["subjects"].([]any)
			for _, subject := range subjects {
				if subject := subject.(map[string]any); subject["kind"] != "ServiceAccount" {
					subject["apiGroup"] = "rbac.authorization.k8s.io"
				}
			}
			metadata := object["metadata"].(map[string]any)
			path := rbacAPI
			if namespace, ok := metadata["namespace"]; ok {
				path += fmt.Sprintf("namespaces/%s/", namespace)
			}
			body, err := json.Marshal(object)
			if err != nil {
				u.t.Fatal(err)
			}
			u.apply(path+strings.ToLower(kind.name)+"s/"+metadata["name"].(string), string(body))
		}
	}
}

// decision reports whether the server allows a request.
func (u *apiUser) decision(c accessCase) bool {
	u.t.Helper()
	spec := map[string]any{"user": c.User, "groups": append(serverGroups(c.User), c.Groups...)}
	if c.Path != "" {
		spec["nonResourceAttributes"] = map[string]string{"verb": c.Verb, "path": c.Path}
	} else {
		resource, subresource, _ := strings.Cut(c.Resource, "/")
		spec["resourceAttributes"] = map[string]string{"verb": c.Verb, "group": c.Group, "resource": resource, "subresource": subresource, "name": c.Name, "namespace": c.Namespace}
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
	if err != nil {
		u.t.Fatal(err)
	}
	var review struct{ Status struct{ Allowed bool } }
	code, response := u.send(http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", string(body))
	if err := json.Unmarshal([]byte(response), &review); code != http.StatusCreated || err != nil {
		u.t.Fatalf("create a SubjectAccessReview: %d %s %v", code, response, err)
	}
	return review.Status.Allowed
}

// serverGroups returns the groups that the server adds to a user.
func serverGroups(user string) []string {
	groups := []string{"system:authenticated"}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	return groups
}

func TestPermissions(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	content, err := os.ReadFile("../../console/src/tests/rbac.json")
	if err != nil {
		t.Fatal(err)
	}
	var table rbacTable
	if err := json.Unmarshal(content, &table); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"console-a", "console-b"} {
		admin.apply("/api/v1/namespaces/"+name, namespace(name))
	}
	table.apply(admin)

	// rbac.test.ts compares the same table with the decisions of the console.
	t.Run("Table", func(t *testing.T) {
		if len(table.Cases) < 30 {
			t.Fatalf("the table has %d cases", len(table.Cases))
		}
		for _, c := range table.Cases {
			if got := admin.decision(c); got != c.Allowed {
				t.Errorf("the server's decision for %+v is %t", c, got)
			}
		}
	})

	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/permissions")

	t.Run("WhoCan", func(t *testing.T) {
		p.in(t)
		p.await("Group console-admins")
		p.fill("Resource", "deployments.apps")
		p.fill("Namespace", "console-a")
		p.await("Group console-developers", "ServiceAccount console-a/deployer", "Group console-admins")
		p.click("Group console-developers can list: show the reason")
		p.await("Reason: Group console-developers list", "RoleBinding workloads", "ClusterRole console-workloads", "get, list, watch on pods, deployments (core, apps)")
		p.screenshot("who-can")
		p.fill("Namespace", "console-b")
		p.awaitMissing("Group console-developers")
		p.fill("Resource", "configmaps")
		p.fill("Namespace", "console-a")
		p.awaitMissing("User jane")
		p.fill("Name", "settings")
		p.await("User jane")
		p.click("User jane can update: show the reason")
		p.await("RoleBinding one-map", "Role one-map", "named settings")
		p.fill("Name", "")
		p.fill("Resource", "pods/log")
		p.await("ServiceAccount console-b/collector")
		p.fill("Resource", "deployments.apps/scale")
		p.await("Group system:serviceaccounts:console-b")
		p.click("Group system:serviceaccounts:console-b can patch: show the reason")
		p.click("RoleBinding scale")
		p.await("RoleBinding / console-a", "scale")
	})

	t.Run("WhatCan", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/permissions?tab=What+can")
		p.await("Groups: ", "system:masters may do everything")
		p.fill("Subject", "jane")
		p.await("Groups: system:authenticated", "nodes")
		p.awaitMissing("jobs.batch")
		p.fill("Namespace", "console-b")
		p.await("jobs.batch")
		p.screenshot("what-can-user")
		p.fill("Subject", "group:console-developers")
		p.await("RBAC does not allow group:console-developers anything in the namespace console-b.")
		p.fill("Namespace", "console-a")
		p.await("deployments.apps", "pods")
		p.awaitMissing("RBAC does not allow")
		p.fill("Subject", "console-a/deployer")
		p.await("deployments.apps", "system:serviceaccounts:console-a")
		p.fill("Subject", "console-b/deployer")
		p.awaitMissing("deployments.apps")
		p.fill("Further groups", "console-developers, other")
		p.await("deployments.apps", "console-developers, other")
	})

	t.Run("Simulation", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/permissions?tab=What+can&subject=bob&namespace=console-a")
		p.await("Groups: system:authenticated")
		p.awaitMissing("deployments.apps")
		p.click("Simulate a binding")
		p.fill("Simulated role", "ClusterRole/console-workloads")
		p.fill("Simulated subject", "bob")
		p.fill("Simulated namespace", "console-b")
		p.await("Nothing is stored.")
		p.awaitMissing("deployments.apps")
		p.fill("Simulated namespace", "console-a")
		p.await("deployments.apps")
		p.screenshot("simulation")
		p.click("Who can")
		p.fill("Resource", "deployments.apps")
		p.click("User bob can create: show the reason")
		p.await("RoleBinding (simulated)", "ClusterRole console-workloads")
		if admin.decision(accessCase{User: "bob", Verb: "create", Group: "apps", Resource: "deployments", Namespace: "console-a"}) {
			t.Error("the simulation has changed the server's decision")
		}
		if _, body := admin.send(http.MethodGet, rbacAPI+"rolebindings", "application/json", ""); strings.Contains(body, "simulated") {
			t.Error("the simulated binding is stored")
		}
		p.click("Remove")
		p.awaitMissing("User bob")
	})

	t.Run("WhyDenied", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/permissions?tab=Why+denied")
		denied := func(user, method, path, body string, groups ...string) string {
			code, response := newAPIUser(t, s.RESTConfig(), user, groups...).send(method, path, "application/json", body)
			var status struct{ Message string }
			if err := json.Unmarshal([]byte(response), &status); code != http.StatusForbidden || err != nil {
				t.Fatalf("%s %s as %s: %d %s, %v; want 403", method, path, user, code, response, err)
			}
			return status.Message
		}
		enter := func(message string) {
			p.fill("Message of the response", message)
		}
		enter(denied("jane", http.MethodDelete, configMapPath("console-a", "settings"), ""))
		p.await("jane (system:authenticated) delete configmaps in console-a", "The server's decision now: denied.", "Rules that come closest", "RoleBinding one-map", "verb")
		p.screenshot("why-denied")
		enter(denied("jane", http.MethodGet, configMapPath("console-a", "other"), ""))
		p.await("jane (system:authenticated) get configmaps in console-a", "Role one-map", "name")
		enter("Error from server (Forbidden): " + denied("john", http.MethodGet, "/apis/apps/v1/namespaces/console-b/deployments", "", "console-developers"))
		p.await("john (system:authenticated) list deployments.apps in console-b", "No rule of the user comes close.")
		p.fill("Further groups", "console-developers")
		p.await("Rules that come closest", "RoleBinding workloads", "namespace")
		p.fill("Further groups", "")
		enter(denied("system:serviceaccount:console-b:collector", http.MethodGet, "/api/v1/namespaces/console-a/pods/web-0", ""))
		p.await("system:serviceaccounts:console-b", "ClusterRole console-logs", "subresource")
		enter(denied("john", http.MethodGet, "/metrics", ""))
		p.await("john (system:authenticated) get /metrics", "The server's decision now: denied.", "No rule of the user comes close.")
		// The permission is granted after the denial was logged.
		message := denied("jane", http.MethodGet, "/api/v1/namespaces/console-b/secrets", "")
		admin.apply(rbacAPI+"namespaces/console-b/rolebindings/view", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: view}, subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}], roleRef: {kind: ClusterRole, name: console-everything, apiGroup: rbac.authorization.k8s.io}}`)
		testserver.Eventually(t, pageTimeout, func() error {
			if !admin.decision(accessCase{User: "jane", Verb: "list", Resource: "secrets", Namespace: "console-b"}) {
				return fmt.Errorf("the server does not use the new binding")
			}
			return nil
		})
		p.click("Read again")
		enter(message)
		p.await("The server's decision now: allowed.", "RoleBinding view")
		enter("pods is forbidden: exceeded quota")
		p.await("The text is not a message of a denied request.")
	})
}
