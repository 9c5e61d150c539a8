package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// TestControlPlaneDefinitions checks that changing or deleting a definition in one control plane does not
// affect an equal definition in another control plane. It covers validation, rules, defaults, server-side
// apply, columns and OpenAPI.
func TestControlPlaneDefinitions(t *testing.T) {
	t.Parallel()
	const objects = "/apis/example.com/v1/kind0s"
	s := start(t, Config{})
	a, b := s.tenant(t, "a", `{}`), s.tenant(t, "b", `{}`)
	apply := func(plane *running, manager, fields string) (int, string) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Kind0","spec":%s}`, fields)
		return plane.send(t, "PATCH", objects+"/a?fieldManager="+manager, body, "Content-Type", "application/apply-patch+yaml")
	}
	check := func(plane *running) {
		t.Helper()
		if code, text := apply(plane, "one", `{"part0":{"field0":"a","field6":"x"}}`); code > 201 || !strings.Contains(text, `"field3":"Always"`) {
			t.Errorf("apply: %d %s", code, text)
		}
		if code, text := apply(plane, "two", `{"part0":{"field0":"ab"}}`); code != 409 {
			t.Errorf("a conflicting apply: %d %s", code, text)
		}
		if code, text := apply(plane, "one", `{"part0":{"field0":"b","field6":"x"}}`); code != 422 || !strings.Contains(text, "field0 must begin with a") {
			t.Errorf("an apply that violates a rule: %d %s", code, text)
		}
		plane.expectCode(t, 200, `"Class"`, "GET", objects, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		plane.expectCode(t, 200, "field9", "GET", "/openapi/v3/apis/example.com/v1")
	}
	for _, plane := range []*running{a, b} {
		plane.must(t, "POST", definitionsPath, generatedDefinition("example.com", 0))
		check(plane)
	}

	const definition = definitionsPath + "/kind0s.example.com"
	a.patch(t, definition, `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{
		"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`)
	testserver.Eventually(t, time.Minute, func() error {
		if code, text := apply(a, "one", `{"part0":{"field0":"b"},"other":1}`); code != 200 || !strings.Contains(text, `"other":1`) {
			return fmt.Errorf("apply with the changed definition: %d %s", code, text)
		}
		return nil
	})
	check(b)
	a.must(t, "DELETE", definition, "")
	a.awaitCode(t, definition, 404)
	a.expectCode(t, 404, "", "GET", objects)
	check(b)
	b.expectCode(t, 200, `"field0":"a"`, "GET", objects+"/a")
}
