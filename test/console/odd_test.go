package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/proto"
)

// testLongNames checks that a long name does not make the other columns of a table unreadable.
func testLongNames(t *testing.T, f *fixture) {
	f.namespace(t, "longnames")
	object := f.create(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: longnames, labels: {a: b}}\ndata: {x: z}\n", strings.Repeat("longname", 30)))
	f.patch(t, object, "writer", `{"data":{"a-field-with-a-name":"x","another-field-with-a-name":"y"},"metadata":{"labels":{"a":"c","a-label-with-a-name":"b"}}}`)
	p := f.open(t, "/console/history?namespace=longnames")
	p.await("writer", "a-field-with-a-name")
	p.screenshot("long-names")
	if height := p.eval(`Math.max(...[...document.querySelectorAll("tbody tr")].map((tr) => tr.getBoundingClientRect().height)) < 300`); height != "true" {
		t.Error("a row of the history has a height of more than 300 pixels")
	}
}

// testSpecialCharacters checks that the console shows characters that change the direction of a text.
func testSpecialCharacters(t *testing.T, f *fixture) {
	f.namespace(t, "special")
	object := f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: special, namespace: special}\ndata: {a: \"\\u202Ekcab\"}\n")
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	shown := `[...document.querySelectorAll(".editor")].some((e) => e.shadowRoot?.querySelector(".cm-specialChar")?.title.includes("right-to-left"))`
	p.awaitTrue(shown)
	p.click("Edit")
	p.awaitTrue(`document.querySelector(".legend") === null && ` + shown)
	p.screenshot("special-characters")
}

// testSelectorCharacters checks the page of an object whose name contains characters of field selectors. Names of
// RBAC objects can contain them.
func testSelectorCharacters(t *testing.T, f *fixture) {
	object := f.create(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'a=b,c\\d'}\n")
	p := f.open(t, `/console/objects/rbac.authorization.k8s.io/clusterroles/-/a%3Db%2Cc%5Cd`)
	p.await("ClusterRole, rbac")
	f.patch(t, object, "labeler", `{"metadata":{"labels":{"new":"label"}}}`)
	p.await("new=label")
	p.awaitMissing("selector")
}

// testDeletedNamespace checks the reason why a namespace is not deleted yet.
func testDeletedNamespace(t *testing.T, f *fixture) {
	f.namespace(t, "terminating")
	object := f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: waiting, namespace: terminating, finalizers: [example.com/wait]}\n")
	p := f.open(t, "/console/objects/core/namespaces/-/terminating")
	p.click("Delete")
	p.await("ConfigMap waiting")
	p.clickInDialog("Delete")
	p.await("The object is being deleted. It waits for the finalizers: kubernetes.", "example.com/wait in 1 resource instances")
	p.goTo("/console/objects/core/configmaps?namespace=terminating")
	p.awaitText(listed, "waiting")
	f.patch(t, object, "finalizer", `{"metadata":{"finalizers":null}}`)
	p.await("There are no objects of the kind ConfigMap in the namespace terminating.")
	p.goTo("/console/objects/core/namespaces/-/terminating")
	p.expect("404 (Not Found)")
	p.await("not found")
}

// testOldRevision checks the page of an object that has not changed for a long time. After a compaction and a
// restart, the server rejects watches from the revision of the object.
func testOldRevision(t *testing.T, f *fixture) {
	f.namespace(t, "old")
	object := f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: old}\ndata: {color: red}\n")
	f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new, namespace: old}\n")
	p := f.open(t, "/console/")
	router := p.HijackRequests()
	p.check(router.Add("*watch=1*", "", func(h *rod.Hijack) {
		if h.Request.URL().Query().Get("resourceVersion") == object.GetResourceVersion() {
			h.Response.SetBody(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n")
			return
		}
		h.ContinueRequest(&proto.FetchContinueRequest{})
	}))
	go router.Run()
	t.Cleanup(func() { _ = router.Stop() })
	p.goTo(objectsPath(object))
	p.await("ConfigMap, v1")
	p.click("YAML")
	p.await("color: red")
	f.patch(t, object, "painter", `{"data":{"color":"blue"}}`)
	p.await("color: blue")
	reads := `performance.getEntriesByType("resource").filter((entry) => entry.name.endsWith("/configmaps/old")).length`
	if got := p.eval(reads); got != "1" {
		t.Errorf("the page has read the object %s times", got)
	}
}
