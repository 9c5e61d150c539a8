package host

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/test/testserver"
)

// accountToken returns a token of the default service account in the namespace default.
func (r *running) accountToken(t *testing.T) string {
	t.Helper()
	r.awaitAccount(t, "default")
	var request authenticationv1.TokenRequest
	if err := json.Unmarshal([]byte(r.must(t, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", `{"spec":{}}`)), &request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// certificateClient returns a client with a certificate of the control plane's own authority.
func (r *running) certificateClient(t *testing.T, user string, groups ...string) *http.Client {
	t.Helper()
	key := r.requestCertificate(t, user, certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: user, Organization: groups}, certificatesv1.UsageClientAuth)
	r.decide(t, user, certificatesv1.CertificateApproved, time.Now())
	status := r.awaitRequest(t, user, func(s *certificatesv1.CertificateSigningRequestStatus) bool { return len(s.Certificate) > 0 })
	var chain [][]byte
	for block, rest := pem.Decode(status.Certificate); block != nil; block, rest = pem.Decode(rest) {
		chain = append(chain, block.Bytes)
	}
	return client(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{{Certificate: chain, PrivateKey: key}} })
}

// TestControlPlaneCredentials uses the credentials of each control plane in all control planes. It checks that
// they are valid only where they are expected to be.
func TestControlPlaneCredentials(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	planes := map[string]*running{"root": s, "a": s.tenant(t, "a", `{}`), "b": s.tenant(t, "b", `{}`)}
	anyone := client(t, nil)
	for name, from := range planes {
		token := from.accountToken(t)
		byCertificate := from.certificateClient(t, "jane", "devs")
		for other, to := range planes {
			if other == "root" && name == "root" {
				continue
			}
			wantToken, wantCertificate, wantAdmin := "401", "401", "401"
			switch {
			case name == other:
				wantToken, wantCertificate, wantAdmin = "200", "200", "200"
			case name == "root": // a user of the root without the permission
				wantToken, wantCertificate, wantAdmin = "403", "403", "200"
			}
			code, _, _ := strings.Cut(exchange(t, anyone, "GET", to.URL+"/api", "", nil, "Authorization", "Bearer "+token), " ")
			if code != wantToken {
				t.Errorf("a service account of %s in %s: %s, want %s", name, other, code, wantToken)
			}
			code, _, _ = strings.Cut(exchange(t, byCertificate, "GET", to.URL+"/api", "", nil), " ")
			if code != wantCertificate {
				t.Errorf("a certificate of %s in %s: %s, want %s", name, other, code, wantCertificate)
			}
			code, _, _ = strings.Cut(exchange(t, from.admin, "GET", to.URL+"/api", "", nil), " ")
			if code != wantAdmin {
				t.Errorf("the administrator of %s in %s: %s, want %s", name, other, code, wantAdmin)
			}
			var review authenticationv1.TokenReview
			body, err := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(to.must(t, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", string(body))), &review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Authenticated != (name == other) {
				t.Errorf("a review of a token of %s in %s: %+v", name, other, review.Status)
			}
		}
	}
	// An administrator cannot act as a user of another control plane.
	a := planes["a"]
	a.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		`{"metadata":{"name":"all"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:authenticated"}]}`)
	for _, header := range [][]string{
		{"Impersonate-User", "kubernetes-admin", "Impersonate-Group", "system:masters"},
		{"X-Remote-User", "kubernetes-admin", "X-Remote-Group", "system:masters"},
	} {
		for _, to := range []*running{s, planes["b"]} {
			if code, body := a.sendBy(t, a.admin, "GET", "/../../"+strings.TrimPrefix(to.URL, s.URL+"/")+"/api", "", header...); code == 200 {
				t.Errorf("%v in %s: %s", header, to.URL, body)
			}
		}
	}
}

// TestVisitorByFrontProxy checks that users whom a front proxy of the root control plane has authenticated can
// enter other control planes, whether these control planes are open or closed.
func TestVisitorByFrontProxy(t *testing.T) {
	t.Parallel()
	config := Config{}
	config.ControlPlanes.Idle = time.Hour
	s := start(t, config)
	s.tenant(t, "open", `{}`).must(t, "GET", "/api", "")
	s.declare(t, "closed", `{}`)
	s.awaitPhase(t, "closed", controlplanes.Ready)
	certificate, err := s.host.identity.frontProxy.certificate()
	if err != nil {
		t.Fatal(err)
	}
	proxy := as(t, *certificate)
	for _, name := range []string{"open", "closed", "closed"} {
		url := s.URL + "/clusters/" + name + "/api"
		if code, body := fetch(t, proxy, url, "X-Remote-User", "jane"); code != 403 || !strings.Contains(body, `\"jane\"`) {
			t.Errorf("%s: a user without the permission: %d %s, want 403", name, code, body)
		}
		if code, body := fetch(t, proxy, url, "X-Remote-User", "jane", "X-Remote-Group", "system:masters"); code != 200 {
			t.Errorf("%s: a user with the permission: %d %s, want 200", name, code, body)
		}
	}
}

// TestControlPlaneNames checks that responses to users without the permission to enter do not reveal
// whether a control plane exists.
func TestControlPlaneNames(t *testing.T) {
	t.Parallel()
	config := Config{}
	config.Authentication.TokenFile.File = tokens(t)
	s := start(t, config)
	s.tenant(t, "exists", `{"limits":{"requestsPerSecond":1}}`).send(t, "GET", "/api", "")
	s.tenant(t, "pauses", `{"paused":false}`)
	s.must(t, "PUT", controlPlanePath+"/pauses", `{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"pauses","resourceVersion":"`+s.controlPlane(t, "pauses").ResourceVersion+`"},"spec":{"paused":true}}`)
	describe := func(path, token string, header ...string) string {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := client(t, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var lines []string
		for name := range response.Header {
			if value := response.Header.Get(name); name == "Date" || name == "Audit-Id" || name == "Content-Length" {
				lines = append(lines, name)
			} else {
				lines = append(lines, name+"="+value)
			}
		}
		slices.Sort(lines)
		var status struct {
			Message string
			Code    int
		}
		_ = json.NewDecoder(response.Body).Decode(&status) // if the body is not a Status, the code is 0
		return fmt.Sprint(response.Status, lines, status)
	}
	for _, token := range []string{"", "unknown", "jane"} {
		for _, path := range []string{"", "/", "/api", "/version", "/livez", "/metrics", "/openapi/v2", "/apis/x/../y", "/api/v1/namespaces/kube-system/secrets", "/at/-1m/api", "/no/such", "/api/v1/watch/pods", "//", "/%2e%2e/api", "/healthz?verbose", "/api?timeout=x", "/api/v1/pods?watch=true&timeout=x", "/api/v1/pods?watch=x", "/?a=%zz;"} {
			want := describe("/clusters/missing"+path, token)
			for _, name := range []string{"exists", "pauses"} {
				if got := strings.ReplaceAll(describe("/clusters/"+name+path, token), name, "missing"); got != want {
					t.Errorf("%s%s as %q:\n%s\nmissing:\n%s", name, path, token, got, want)
				}
			}
			if want[:3] != "401" && want[:3] != "403" && want[:3] != "400" && want[:3] != "307" && want[:3] != "301" {
				t.Errorf("GET %s: response %s, want a rejection or redirect", path, want)
			}
		}
	}
	if code, text := s.send(t, "GET", "/clusters/exists/api?timeout=x", ""); code != 400 && code != 429 || code == 400 && !strings.Contains(text, "invalid timeout") {
		t.Errorf("an invalid timeout of a user with access: %d %s, want 400", code, text)
	}
	// Users with the permission receive the reason.
	s.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"enter"},"rules":[{"apiGroups":["mainstay.dev"],"resources":["controlplanes"],"verbs":["access"],"resourceNames":["exists","missing","pauses"]}]}`)
	s.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"enter"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"enter"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	for name, want := range map[string]string{"missing": "404", "pauses": "503", "other": "403"} {
		if got := withToken(t, s, "jane", "/clusters/"+name+"/api"); got != want {
			t.Errorf("jane at %s: %s, want %s", name, got, want)
		}
	}
	testserver.Eventually(t, time.Minute, func() error { // the limit is one request per second
		var whoami authenticationv1.SelfSubjectReview
		got := exchange(t, client(t, nil), "POST", s.URL+"/clusters/exists/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, &whoami, "Authorization", "Bearer jane")
		if user := whoami.Status.UserInfo; user.Username != "root:jane" || !slices.Contains(user.Groups, "system:masters") {
			return fmt.Errorf("review of jane: response %s, user %+v", got, user)
		}
		return nil
	})
}

// TestControlPlaneAudit checks that the audit log contains the requests to control planes, with their full
// paths. It includes requests of users of the root control plane.
func TestControlPlaneAudit(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.log")
	config := Config{}
	config.ControlPlane.Audit = audit.NewOptions()
	config.ControlPlane.Audit.Log.Path = log
	config.ControlPlane.Audit.PolicyFile = writeFile(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n")
	s := start(t, config)
	a := s.tenant(t, "a", `{}`)
	a.must(t, "POST", configMapPath, `{"metadata":{"name":"x"}}`)
	s.expectCode(t, 200, "", "GET", "/clusters/a"+configMapPath+"/x")
	for _, want := range []string{
		`"requestURI":"/clusters/a/api/v1/namespaces/default/configmaps","verb":"create","user":{"username":"kubernetes-admin"`,
		`"requestURI":"/clusters/a/api/v1/namespaces/default/configmaps/x","verb":"get","user":{"username":"root:kubernetes-admin"`,
		`"requestURI":"/clusters/a/api/v1/namespaces/kube-system/`, // a request of the server itself
	} {
		testserver.Eventually(t, time.Minute, func() error {
			text, err := os.ReadFile(log)
			if err != nil {
				return err
			}
			if !strings.Contains(string(text), want) {
				return fmt.Errorf("the log does not contain %s:\n%s", want, text)
			}
			return nil
		})
	}
}

// TestControlPlaneLimits checks the effect of each limit.
func TestControlPlaneLimits(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	objects := s.tenant(t, "objects", `{"limits":{"objects":250}}`)
	await := func(at *running, name, want string) string {
		t.Helper()
		var answer string
		for i := 0; ; i++ {
			var code int
			code, answer = at.send(t, "POST", configMapPath, fmt.Sprintf(`{"metadata":{"name":"m%d"},"data":{"x":%q}}`, i, strings.Repeat("x", 1000)))
			if code == 403 && strings.Contains(answer, want) {
				return answer
			}
			if code != 201 || i > 5000 {
				t.Fatalf("%s: create m%d: %d %s", name, i, code, answer)
			}
		}
	}
	await(objects, "objects", "spec.limits.objects=250")
	for i := range 20 { // delete several objects, because controllers also create objects
		objects.must(t, "DELETE", fmt.Sprintf("%s/m%d", configMapPath, i), "")
	}
	testserver.Eventually(t, time.Minute, func() error { // the count changes after the deletion
		if code, answer := objects.send(t, "PATCH", configMapPath+"/m0?fieldManager=x", `{"apiVersion":"v1","kind":"ConfigMap"}`, "Content-Type", "application/apply-patch+yaml"); code != 201 {
			return fmt.Errorf("apply m0 after the deletion: %d %s", code, answer)
		}
		return nil
	})
	if code, answer := objects.send(t, "PATCH", configMapPath+"/m-1?fieldManager=x", `{"apiVersion":"v1","kind":"ConfigMap"}`, "Content-Type", "application/apply-patch+yaml"); code != 403 && code != 201 {
		t.Errorf("apply near the limit: code %d, want 201 or 403: %s", code, answer)
	}
	await(s.tenant(t, "bytes", `{"limits":{"bytes":"200Ki"}}`), "bytes", "spec.limits.bytes=204800")

	watches := s.tenant(t, "watches", `{"limits":{"watches":2}}`)
	for range 2 {
		watches.stream(t, configMapPath+"?watch=true")
	}
	watches.expectCode(t, 429, "spec.limits.watches=2", "GET", configMapPath+"?watch=true")
	watches.expectCode(t, 200, "", "GET", configMapPath)

	rate := s.tenant(t, "rate", `{"limits":{"requestsPerSecond":1}}`)
	testserver.Eventually(t, time.Minute, func() error { // on a slow machine, few requests arrive in a second
		var limited atomic.Int32
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if code, answer := rate.send(t, "GET", "/api", ""); code == 429 && strings.Contains(answer, "spec.limits.requestsPerSecond=1") {
					limited.Add(1)
				}
			})
		}
		group.Wait()
		if limited.Load() == 0 {
			return errors.New("no request was limited")
		}
		return nil
	})
	object := s.controlPlane(t, "objects")
	object.Spec.Limits.Objects = 0
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	s.must(t, "PUT", controlPlanePath+"/objects", string(body))
	testserver.Eventually(t, time.Minute, func() error { // the fleet applies the change later
		if code, answer := objects.send(t, "POST", configMapPath, `{"metadata":{"generateName":"m-"}}`); code != 201 {
			return fmt.Errorf("create with the new limit: %d %s", code, answer)
		}
		return nil
	})
}
