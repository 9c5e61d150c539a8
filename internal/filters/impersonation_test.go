package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// grants is an authorizer that allows the requests in allowed, which have the form "VERB
// RESOURCE[/SUBRESOURCE][.GROUP] [NAMESPACE/]NAME". The name "*" matches every object. grants
// records all requests in the same form.
type grants struct {
	allowed []string
	asked   []string
}

func (g *grants) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	resource, name := a.Resource, a.Name
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.APIGroup != "" {
		resource += "." + a.APIGroup
	}
	what := a.Verb + " " + resource + " "
	if a.Namespace != "" {
		name = a.Namespace + "/" + name
	}
	g.asked = append(g.asked, what+name)
	if slices.Contains(g.allowed, what+name) || slices.Contains(g.allowed, what+"*") {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// impersonation sends requests of one user through one filter.
type impersonation struct {
	filter    Filter
	requestor *request.User
}

func newImpersonation(by authorizer.Authorizer, constrained bool, requestor *request.User) *impersonation {
	writeError := func(w http.ResponseWriter, _ *http.Request, err error) {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			w.WriteHeader(500)
			return
		}
		w.WriteHeader(int(status.Status().Code))
		fmt.Fprint(w, status.Status().Message)
	}
	filter := Impersonate(ImpersonateConfig{Authorizer: by, Constrained: constrained, Logger: quiet(), OnError: writeError})
	return &impersonation{filter, requestor}
}

// send sends a GET of pods as another user. It returns the error message or, if the request was
// allowed, the resulting impersonation.
func (i *impersonation) send(t *testing.T, header http.Header) (message string, made *request.Impersonation) {
	t.Helper()
	r := httptest.NewRequest("GET", "/api/v1/pods", nil)
	r.Header = header.Clone()
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.NewContext(r.Context(), &info, time.Now())
	request.SetAuthentication(ctx, &request.Authentication{User: i.requestor})
	passed := false
	w := httptest.NewRecorder()
	i.filter(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		passed = true
		made = request.ImpersonationFrom(r.Context())
		if made != nil && request.UserFrom(r.Context()) != made.User || request.AuthenticationFrom(r.Context()).User != i.requestor {
			t.Error("the user of the request is not the impersonated user, or the authenticated user has changed")
		}
		for name := range r.Header {
			if made != nil && strings.HasPrefix(name, "Impersonate-") {
				t.Errorf("the handler sees %s", name)
			}
		}
	})).ServeHTTP(w, r.WithContext(ctx))
	if passed {
		return "", made
	}
	return fmt.Sprint(w.Code, " ", w.Body), nil
}

func headerOf(pairs ...string) http.Header {
	header := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		header.Add(pairs[i], pairs[i+1])
	}
	return header
}

// TestImpersonateAllowed checks the users that result from impersonation by a user who may
// impersonate everyone.
func TestImpersonateAllowed(t *testing.T) {
	t.Parallel()
	many := headerOf("Impersonate-User", "joe")
	for i := range 1000 {
		many.Add("Impersonate-Group", fmt.Sprint("g", i))
	}
	tests := []struct {
		name    string
		header  http.Header
		want    *request.User
		refused string
	}{
		{name: "no headers", header: headerOf("Accept", "application/json", "Impersonated", "jane")},
		{name: "an empty name", header: headerOf("Impersonate-User", "", "Impersonate-User", "jane")},
		{name: "a user", header: headerOf("Impersonate-User", "joe"), want: &request.User{Name: "joe", Groups: []string{"system:authenticated"}}},
		{name: "two users: the first", header: headerOf("Impersonate-User", "joe", "Impersonate-User", "jane"),
			want: &request.User{Name: "joe", Groups: []string{"system:authenticated"}}},
		{name: "groups", header: headerOf("Impersonate-User", "joe", "Impersonate-Group", "b", "Impersonate-Group", "a"),
			want: &request.User{Name: "joe", Groups: []string{"b", "a", "system:authenticated"}}},
		{name: "the same group twice", header: headerOf("Impersonate-User", "joe", "Impersonate-Group", "a", "Impersonate-Group", "a"),
			want: &request.User{Name: "joe", Groups: []string{"a", "a", "system:authenticated"}}},
		{name: "an empty group", header: headerOf("Impersonate-User", "joe", "Impersonate-Group", ""),
			want: &request.User{Name: "joe", Groups: []string{"", "system:authenticated"}}},
		{name: "system:masters", header: headerOf("Impersonate-User", "joe", "Impersonate-Group", "system:masters"),
			want: &request.User{Name: "joe", Groups: []string{"system:masters", "system:authenticated"}}},
		{name: "a group of users without credentials", header: headerOf("Impersonate-User", "joe", "Impersonate-Group", "system:unauthenticated"),
			want: &request.User{Name: "joe", Groups: []string{"system:unauthenticated"}}},
		{name: "system:anonymous", header: headerOf("Impersonate-User", "system:anonymous"),
			want: &request.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
		{name: "a service account", header: headerOf("Impersonate-User", "system:serviceaccount:a:b"),
			want: &request.User{Name: "system:serviceaccount:a:b", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}}},
		{name: "a service account with other groups", header: headerOf("Impersonate-User", "system:serviceaccount:a:b", "Impersonate-Group", "c"),
			want: &request.User{Name: "system:serviceaccount:a:b", Groups: []string{"c", "system:authenticated"}}},
		{name: "an invalid service account name", header: headerOf("Impersonate-User", "system:serviceaccount:a:b:c"),
			want: &request.User{Name: "system:serviceaccount:a:b:c", Groups: []string{"system:authenticated"}}},
		{name: "a node", header: headerOf("Impersonate-User", "system:node:n"),
			want: &request.User{Name: "system:node:n", Groups: []string{"system:authenticated"}}},
		{name: "UID and extra", header: http.Header{
			"Impersonate-User": {"joe"}, "Impersonate-Uid": {"u"}, "Impersonate-Extra-Example.com%2fproject": {"p1", "p2"}, "Impersonate-Extra-None": nil,
			"Impersonate-Extra-%zz": {"x"}, "Impersonate-Extra-": {"y"}},
			want: &request.User{Name: "joe", UID: "u", Groups: []string{"system:authenticated"},
				Extra: map[string][]string{"example.com/project": {"p1", "p2"}, "%zz": {"x"}, "": {"y"}}}},
		{name: "a UID alone", header: headerOf("Impersonate-Uid", "a"), refused: `400 requested &user.DefaultInfo{Name:"", UID:"a", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name`},
		{name: "a group alone", header: headerOf("Impersonate-Group", ""), refused: `400 requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{""}, Extra:map[string][]string(nil)} without impersonating a user name`},
		{name: "extra alone", header: headerOf("Impersonate-Extra-A", "a"), refused: `400 requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"a"}}} without impersonating a user name`},
		{name: "very many groups", header: many, want: &request.User{Name: "joe", Groups: append(many["Impersonate-Group"], "system:authenticated")}},
	}
	plain := &grants{allowed: []string{
		"impersonate users *", "impersonate groups *", "impersonate serviceaccounts *", "impersonate uids.authentication.k8s.io *",
		"impersonate userextras/example.com/project.authentication.k8s.io *", "impersonate userextras/%zz.authentication.k8s.io *", "impersonate userextras/.authentication.k8s.io *",
		"impersonate userextras.authentication.k8s.io *",
	}}
	for _, tt := range tests {
		message, made := newImpersonation(plain, true, &request.User{Name: "root"}).send(t, tt.header)
		if message != tt.refused {
			t.Errorf("%s: rejected by %q, want %q", tt.name, message, tt.refused)
		}
		var got *request.User
		if made != nil {
			got = made.User
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestImpersonateForbidden checks the error messages for a user with limited permissions. The messages depend
// on the order of the requests.
func TestImpersonateForbidden(t *testing.T) {
	t.Parallel()
	by := &grants{}
	jane := newImpersonation(by, true, &request.User{Name: "jane", Groups: []string{"devs"}})
	check := func(header http.Header, want string) {
		t.Helper()
		if got, _ := jane.send(t, header); got != want {
			t.Errorf("%v: %q, want %q", header, got, want)
		}
	}
	joe := headerOf("Impersonate-User", "joe")
	check(joe, `403 pods is forbidden: User "jane" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`)
	check(headerOf("Impersonate-User", "system:serviceaccount:default:default"),
		`403 pods is forbidden: User "jane" cannot impersonate-on:serviceaccount:list resource "pods" in API group "" at the cluster scope`)
	check(headerOf("Impersonate-User", "system:node:n"),
		`403 pods is forbidden: User "jane" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" at the cluster scope`)
	check(headerOf("Impersonate-User", "system:node:n", "Impersonate-Uid", "1"), // only the plain verb allows a UID
		`403 users "system:node:n" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope`)
	by.allowed = []string{"impersonate users joe", "impersonate groups a", "impersonate userextras/scopes.authentication.k8s.io view"}
	check(joe, "")
	with := func(name, value string) http.Header { return headerOf("Impersonate-User", "joe", name, value) }
	check(with("Impersonate-Group", "a"), "")
	check(with("Impersonate-Group", "b"), `403 groups "b" is forbidden: User "jane" cannot impersonate resource "groups" in API group "" at the cluster scope`)
	check(with("Impersonate-Extra-Scopes", "view"), "")
	check(with("Impersonate-Extra-Scopes", "edit"),
		`403 userextras.authentication.k8s.io "edit" is forbidden: User "jane" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope`)
	check(with("Impersonate-Uid", "1"), `403 uids.authentication.k8s.io "1" is forbidden: User "jane" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope`)
}

// TestConstrainedImpersonation checks the permissions that each mode requires.
func TestConstrainedImpersonation(t *testing.T) {
	t.Parallel()
	agent := &request.User{Name: "system:serviceaccount:a:agent", Extra: map[string][]string{request.ExtraNodeName: {"n"}, request.ExtraPodName: {"p"}}}
	const group = ".authentication.k8s.io "
	tests := []struct {
		name       string
		requestor  *request.User
		allowed    []string
		header     http.Header
		want       *request.User
		constraint string
		refused    string
	}{
		{"a user", &request.User{Name: "jane"}, []string{"impersonate-on:user-info:list pods ", "impersonate:user-info users" + group + "joe"},
			headerOf("Impersonate-User", "joe"), &request.User{Name: "joe", Groups: []string{"system:authenticated"}}, "impersonate:user-info", ""},
		{"a user for another verb", &request.User{Name: "jane"}, []string{"impersonate-on:user-info:get pods ", "impersonate:user-info users" + group + "joe"},
			headerOf("Impersonate-User", "joe"), nil, "", `pods is forbidden: User "jane" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`},
		{"a user of system:masters", &request.User{Name: "jane"}, []string{"impersonate-on:user-info:list pods ", "impersonate:user-info users" + group + "*", "impersonate:user-info groups" + group + "*"},
			headerOf("Impersonate-User", "joe", "Impersonate-Group", "system:masters"), nil, "",
			`groups.authentication.k8s.io "system:masters" is forbidden: User "jane" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed`},
		{"many groups by all of them", &request.User{Name: "jane"}, []string{"impersonate-on:user-info:list pods ", "impersonate:user-info users" + group + "*", "impersonate:user-info groups" + group + "*"},
			http.Header{"Impersonate-User": {"joe"}, "Impersonate-Group": {"a", "b", "c", "d"}},
			&request.User{Name: "joe", Groups: []string{"a", "b", "c", "d", "system:authenticated"}}, "impersonate:user-info", ""},
		{"a key of extra with an escaped capital", &request.User{Name: "jane"}, []string{"impersonate-on:user-info:list pods ", "impersonate:user-info users" + group + "*"},
			headerOf("Impersonate-User", "joe", "Impersonate-Extra-Example.com%2f%41", "x"), nil, "",
			`userextras.authentication.k8s.io is forbidden: User "jane" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating a non-lowercase key in extra is not allowed: "example.com/A"`},
		{"a service account", &request.User{Name: "jane"}, []string{"impersonate-on:serviceaccount:list pods ", "impersonate:serviceaccount serviceaccounts" + group + "a/b"},
			headerOf("Impersonate-User", "system:serviceaccount:a:b"),
			&request.User{Name: "system:serviceaccount:a:b", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}}, "impersonate:serviceaccount", ""},
		{"any node", &request.User{Name: "jane"}, []string{"impersonate-on:arbitrary-node:list pods ", "impersonate:arbitrary-node nodes" + group + "n"},
			headerOf("Impersonate-User", "system:node:n"), &request.User{Name: "system:node:n", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:arbitrary-node", ""},
		{"the node of a pod", agent, []string{"impersonate-on:associated-node:list pods ", "impersonate:associated-node nodes" + group + "*"},
			headerOf("Impersonate-User", "system:node:n"), &request.User{Name: "system:node:n", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:associated-node", ""},
		{"a node that is not the pod's", agent, []string{"impersonate-on:associated-node:list pods ", "impersonate:associated-node nodes" + group + "*"},
			headerOf("Impersonate-User", "system:node:m"), nil, "",
			`pods is forbidden: User "system:serviceaccount:a:agent" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" at the cluster scope`},
	}
	for _, tt := range tests {
		by := &grants{allowed: tt.allowed}
		message, made := newImpersonation(by, true, tt.requestor).send(t, tt.header)
		if made == nil {
			made = &request.Impersonation{}
		}
		if diff := cmp.Diff(tt.want, made.User); diff != "" || made.Constraint != tt.constraint || message != "" && message != "403 "+tt.refused {
			t.Errorf("%s: by %q, rejected by %q; (-want +got):\n%s", tt.name, made.Constraint, message, diff)
		}
		if message, _ := newImpersonation(by, false, tt.requestor).send(t, tt.header); !strings.Contains(message, "cannot impersonate resource") {
			t.Errorf("%s, without the gate: %q", tt.name, message)
		}
	}
}

// TestImpersonationCachesMode checks that once a verb has allowed an impersonation by a user, other
// verbs are not authorized again.
func TestImpersonationCachesMode(t *testing.T) {
	t.Parallel()
	by := &grants{allowed: []string{"impersonate users *"}}
	jane := newImpersonation(by, true, &request.User{Name: "jane"})
	for range 3 {
		by.asked = nil
		if message, _ := jane.send(t, headerOf("Impersonate-User", "joe")); message != "" {
			t.Fatal(message)
		}
	}
	if want := []string{"impersonate users joe"}; !slices.Equal(by.asked, want) {
		t.Errorf("requests %q, want %q", by.asked, want)
	}
}

// FuzzExtractImpersonated checks that for any headers, extractImpersonated returns a user and removes
// the headers, or returns an error.
func FuzzExtractImpersonated(f *testing.F) {
	f.Add("joe", "u", "g", "Example.com%2fa", "v")
	f.Add("", "", "", "%", "")
	f.Fuzz(func(t *testing.T, user, uid, group, key, value string) {
		header := http.Header{"Impersonate-User": {user}, "Impersonate-Uid": {uid}, "Impersonate-Group": {group}, "Impersonate-Extra-" + key: {value}}
		wanted, err := extractImpersonated(header)
		if (wanted == nil) != (user == "") || (err == nil) != (user != "") {
			t.Errorf("user %q: impersonated %v, error %v", user, wanted, err)
		}
		if wanted != nil && len(header) > 0 {
			t.Errorf("remaining headers: %v", header)
		}
	})
}
