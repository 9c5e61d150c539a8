package host

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/apis/history"
)

const (
	allChanges     = "/apis/history.mainstay.dev/v1/changes"
	defaultChanges = "/apis/history.mainstay.dev/v1/namespaces/default/changes"
)

// changeList is a list of changes.
type changeList struct {
	Metadata struct{ ResourceVersion, Continue string }
	Items    []history.Change
}

func (r *running) changes(t *testing.T, path string) changeList {
	t.Helper()
	var list changeList
	if err := json.Unmarshal([]byte(r.must(t, "GET", path, "")), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// summary returns the operation, the object name and the changed fields of each change.
func (l *changeList) summary() string {
	var all []string
	for _, c := range l.Items {
		all = append(all, strings.TrimSpace(fmt.Sprint(c.Operation, " ", c.Object.Name, " ", strings.Join(c.Fields, ","))))
	}
	return strings.Join(all, "; ")
}

// TestChanges lists and watches the changes of built-in and custom resources.
func TestChanges(t *testing.T) {
	t.Parallel()
	config := withoutControllers(Config{})
	config.Authentication.TokenFile.File = tokens(t)
	s := start(t, config)
	s.must(t, "POST", configMaps, `{"metadata":{"name":"a","labels":{"team":"x"}},"data":{"x":"1"}}`)
	s.must(t, "PUT", historyMap, `{"metadata":{"name":"a","labels":{"team":"x"}},"data":{"x":"2","y":"1"}}`)
	s.must(t, "POST", configMaps, `{"metadata":{"name":"b"}}`)
	s.must(t, "DELETE", historyMap, "")
	establish(t, dynamicClient(t, s), definitionOf("example.com", "Widget", map[string]string{"v1": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`}, "v1"))
	s.must(t, "POST", "/apis/example.com/v1/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":7}}`)
	s.must(t, "PUT", "/apis/example.com/v1/widgets/w", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"`+revisionOf(t, s.must(t, "GET", "/apis/example.com/v1/widgets/w", ""))+`"},"spec":{"size":8}}`)

	of := func(selector string) string { return "?fieldSelector=" + strings.ReplaceAll(selector, ",", "%2C") }
	for path, want := range map[string]string{
		defaultChanges + of("object.resource=configmaps"):                                           "Created a; Updated a data.x,data.y; Created b; Deleted a",
		defaultChanges + of("object.resource=configmaps,object.name=a"):                             "Created a; Updated a data.x,data.y; Deleted a",
		allChanges + of("object.resource=configmaps,operation!=Created,metadata.namespace=default"): "Updated a data.x,data.y; Deleted a",
		allChanges + of("object.resource=configmaps,object.name=a"):                                 "Created a; Updated a data.x,data.y; Deleted a",
		allChanges + of("object.resource=widgets.example.com"):                                      "Created w; Updated w spec.size",
		allChanges + of("object.resource=widgets.example.com,object.name=w"):                        "Created w; Updated w spec.size",
		defaultChanges + "?labelSelector=team%3Dx":                                                  "Created a; Updated a data.x,data.y; Deleted a",
		defaultChanges + of("since=2200-01-01T00:00:00Z"):                                           "",
		defaultChanges + of("user=nobody"):                                                          "",
	} {
		list := s.changes(t, path)
		if got := list.summary(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	whole := s.changes(t, defaultChanges+of("object.resource=configmaps"))
	update := whole.Items[1]
	if update.User != "kubernetes-admin" || update.Verb != "update" || update.AuditID == "" || update.Object.Kind != "ConfigMap" || update.Object.UID == "" || update.PreviousRevision != whole.Items[0].Revision {
		t.Errorf("an update: %+v", update)
	}
	s.expectCode(t, 200, update.Name, "GET", defaultChanges+"/"+update.Name)
	for path, want := range map[string]int{
		defaultChanges + "/1-0": 404, defaultChanges + "/x": 404, defaultChanges + "/" + update.Revision + "-7": 404, defaultChanges + "/99999999-0": 404,
		strings.Replace(defaultChanges, "default", "kube-system", 1) + "/" + update.Name: 404,
		defaultChanges + of("unknown=x"):                                                 400, defaultChanges + of("since=x"): 400, defaultChanges + of("since!=1h"): 400,
		defaultChanges + "?continue=x": 400, defaultChanges + "?resourceVersion=x": 400, defaultChanges + "?resourceVersion=99999999": 504,
	} {
		s.expectCode(t, want, "", "GET", path)
	}
	s.expectCode(t, 405, "", "DELETE", defaultChanges+"/"+update.Name)
	s.expectCode(t, 405, "", "POST", defaultChanges)
	s.expectCode(t, 404, "", "GET", "/at/-0s"+defaultChanges)

	// Read the list in pages.
	var paged []string
	for next := ""; ; {
		page := s.changes(t, defaultChanges+of("object.resource=configmaps")+"&limit=1&continue="+next)
		paged = append(paged, page.summary())
		if next = page.Metadata.Continue; next == "" {
			break
		}
	}
	if got := strings.Join(paged, "; "); got != whole.summary() {
		t.Errorf("pages: %s, want %s", got, whole.summary())
	}
	testChangesAuthorization(t, s)
}

// testChangesAuthorization checks that a user sees only the changes of objects that the user may read.
func testChangesAuthorization(t *testing.T, s *running) {
	expect := func(want string, names int) {
		t.Helper()
		code, body := fetch(t, client(t, nil), s.URL+defaultChanges, "Authorization", "Bearer jane")
		var list changeList
		_ = json.Unmarshal([]byte(body), &list) // the body of an error response is not a list
		if fmt.Sprint(code) != want || len(list.Items) != names {
			t.Errorf("changes: %d with %d items, want %s with %d", code, len(list.Items), want, names)
		}
	}
	expect("403", 0)
	grant := func(name, group, resource, verbs, names string) {
		const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
		s.must(t, "POST", roles, `{"metadata":{"name":"`+name+`"},"rules":[{"apiGroups":["`+group+`"],"resources":["`+resource+`"],"verbs":[`+verbs+`]`+names+`}]}`)
		s.must(t, "POST", strings.Replace(roles, "roles", "rolebindings", 1), `{"metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"`+name+`"},"subjects":[{"kind":"User","name":"jane"}]}`)
	}
	grant("changes", "history.mainstay.dev", "changes", `"list"`, "")
	expect("200", 0)
	grant("reader", "", "configmaps", `"get"`, "")
	expect("200", 0)
	grant("one", "", "configmaps", `"history"`, `,"resourceNames":["b"]`)
	expect("200", 1)
	grant("all", "", "configmaps", `"history"`, "")
	expect("200", 4)
}

// TestWatchChanges checks that a watch receives new changes.
func TestWatchChanges(t *testing.T) {
	t.Parallel()
	s := start(t, withoutControllers(Config{}))
	s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`)
	list := s.changes(t, defaultChanges)
	s.must(t, "PUT", historyMap, `{"metadata":{"name":"a"},"data":{"x":"2"}}`)
	lines := bufio.NewScanner(s.stream(t, defaultChanges+"?watch=1&fieldSelector=object.name%3Da&resourceVersion="+list.Metadata.ResourceVersion))
	for _, want := range []string{"Updated", "Deleted"} {
		if !lines.Scan() {
			t.Fatalf("the watch ended: %v", lines.Err())
		}
		if line := lines.Text(); !strings.Contains(line, `"ADDED"`) || !strings.Contains(line, want) {
			t.Errorf("event %s, want %s", line, want)
		}
		if want == "Updated" {
			s.must(t, "POST", configMaps, `{"metadata":{"name":"other"}}`)
			s.must(t, "DELETE", historyMap, "")
		}
	}
}
