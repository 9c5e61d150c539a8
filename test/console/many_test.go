package console

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestManyDefinitions uses the console with 300 definitions and 2,000 objects. The relations of an object read
// all resources of its namespace, and an open page must not need more than two watches.
func TestManyDefinitions(t *testing.T) {
	const definitions = 300
	f := newFixture(t)
	manifests := make(chan string)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for manifest := range manifests {
				f.create(t, manifest)
			}
		})
	}
	for i := range definitions {
		manifests <- fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things%[1]d.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things%[1]d, singular: thing%[1]d, kind: Thing%[1]d, listKind: Thing%[1]dList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, i)
	}
	close(manifests)
	group.Wait()
	f.namespace(t, "many")
	f.createMany(t, "many", 2000)
	owner, _ := f.workload(t, "many", "web")

	p := f.open(t, objectsPath(owner)+"?tab=Relations")
	p.await("the garbage collector deletes the 3 outlined dependents.", "Pod")
	p.goTo("/console/objects/core/configmaps?namespace=many")
	p.await("2001 objects", "item-00000")
	p.fill("Filter resources", "thing299")
	p.click("Thing299")
	p.await("There are no objects of the kind Thing299 in the namespace many.")
	p.goTo("/console/map?namespace=many&kinds=Deployment,ReplicaSet,Pod")
	p.await("web-7d4b9-x1")

	p.goTo(objectsPath(owner) + "?tab=Events")
	p.await("There are no events about this object.")
	testserver.Eventually(t, pageTimeout, func() error {
		if n := f.watches(t); n > 2 {
			return fmt.Errorf("the page has %d watches", n)
		}
		return nil
	})
}

// watches returns the number of watches that are open on the server.
func (f *fixture) watches(t *testing.T) int {
	t.Helper()
	code, text := newAPIUser(t, f.server.RESTConfig(), "").send("GET", "/metrics", "", "")
	if code != http.StatusOK {
		t.Fatalf("/metrics: code %d", code)
	}
	total := 0
	for line := range strings.Lines(text) {
		var n int
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) {
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
				t.Fatalf("parse the metric %q: %v", line, err)
			}
			total += n
		}
	}
	return total
}
