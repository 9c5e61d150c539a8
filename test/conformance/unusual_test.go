package conformance

import (
	"net/http"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestUnusualRequests sends unusual requests that caused faults in the past, and checks the status. They are
// not recorded, because kube-apiserver panics on some of them.
func TestUnusualRequests(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	odd := func(method, path, contentType, body string) int {
		t.Helper()
		request := Request{Method: method, Path: path, Headers: map[string]string{"Content-Type": contentType}}
		req, err := newHTTPRequest(replayer.base, path, request, []byte(body), NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		resp, err := replayer.client.Do(req.WithContext(t.Context()))
		if err != nil {
			t.Fatalf("send %s %s %s: %v", method, path, body, err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := odd("POST", maps, "application/json", `{"metadata":{"name":"a"},"data":{"x":"1"}}`); got != http.StatusCreated {
		t.Fatalf("create: status %d", got)
	}
	const (
		plain     = "application/json"
		jsonPatch = "application/json-patch+json"
		merge     = "application/merge-patch+json"
		strategic = "application/strategic-merge-patch+json"
		apply     = "application/apply-patch+yaml"
	)
	tests := []struct{ name, method, path, contentType, body string }{
		{"a JSON patch without a value", "PATCH", maps + "/a", jsonPatch, `[{"op":"replace","path":""}]`},
		{"a JSON patch that adds nothing", "PATCH", maps + "/a", jsonPatch, `[{"op":"add","path":"/data/x"}]`},
		{"a JSON patch that removes everything", "PATCH", maps + "/a", jsonPatch, `[{"op":"remove","path":""}]`},
		{"a JSON patch that replaces everything by null", "PATCH", maps + "/a", jsonPatch, `[{"op":"replace","path":"","value":null}]`},
		{"a JSON patch of null", "PATCH", maps + "/a", jsonPatch, `null`},
		{"a JSON patch of nulls", "PATCH", maps + "/a", jsonPatch, `[null]`},
		{"a JSON patch with a path that is a number", "PATCH", maps + "/a", jsonPatch, `[{"op":"add","path":5,"value":1}]`},
		{"a JSON patch that copies without from", "PATCH", maps + "/a", jsonPatch, `[{"op":"copy","path":"/data/y"}]`},
		{"a JSON patch far outside a list", "PATCH", maps + "/a", jsonPatch, `[{"op":"add","path":"/metadata/managedFields/-99999999999","value":{}}]`},
		{"a merge patch that is a list", "PATCH", maps + "/a", merge, `[]`},
		{"a strategic patch that is a list", "PATCH", maps + "/a", strategic, `[]`},
		{"a strategic patch with odd directives", "PATCH", maps + "/a", strategic, `{"$patch":5,"$retainKeys":{},"metadata":{"$setElementOrder/finalizers":1}}`},
		{"an apply of nothing", "PATCH", maps + "/a?fieldManager=x", apply, ``},
		{"an apply of a list", "PATCH", maps + "/a?fieldManager=x", apply, `[]`},
		{"an apply with a manager of control characters", "PATCH", maps + "/a?fieldManager=%00", apply, `{"apiVersion":"v1","kind":"ConfigMap"}`},
		{"a name with a zero byte", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", plain, `{"metadata":{"name":"\u0000"}}`},
		{"a path with a zero byte", "GET", maps + "/%00", plain, ``},
		{"a path that is not UTF-8", "GET", maps + "/%ff", plain, ``},
		{"a label selector that never ends", "GET", maps + "?labelSelector=a+in+(b,", plain, ``},
		{"a negative limit", "GET", maps + "?limit=-1&watch=x", plain, ``},
		{"a continue token of a revision that never was", "GET", maps + "?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTIyMzM3MjAzNjg1NDc3NTgwNywic3RhcnQiOiJhIn0", plain, ``},
		{"a revision beyond 64 bits", "GET", maps + "?resourceVersion=99999999999999999999999", plain, ``},
		{"managed fields that are none", "PUT", maps + "/a", plain, `{"metadata":{"name":"a","managedFields":[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":5}}]}}`},
		{"delete options that are a list", "DELETE", maps + "/none", plain, `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := odd(tt.method, tt.path, tt.contentType, tt.body); got >= http.StatusInternalServerError && got != http.StatusGatewayTimeout {
				t.Errorf("status %d", got)
			}
		})
	}
}
