package controlplane

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
)

// TestRemoteContent checks that the objects of an aggregated server in a namespace are deleted as the
// controller's user, and that the remaining objects are counted.
func TestRemoteContent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code      int
		list      string
		remaining int
		fails     string
	}{
		{200, `{"items":[]}`, 0, ""},
		{200, `{"items":[{"metadata":{"name":"a"}},{}]}`, 2, ""},
		{404, `gone`, 0, ""},
		{503, `service unavailable`, 0, "deletecollection apples.fruits.example.com: 503 service unavailable"},
		{200, `no list`, 0, "read the list of apples.fruits.example.com"},
		{200, strings.Repeat("x", maxRemoteBody+1), 0, "read the list"},
	} {
		var calls []string
		call := remoteCall{
			user: &request.User{Name: "controller"}, namespace: "n", gvr: schema.GroupVersionResource{Group: "fruits.example.com", Version: "v1", Resource: "apples"},
			handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls = append(calls, fmt.Sprintf("%s %s by %s", r.Method, r.URL.Path, request.UserFrom(r.Context()).Name))
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.list))
			}),
		}
		remaining, err := call.deleteAll(t.Context())
		if remaining != test.remaining || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%d %.20s: %d remain, %v", test.code, test.list, remaining, err)
		}
		if calls[0] != "DELETE /apis/fruits.example.com/v1/namespaces/n/apples by controller" {
			t.Errorf("called %q", calls)
		}
	}
}
