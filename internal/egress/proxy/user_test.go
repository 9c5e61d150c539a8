package proxy

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/request"
)

func TestSetUser(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"X-Remote-User": {"root"}, "x-remote-group": {"gods"}, "X-Remote-Extra-Power": {"all"}, "X-Remote-Anything": {"x"},
		"Authorization": {"Bearer secret"}, "Impersonate-User": {"root"}, "Accept": {"application/json"},
		"X_Remote_User": {"root"}, "x-remote_Group": {"gods"}, "X.Remote.Extra.Power": {"all"}, "IMPERSONATE_USER": {"root"},
	}
	SetUser(h, &request.User{Name: "jane", UID: "u-1", Groups: []string{"a", "b"}, Extra: map[string][]string{"example.com/id%": {"1", "2"}}})
	want := http.Header{
		"X-Remote-User": {"jane"}, "X-Remote-Uid": {"u-1"}, "X-Remote-Group": {"a", "b"}, "Accept": {"application/json"},
		"X-Remote-Extra-Example.com%2fid%25": {"1", "2"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
