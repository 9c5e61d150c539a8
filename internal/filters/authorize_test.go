package filters

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// TestForbiddenAsRecorded compares error responses with recorded responses of kube-apiserver.
func TestForbiddenAsRecorded(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/forbidden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var recorded struct {
			Method, Path, User string
			Status             metav1.Status
		}
		if err := json.Unmarshal(lines.Bytes(), &recorded); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(recorded.Method, recorded.Path, nil)
		got := get(t, answer(200, ""), r, as(&request.User{Name: recorded.User}), Authorize(authz.Union{}, nil, quiet(), writeError))
		recorded.Status.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(&recorded.Status, statusOf(t, got.Body)); diff != "" {
			t.Errorf("%s %s by %s (-recorded +got):\n%s", recorded.Method, recorded.Path, recorded.User, diff)
		}
	}
	if n < 50 {
		t.Errorf("only %d rejections are recorded", n)
	}
}

// fixed is an authorizer with a fixed result.
type fixed struct {
	decision authorizer.Decision
	reason   string
	err      error
}

func (f fixed) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return f.decision, f.reason, f.err
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	broken := errors.New("the backend is gone")
	tests := []struct {
		name       string
		authorizer authorizer.Authorizer
		code       int
		message    string
	}{
		{"allowed", fixed{decision: authorizer.DecisionAllow}, 200, ""},
		{"allowed in spite of an error", fixed{decision: authorizer.DecisionAllow, err: broken}, 200, ""},
		{"denied", fixed{decision: authorizer.DecisionDeny}, 403, `forbidden: User "jane" cannot get path "/x&lt;y&gt;"`},
		{"a reason", fixed{decision: authorizer.DecisionNoOpinion, reason: "because"}, 403, `forbidden: User "jane" cannot get path "/x&lt;y&gt;": because`},
		{"an error", fixed{decision: authorizer.DecisionNoOpinion, err: broken}, 500, "Internal error occurred: the backend is gone"},
		{"denied with an error", fixed{decision: authorizer.DecisionDeny, err: broken}, 500, "Internal error occurred: the backend is gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := get(t, answer(200, ""), httptest.NewRequest("GET", "/x%3Cy%3E", nil), as(&request.User{Name: "jane"}), Authorize(tt.authorizer, nil, quiet(), writeError))
			if got.Code != tt.code {
				t.Fatalf("response %d, want %d", got.Code, tt.code)
			}
			if tt.code != 200 {
				if message := statusOf(t, got.Body).Message; message != tt.message {
					t.Errorf("the message is %q, want %q", message, tt.message)
				}
			}
		})
	}
}

// someView is a fixed view of some or all namespaces.
type someView struct {
	request.Visibility
	now *request.Namespaces
}

func (v someView) Now() *request.Namespaces { return v.now }

// TestAuthorizeSome checks that a list or watch of all namespaces is allowed and limited to a view
// if the user has permission for some namespaces, and that other requests are not limited.
func TestAuthorizeSome(t *testing.T) {
	t.Parallel()
	some := someView{now: request.NewNamespaces([]string{"a"})}
	all := someView{}
	for _, test := range []struct {
		target   string
		decision authorizer.Decision
		view     request.Visibility
		code     int
		limited  bool
	}{
		{"/api/v1/pods", authorizer.DecisionNoOpinion, some, 200, true},
		{"/api/v1/pods?watch=1", authorizer.DecisionNoOpinion, some, 200, true},
		{"/api/v1/watch/pods", authorizer.DecisionNoOpinion, some, 200, true},
		{"/api/v1/pods", authorizer.DecisionNoOpinion, nil, 403, false},
		{"/api/v1/pods", authorizer.DecisionDeny, some, 403, false},
		{"/api/v1/pods", authorizer.DecisionAllow, some, 200, false}, // another authorizer allows it
		{"/api/v1/pods", authorizer.DecisionAllow, all, 200, true},
		{"/api/v1/namespaces/b/pods", authorizer.DecisionNoOpinion, some, 403, false},
		{"/api/v1/pods/x", authorizer.DecisionNoOpinion, some, 403, false},
		{"/api/v1/pods/x/log", authorizer.DecisionNoOpinion, some, 403, false},
		{"/metrics", authorizer.DecisionNoOpinion, some, 403, false},
	} {
		limited, open := false, 0
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limited = request.VisibilityFrom(r.Context()) != nil
		})
		view := func(context.Context, *authorizer.Attributes) (request.Visibility, func()) {
			if test.view == nil {
				return nil, nil
			}
			open++
			return test.view, func() { open-- }
		}
		w := get(t, handler, httptest.NewRequest("GET", test.target, nil), as(&request.User{Name: "jane"}),
			Authorize(fixed{decision: test.decision}, view, quiet(), writeError))
		if w.Code != test.code || limited != test.limited || open != 0 {
			t.Errorf("%s, %s: %d, limited %t, %d views open; want %d, %t", test.target, test.decision, w.Code, limited, open, test.code, test.limited)
		}
	}
}
