package host

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// startServers starts n servers that share an etcd cluster. Their host names are server0, server1 and so on.
func startServers(t testing.TB, c *etcdtest.Cluster, n int) []*running {
	t.Helper()
	var servers []*running
	for i := range n {
		config := withoutControllers(etcdConfig(c))
		config.Listen.Hostname = fmt.Sprint("server", i)
		servers = append(servers, start(t, config))
	}
	return servers
}

// configWrite is a request that must succeed.
type configWrite struct{ method, path, body string }

// effect is a change that is made through one server and affects the clients of all servers.
type effect struct {
	name   string
	writes []configWrite
	// see returns what a client of a server observes. This must be before until the last write, and after
	// once the write has taken effect.
	see           func(t testing.TB, s *running) string
	before, after string
}

// code returns a function for effect.see. The function returns the status code of a request.
func code(method, path, body string) func(testing.TB, *running) string {
	return func(t testing.TB, s *running) string {
		code, _ := s.do(t, method, path, body)
		return fmt.Sprint(code)
	}
}

// asJane returns a function for effect.see. The function returns the status code of a GET request of the user
// jane.
func asJane(path string) func(testing.TB, *running) string {
	return func(t testing.TB, s *running) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Impersonate-User", "jane")
		resp, err := s.admin.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return fmt.Sprint(resp.StatusCode)
	}
}

// effects returns one effect for each kind of API configuration.
func effects() []effect {
	const (
		definitions   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		roles         = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
		bindings      = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
		policies      = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
		policyBinding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
		webhooks      = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
		registrations = "/apis/apiregistration.k8s.io/v1/apiservices"
		secrets       = "/api/v1/namespaces/default/secrets"
		accounts      = "/api/v1/namespaces/default/serviceaccounts"
		dryRun        = "?dryRun=All"
	)
	widgets := code("GET", "/apis/a.example.com/v1/namespaces/default/widgets", "")
	secret := code("POST", secrets+dryRun, `{"metadata":{"name":"no-more"}}`)
	account := code("POST", accounts+dryRun, `{"metadata":{"name":"no-more"}}`)
	others := code("GET", "/apis/other.example.com/v1", "")
	return []effect{
		{"a definition", []configWrite{{"POST", definitions, `{"metadata":{"name":"widgets.a.example.com"},"spec":{"group":"a.example.com","scope":"Namespaced",
"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`}}, widgets, "404", "200"},
		{"the end of a definition", []configWrite{{"DELETE", definitions + "/widgets.a.example.com", ""}}, widgets, "200", "404"},
		{"a role binding", []configWrite{
			{"POST", roles, `{"metadata":{"name":"reader"},"rules":[{"verbs":["list"],"apiGroups":[""],"resources":["configmaps"]}]}`},
			{"POST", bindings, `{"metadata":{"name":"jane"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"reader"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"jane"}]}`},
		}, asJane(configMaps), "403", "200"},
		{"the end of a role binding", []configWrite{{"DELETE", bindings + "/jane", ""}}, asJane(configMaps), "200", "403"},
		{"an admission policy", []configWrite{
			{"POST", policies, `{"metadata":{"name":"no-more"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}]},"validations":[{"expression":"object.metadata.name != 'no-more'"}]}}`},
			{"POST", policyBinding, `{"metadata":{"name":"no-more"},"spec":{"policyName":"no-more","validationActions":["Deny"]}}`},
		}, secret, "201", "422"},
		{"the end of an admission policy", []configWrite{{"DELETE", policies + "/no-more", ""}}, secret, "422", "201"},
		{"a webhook", []configWrite{{"POST", webhooks, `{"metadata":{"name":"no-more"},"webhooks":[{"name":"no-more.example.com","admissionReviewVersions":["v1"],"sideEffects":"None","timeoutSeconds":1,
"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["serviceaccounts"]}]}]}`}}, account, "201", "500"},
		{"the end of a webhook", []configWrite{{"DELETE", webhooks + "/no-more", ""}}, account, "500", "201"},
		{"a registration", []configWrite{{"POST", registrations, `{"metadata":{"name":"v1.other.example.com"},"spec":{"group":"other.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"service":{"namespace":"default","name":"none"}}}`}}, others, "404", "503"},
		{"the end of a registration", []configWrite{{"DELETE", registrations + "/v1.other.example.com", ""}}, others, "503", "404"},
	}
}

// TestInEffectOnAllServers checks that changes of API configuration, except for definitions, have taken effect
// on the server that handles the write by the time the write returns. They take effect on all other servers
// soon afterwards, without intermediate states.
func TestInEffectOnAllServers(t *testing.T) {
	t.Parallel()
	servers := startServers(t, etcdtest.Start(t, etcdtest.Options{}), 3)
	var took []time.Duration
	for i, e := range effects() {
		writer := servers[i%len(servers)]
		for _, s := range servers {
			if got := e.see(t, s); got != e.before {
				t.Fatalf("before %s: %s", e.name, got)
			}
		}
		for _, w := range e.writes {
			if code, body := writer.do(t, w.method, w.path, w.body); code >= 300 {
				t.Fatalf("%s: %s %s: %d %s", e.name, w.method, w.path, code, body)
			}
		}
		took = append(took, awaitEffect(t, &e, writer, servers))
	}
	t.Logf("in effect on all servers at most %s after the response: %v", slices.Max(took), took)
}

// awaitEffect waits until the effect is visible on all servers. It returns the time since the response of the
// writer.
func awaitEffect(t *testing.T, e *effect, writer *running, servers []*running) time.Duration {
	responded := time.Now()
	var mu sync.Mutex
	var last time.Duration
	var waiting sync.WaitGroup
	for _, s := range servers {
		waiting.Go(func() {
			timeout := time.Minute
			if s == writer && !strings.Contains(e.name, "a definition") { // definitions take effect asynchronously
				timeout = 0
			}
			err := awaitSeen(t, e, s, timeout)
			mu.Lock()
			defer mu.Unlock()
			if last = max(last, time.Since(responded)); err != nil {
				t.Errorf("wait for the effect of %s: %v", e.name, err)
			}
		})
	}
	waiting.Wait()
	return last
}

func awaitSeen(t *testing.T, e *effect, s *running, timeout time.Duration) error {
	for until := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		switch got := e.see(t, s); {
		case got == e.after:
			return nil
		case got != e.before:
			return fmt.Errorf("the intermediate state is %s", got)
		case !time.Now().Before(until):
			return fmt.Errorf("the change has not taken effect after %s", timeout)
		}
	}
}
