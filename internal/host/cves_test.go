package host

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/test/extension"
	"mainstay.dev/mainstay/test/testserver"
)

// send sends a request as the administrator, and returns the status code and the response body.
func (r *running) send(t testing.TB, method, path, body string, header ...string) (int, string) {
	t.Helper()
	return r.sendBy(t, r.admin, method, path, body, header...)
}

func (r *running) sendBy(t testing.TB, by *http.Client, method, path, body string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := by.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// must sends a request as the administrator and returns the response body. It fails the test if the status code
// is above 299.
func (r *running) must(t testing.TB, method, path, body string) string {
	t.Helper()
	code, text := r.send(t, method, path, body)
	if code > 299 {
		t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},
	"spec":{"group":"example.com","scope":"%[3]s","names":{"plural":"%[1]s","kind":"%[2]s"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

// TestPublicAttacks tries attacks to which kube-apiserver was vulnerable. docs/operations/security.md lists the
// names of the vulnerabilities.
func TestPublicAttacks(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	t.Run("CVE-2015-5305", func(t *testing.T) { testNamesAsPaths(t, s) })
	t.Run("CVE-2016-5392", func(t *testing.T) { testNamespacePrefix(t, s) })
	t.Run("CVE-2017-1000056", func(t *testing.T) {
		if code, body := s.send(t, "GET", "/apis/policy/v1beta1/podsecuritypolicies", ""); code != 404 {
			t.Errorf("list the removed pod security policies: %d %s, want code 404", code, body)
		}
	})
	t.Run("CVE-2019-11247, CVE-2022-3162", func(t *testing.T) { testCustomResources(t, s) })
	t.Run("CVE-2019-11254", func(t *testing.T) { testCostlyYAML(t, s) })
	t.Run("CVE-2019-16276", func(t *testing.T) { testSpaceBeforeColon(t, s) })
	t.Run("CVE-2020-8552", func(t *testing.T) { testMetricSeries(t, s) })
	t.Run("CVE-2020-8554, CVE-2021-25740", func(t *testing.T) { testDefaultRoles(t, s) })
	t.Run("CVE-2023-44487", func(t *testing.T) { testUnauthenticatedHTTP2(t, s) })
	t.Run("CVE-2021-25737", func(t *testing.T) { testEndpointAddresses(t, s) })
}

// testNamesAsPaths checks that a name in a path or in an object cannot access anything outside its collection.
func testNamesAsPaths(t *testing.T, s *running) {
	const collection = "/api/v1/namespaces/default/configmaps"
	for _, name := range []string{"..", ".", "a/../b", "../secrets/x", "a%2fb", strings.Repeat("x", 5000)} {
		if code, body := s.send(t, "POST", collection, fmt.Sprintf(`{"metadata":{"name":%q}}`, name)); code != 422 {
			t.Errorf("create %.20s: %d %.200s", name, code, body)
		}
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			code, body := s.send(t, method, collection+"/"+url.PathEscape(name), fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
			if code != 400 && code != 404 && code != 405 && code != 422 {
				t.Errorf("%s %.20s: %d %.200s", method, name, code, body)
			}
		}
	}
}

// testNamespacePrefix checks that a list of a namespace does not contain objects of another namespace whose
// name has the same prefix.
func testNamespacePrefix(t *testing.T, s *running) {
	for _, name := range []string{"foo", "foobar"} {
		s.must(t, "POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		s.must(t, "POST", "/api/v1/namespaces/"+name+"/configmaps", `{"metadata":{"name":"of-`+name+`"}}`)
	}
	for _, query := range []string{"", "?resourceVersion=0", "?limit=100", "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"} {
		body := s.must(t, "GET", "/api/v1/namespaces/foo/configmaps"+query, "")
		if strings.Contains(body, "of-foobar") || !strings.Contains(body, "of-foo") {
			t.Errorf("list namespace foo with the query %q: %s", query, body)
		}
	}
}

// testCustomResources checks that cluster-scoped custom resources cannot be accessed through a namespace, and
// that objects of one kind cannot be accessed through the path of another kind.
func testCustomResources(t *testing.T, s *running) {
	const group = "/apis/example.com/v1"
	s.must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(crd, "wide", "Wide", "Cluster"))
	s.must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(crd, "narrow", "Narrow", "Namespaced"))
	testserver.Eventually(t, time.Minute, func() error {
		if code, body := s.send(t, "GET", group+"/narrow", ""); code != 200 {
			return fmt.Errorf("list the namespaced resource: %d %s", code, body)
		}
		return nil
	})
	s.must(t, "POST", group+"/wide", `{"apiVersion":"example.com/v1","kind":"Wide","metadata":{"name":"hidden"}}`)
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		if code, body := s.send(t, method, group+"/namespaces/default/wide/hidden", `{}`, "Content-Type", "application/merge-patch+json"); code != 404 {
			t.Errorf("%s of a cluster-scoped object in a namespace: %d %s, want code 404", method, code, body)
		}
	}
	for _, path := range []string{"/namespaces/default/wide", "/namespaces/default/wide?watch=1&timeoutSeconds=1", "/namespaces/default/narrow/%2e%2e/wide",
		"/namespaces/default/narrow%2f..%2fwide", "/namespaces/..%2f..%2fwide/narrow", "/narrow/..%2fwide"} {
		if code, body := s.send(t, "GET", group+path, ""); strings.Contains(body, "hidden") || code == 200 && !strings.Contains(body, `"items":[]`) {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
	if code, body := s.send(t, "POST", group+"/narrow", `{"apiVersion":"example.com/v1","kind":"Narrow","metadata":{"name":"x"}}`); code != 404 {
		t.Errorf("create without a namespace: %d %s", code, body)
	}
}

// testCostlyYAML checks that YAML that consists of colons or indentation is rejected quickly. A parser with
// quadratic run time would need minutes.
func testCostlyYAML(t *testing.T, s *running) {
	for _, text := range []string{strings.Repeat(":", 100<<10), strings.Repeat("- ", 50<<10), strings.Repeat("? ", 50<<10), strings.Repeat("\n ", 50<<10) + "x: [", strings.Repeat("[", 100<<10)} {
		if code, body := s.send(t, "POST", "/api/v1/namespaces/default/configmaps", text, "Content-Type", "application/yaml"); code != 400 {
			t.Errorf("%.10q...: %d %.200s", text, code, body)
		}
	}
}

// testSpaceBeforeColon checks that a header name with a trailing space is rejected, because proxies
// may interpret it differently.
func testSpaceBeforeColon(t *testing.T, s *running) {
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", at.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /version HTTP/1.1\r\nHost: %s\r\nX-Remote-User : admin\r\n\r\n", at.Host)
	response, err := http.ReadResponse(bufio.NewReader(net.Conn(conn)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 400 {
		t.Errorf("response code %d, want 400", response.StatusCode)
	}
}

// testMetricSeries checks that values that clients choose do not become label values of metrics.
func testMetricSeries(t *testing.T, s *running) {
	series := func() int { return strings.Count(s.must(t, "GET", "/metrics", ""), "\n") }
	makeUp := func(i int) {
		s.send(t, "GET", fmt.Sprintf("/made/up/%d", i), "")
		s.send(t, "GET", fmt.Sprintf("/apis/made%d.up/v%d/things%d/x/y%d", i, i, i, i), "", "User-Agent", fmt.Sprint("made-up-", i))
		s.send(t, fmt.Sprint("MADE", i), fmt.Sprintf("/api/v1/namespaces/made%d/things%d", i, i), "")
	}
	makeUp(0)
	before := series()
	for i := range 300 {
		makeUp(i)
	}
	if after := series(); after > before+100 {
		t.Errorf("%d lines of metrics, %d before", after, before)
	}
}

// testDefaultRoles checks that the roles admin and edit do not allow users to redirect the traffic of a
// namespace.
func testDefaultRoles(t *testing.T, s *running) {
	for _, role := range []string{"admin", "edit", "system:aggregate-to-admin", "system:aggregate-to-edit"} {
		var parsed rbacv1.ClusterRole
		if err := json.Unmarshal([]byte(s.must(t, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+role, "")), &parsed); err != nil {
			t.Fatal(err)
		}
		for _, rule := range parsed.Rules {
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
			for _, resource := range []string{"services/status", "endpoints", "endpointslices", "*"} {
				if writes && slices.Contains(rule.Resources, resource) {
					t.Errorf("%s may write %s: %+v", role, resource, rule)
				}
			}
		}
	}
}

// testEndpointAddresses checks that endpoints with loopback and link-local addresses are rejected.
func testEndpointAddresses(t *testing.T, s *running) {
	for _, address := range []string{"127.0.0.1", "127.9.9.9", "169.254.169.254", "224.0.0.1", "0.0.0.0", "::1", "fe80::1", "ff02::1", "::"} {
		family := "IPv4"
		if strings.Contains(address, ":") {
			family = "IPv6"
		}
		for path, body := range map[string]string{
			"/api/v1/namespaces/default/endpoints":                        `{"metadata":{"name":"x"},"subsets":[{"addresses":[{"ip":"%[1]s"}],"ports":[{"port":1}]}]}`,
			"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": `{"metadata":{"name":"x"},"addressType":"%[2]s","endpoints":[{"addresses":["%[1]s"]}]}`,
		} {
			if code, answer := s.send(t, "POST", path, fmt.Sprintf(body+"%[3]s", address, family, "")); code != 422 {
				t.Errorf("%s to %s: %d %s", address, path, code, answer)
			}
		}
	}
}

// testUnauthenticatedHTTP2 checks that the server closes a connection after one request without valid
// credentials.
func testUnauthenticatedHTTP2(t *testing.T, s *running) {
	at := map[string]bool{}
	c := client(t, nil)
	for range 3 {
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { at[info.Conn.LocalAddr().String()] = true }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", s.URL+"/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer nonsense")
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != 401 || response.ProtoMajor != 2 {
			t.Errorf("%s over %s", response.Status, response.Proto)
		}
	}
	if len(at) != 3 {
		t.Errorf("three requests used %d connections, want 3", len(at))
	}
}

// TestCredentialsAreNotLogged (CVE-2019-11250, CVE-2020-8565) checks that tokens are not logged, even at the
// highest verbosity, wherever they are in a request.
func TestCredentialsAreNotLogged(t *testing.T) {
	t.Parallel()
	var log testserver.Buffer
	logger, err := telemetry.NewLogger(telemetry.LogConfig{Output: &log, Verbosity: 10})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Logger: logger})
	const secret = "hush-hush-12345"
	for _, header := range [][]string{
		{"Authorization", "Bearer " + secret}, {"Authorization", "bearer  " + secret}, {"Authorization", "Basic " + secret},
		{"Authorization", secret}, {"Cookie", "token=" + secret}, {"Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io." + secret},
		{"Proxy-Authorization", secret}, {"X-Remote-User", secret},
	} {
		fetch(t, client(t, nil), s.URL+"/api/v1/namespaces/default/secrets", header...)
	}
	s.must(t, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"x"},"stringData":{"a":"`+secret+`"}}`)
	s.send(t, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"_"},"stringData":{"a":"`+secret+`"}}`)
	s.send(t, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+secret+`"}}`)
	s.send(t, "PATCH", "/api/v1/namespaces/default/secrets/x", `{"data":"`+secret+`"}`, "Content-Type", "application/merge-patch+json")
	s.end(t)
	if text := log.String(); !strings.Contains(text, "HTTP") || strings.Contains(text, secret) {
		for line := range strings.Lines(text) {
			if bytes.Contains([]byte(line), []byte(secret)) {
				t.Errorf("logged: %s", line)
			}
		}
	}
}

// TestRefusedUpgrade (CVE-2018-1002105, CVE-2020-8559) checks that an aggregated server receives no more data
// from the client after it has rejected or redirected an upgrade.
func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	for _, code := range []int{http.StatusBadRequest, http.StatusFound, http.StatusOK} {
		var paths testserver.Buffer
		o.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(&paths, r.URL.Path)
			if !strings.HasSuffix(r.URL.Path, "/echo") && !strings.Contains(r.URL.Path, "smuggled") {
				return // the request is an availability check
			}
			w.Header().Set("Location", "/smuggled")
			w.WriteHeader(code)
		}))
		config := o.tlsConfig(t)
		config.NextProtos = []string{"http/1.1"}
		at, err := url.Parse(o.URL)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", at.Host, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s/namespaces/default/apples/gala/echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", applesPath)
		answers := bufio.NewReader(conn)
		first, err := http.ReadResponse(answers, nil)
		if err != nil || first.StatusCode == http.StatusSwitchingProtocols {
			t.Fatalf("upgrade with the response %d: %v, error %v", code, first, err)
		}
		_, _ = io.Copy(io.Discard, first.Body)
		fmt.Fprint(conn, "GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, answers) // the response of this server, unless it has closed the connection
		if strings.Contains(paths.String(), "smuggled") || !strings.Contains(paths.String(), "/echo") {
			t.Errorf("%d: the aggregated server received %s", code, paths.String())
		}
	}
}

// TestAdmissionOfEveryWrite (CVE-2016-1905, CVE-2016-1906, CVE-2020-8554, CVE-2021-25735) checks that admission
// applies to every kind of write, and that it receives the old object from the store, not from the request.
func TestAdmissionOfEveryWrite(t *testing.T) {
	t.Parallel()
	s := start(t, Config{ControlPlane: controlplane.Options{Admission: controlplane.AdmissionOptions{EnablePlugins: []string{"DenyServiceExternalIPs"}}}})
	const collection = "/api/v1/namespaces/default/services"
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"ports":[{"port":80}]%s}}`
	with := fmt.Sprintf(service, `,"externalIPs":["192.0.2.7"]`)
	if code, body := s.send(t, "POST", collection, with); code != 403 {
		t.Errorf("create: %d %s", code, body)
	}
	if code, body := s.send(t, "PATCH", collection+"/x?fieldManager=m", with, "Content-Type", "application/apply-patch+yaml"); code != 403 {
		t.Errorf("create by apply: %d %s", code, body)
	}
	s.must(t, "POST", collection, fmt.Sprintf(service, ""))
	for contentType, body := range map[string]string{
		"application/merge-patch+json":           `{"spec":{"externalIPs":["192.0.2.7"]}}`,
		"application/strategic-merge-patch+json": `{"spec":{"externalIPs":["192.0.2.7"]}}`,
		"application/json-patch+json":            `[{"op":"add","path":"/spec/externalIPs","value":["192.0.2.7"]}]`,
		"application/apply-patch+yaml":           with,
	} {
		if code, answer := s.send(t, "PATCH", collection+"/x?fieldManager=m", body, "Content-Type", contentType); code != 403 {
			t.Errorf("patch with %s: %d %s, want code 403", contentType, code, answer)
		}
	}
	if code, body := s.send(t, "PUT", collection+"/x", with); code != 403 {
		t.Errorf("update: %d %s", code, body)
	}
}
