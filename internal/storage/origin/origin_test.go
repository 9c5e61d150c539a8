package origin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/request"
)

func TestEncode(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1700000000123)
	long := strings.Repeat("ä", 200)
	for name, test := range map[string]struct{ in, want Origin }{
		"empty": {Origin{Time: at}, Origin{Time: at}},
		"all": {
			Origin{at, "alice", "admin", "patch", "scale", "kubectl", "kubectl/v1.37", "id"},
			Origin{at, "alice", "admin", "patch", "scale", "kubectl", "kubectl/v1.37", "id"},
		},
		"long":    {Origin{Time: at, User: "u" + long}, Origin{Time: at, User: "u" + strings.Repeat("ä", 127)}},
		"invalid": {Origin{Time: at, UserAgent: "a\xffb"}, Origin{Time: at, UserAgent: "a?b"}},
	} {
		got, err := Decode(test.in.Encode())
		if d := cmp.Diff(test.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}

// TestOf checks the origin of a request by an impersonated user.
func TestOf(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1700000000123)
	if d := cmp.Diff(Origin{Time: at}, Of(context.Background(), at)); d != "" {
		t.Errorf("without a request:\n%s", d)
	}
	r := httptest.NewRequest(http.MethodPatch, "/api/v1/namespaces/a/pods/b/status", nil)
	r.Header.Set("User-Agent", "kubectl")
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.NewContext(context.Background(), &info, at)
	request.SetOriginal(ctx, r)
	request.SetAuditID(ctx, "id")
	request.SetAuthentication(ctx, &request.Authentication{User: &request.User{Name: "admin"}})
	request.SetImpersonation(ctx, &request.Impersonation{User: &request.User{Name: "alice"}})
	request.SetFieldManager(ctx, "manager")
	want := Origin{at, "alice", "admin", "patch", "status", "manager", "kubectl", "id"}
	if d := cmp.Diff(want, Of(ctx, at)); d != "" {
		t.Error(d)
	}
}

func FuzzDecode(f *testing.F) {
	o := Origin{Time: time.UnixMilli(1), User: "u"}
	f.Add(o.Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := Decode(raw)
		if err != nil || len(raw) == 0 {
			return
		}
		again, err := Decode(o.Encode())
		if err != nil || !again.Time.Equal(o.Time) {
			t.Errorf("%+v after another encoding: %+v, %v", o, again, err)
		}
	})
}
