package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	controlPlanePath = "/apis/mainstay.dev/v1/controlplanes"
	secretPath       = "/api/v1/namespaces/kube-system/secrets"
	configMapPath    = "/api/v1/namespaces/default/configmaps"
)

// declare creates a ControlPlane object.
func (r *running) declare(t testing.TB, name, spec string) {
	t.Helper()
	r.must(t, "POST", controlPlanePath, fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":%q},"spec":%s}`, name, spec))
}

// tenant creates a control plane and returns the control plane with a client that uses its kubeconfig.
func (r *running) tenant(t testing.TB, name, spec string) *running {
	t.Helper()
	r.declare(t, name, spec)
	r.awaitPhase(t, name, controlplanes.Ready)
	return r.enter(t, name)
}

// enter returns the control plane with the given name, and with a client that uses its current kubeconfig.
func (r *running) enter(t testing.TB, name string) *running {
	t.Helper()
	var secret corev1.Secret
	r.read(t, secretPath+"/"+name+"-kubeconfig", &secret)
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	entered := &running{Serving: r.Serving, host: r.host}
	entered.URL, entered.Kubeconfig = config.Host, writeFile(t, name+".kubeconfig", string(secret.Data["kubeconfig"]))
	if entered.admin, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	return entered
}

func (r *running) controlPlane(t testing.TB, name string) controlplanes.ControlPlane {
	t.Helper()
	var object controlplanes.ControlPlane
	if err := json.Unmarshal([]byte(r.must(t, "GET", controlPlanePath+"/"+name, "")), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func (r *running) awaitPhase(t testing.TB, name string, want controlplanes.Phase) {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		if got := r.controlPlane(t, name); got.Status.Phase != want {
			return fmt.Errorf("the control plane is %+v", got.Status)
		}
		return nil
	})
}

// keysOf returns the number of storage keys of control planes that contain the text part.
func (r *running) keysOf(t testing.TB, part string) int {
	t.Helper()
	const all = "/registry.controlplanes/"
	found, err := r.host.store.backend.Range(t.Context(), kv.RangeRequest{Start: all, End: kv.PrefixEnd(all)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range found.Entries {
		if key := found.Entries[i].Key; strings.Contains(key, part) && !strings.HasPrefix(key, all+controlplanes.TemplatesKey+"/") {
			n++
		}
	}
	return n
}

// TestControlPlane creates, uses, pauses and deletes a control plane, and creates another control plane
// with the same name.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	a := s.tenant(t, "a", `{}`)
	object := s.controlPlane(t, "a")
	if object.Status.URL != a.URL || a.URL != s.URL+"/clusters/a" || len(object.Finalizers) != 1 {
		t.Errorf("control plane %+v, want the URL %s/clusters/a and a finalizer", object, s.URL)
	}
	a.awaitAccount(t, "default")
	a.must(t, "POST", configMapPath, `{"metadata":{"name":"x"},"data":{"k":"v"}}`)
	establish(t, dynamicClient(t, a), definitionOf("example.com", "Widget", map[string]string{"v1": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`}, "v1"))
	a.must(t, "POST", "/apis/example.com/v1/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`)
	s.expectCode(t, 404, "", "GET", "/apis/example.com/v1/widgets")
	s.expectCode(t, 404, "", "GET", configMapPath+"/x")
	a.expectCode(t, 404, "", "GET", controlPlanePath)

	// A watch receives events of the control plane, and ends when the control plane is paused.
	watch := bufio.NewReader(a.stream(t, configMapPath+"?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dx"))
	if line, err := watch.ReadString('\n'); err != nil || !strings.Contains(line, `"ADDED"`) {
		t.Errorf("watch: line %s, error %v; want ADDED", line, err)
	}
	s.must(t, "PUT", controlPlanePath+"/a", `{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"a","resourceVersion":"`+s.controlPlane(t, "a").ResourceVersion+`"},"spec":{"paused":true}}`)
	s.awaitPhase(t, "a", controlplanes.Paused)
	if rest, err := watch.ReadString('\n'); err == nil {
		t.Errorf("an event of a paused control plane: %s", rest)
	}
	a.expectCode(t, 503, "paused", "GET", configMapPath)
	s.must(t, "PUT", controlPlanePath+"/a", `{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"a","resourceVersion":"`+s.controlPlane(t, "a").ResourceVersion+`"},"spec":{}}`)
	s.awaitPhase(t, "a", controlplanes.Ready)
	a.expectCode(t, 200, `"k":"v"`, "GET", configMapPath+"/x")

	uid := string(s.controlPlane(t, "a").UID)
	if n := s.keysOf(t, uid); n < 10 || n > 60 { // the objects of the template are not stored
		t.Errorf("%d keys of the control plane are stored", n)
	}
	s.must(t, "DELETE", controlPlanePath+"/a", "")
	s.awaitCode(t, controlPlanePath+"/a", 404)
	if n := s.keysOf(t, ""); n != 0 {
		t.Errorf("%d keys remain", n)
	}
	s.expectCode(t, 404, "", "GET", secretPath+"/a-kubeconfig")

	again := s.tenant(t, "a", `{}`)
	again.expectCode(t, 404, "", "GET", configMapPath+"/x")
	a.expectCode(t, 401, "", "GET", configMapPath)
}

// TestControlPlaneObjects checks the validation and the columns of ControlPlane objects.
func TestControlPlaneObjects(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for name, spec := range map[string]string{
		"A": `{}`, "a.b": `{}`, strings.Repeat("a", 64): `{}`, "l1": `{"limits":{"objects":0}}`, "l2": `{"limits":{"bytes":"-1"}}`,
		"l3": `{"limits":{"watches":"x"}}`, "l4": `{"limits":{"requestsPerSecond":-5}}`, "l5": `{"limits":{"bytes":"99999999999999999999Gi"}}`,
	} {
		body := fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":%q},"spec":%s}`, name, spec)
		if code, answer := s.send(t, "POST", controlPlanePath, body); code != 422 {
			t.Errorf("create %s: %d %s, want code 422", body, code, answer)
		}
	}
	s.tenant(t, "ok", `{"limits":{"objects":1000,"bytes":"10Mi","watches":5,"requestsPerSecond":100,"concurrentRequests":3}}`)
	table := s.expectCode(t, 200, `"Last Request"`, "GET", controlPlanePath, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(table, `"Ready"`) {
		t.Error(table)
	}
	// The definition of ControlPlane objects is built in, so clients cannot read or create it.
	s.expectCode(t, 404, "", "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/controlplanes.mainstay.dev")
	code, answer := s.send(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		strings.ReplaceAll(fmt.Sprintf(crd, "controlplanes", "ControlPlane", "Cluster"), "example.com", "mainstay.dev"))
	if code != 422 {
		t.Errorf("a definition of control planes: %d %s", code, answer)
	}
	// A Secret of another program is neither used nor overwritten.
	s.must(t, "POST", secretPath, `{"metadata":{"name":"taken-kubeconfig"},"stringData":{"token":"secret"}}`)
	s.declare(t, "taken", `{}`)
	testserver.Eventually(t, time.Minute, func() error {
		conditions := s.controlPlane(t, "taken").Status.Conditions
		if len(conditions) != 1 || conditions[0].Reason != "SecretConflict" {
			return fmt.Errorf("conditions %+v, want the reason SecretConflict", conditions)
		}
		return nil
	})
	if got := exchange(t, client(t, nil), "GET", s.URL+"/clusters/taken/api", "", nil, "Authorization", "Bearer secret"); !strings.HasPrefix(got, "401") {
		t.Errorf("the token of another Secret: %s", got)
	}
	s.must(t, "DELETE", controlPlanePath+"/taken", "")
	s.awaitCode(t, controlPlanePath+"/taken", 404)
	s.expectCode(t, 200, "", "GET", secretPath+"/taken-kubeconfig")
}

// TestControlPlaneFinalizer checks that a new object has the finalizer of the server in addition to the
// finalizers of the client, and that the server adds its finalizer again if a client removes it.
func TestControlPlaneFinalizer(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	created := s.must(t, "POST", controlPlanePath, `{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"a","finalizers":["example.com/other"]}}`)
	if want := `"finalizers":["example.com/other","` + controlplanes.Finalizer + `"]`; !strings.Contains(created, want) {
		t.Errorf("%s does not contain %s", created, want)
	}
	s.patch(t, controlPlanePath+"/a", `{"metadata":{"finalizers":null}}`)
	testserver.Eventually(t, time.Minute, func() error {
		if got := s.controlPlane(t, "a").Finalizers; len(got) != 1 || got[0] != controlplanes.Finalizer {
			return fmt.Errorf("finalizers %v", got)
		}
		return nil
	})
}

// TestControlPlaneRotation checks that a deleted Secret is replaced, and that the token in the deleted Secret
// is no longer valid.
func TestControlPlaneRotation(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	a := s.tenant(t, "a", `{}`)
	a.expectCode(t, 200, "", "GET", "/api")
	s.must(t, "DELETE", secretPath+"/a-kubeconfig", "")
	s.awaitCode(t, secretPath+"/a-kubeconfig", 200)
	again := s.enter(t, "a")
	again.awaitCode(t, "/api", 200)
	a.awaitCode(t, "/api", 401)
}

// TestControlPlaneTokenRemoved checks that a Secret whose data was removed receives a new token, and that the
// old token is no longer valid.
func TestControlPlaneTokenRemoved(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	a := s.tenant(t, "a", `{}`)
	a.expectCode(t, 200, "", "GET", "/api")
	if code, body := s.send(t, "PATCH", secretPath+"/a-kubeconfig", `{"data":null}`, "Content-Type", "application/merge-patch+json"); code != 200 {
		t.Fatal(code, body)
	}
	testserver.Eventually(t, time.Minute, func() error {
		if _, body := s.send(t, "GET", secretPath+"/a-kubeconfig", ""); !strings.Contains(body, `"token":`) || !strings.Contains(body, `"kubeconfig":`) {
			return fmt.Errorf("the Secret is %s", body)
		}
		return nil
	})
	s.enter(t, "a").awaitCode(t, "/api", 200)
	a.awaitCode(t, "/api", 401)
}

// TestControlPlaneIdle checks that a control plane without requests closes, that the next request opens it
// again, and that a watch keeps it open.
func TestControlPlaneIdle(t *testing.T) {
	t.Parallel()
	config := Config{}
	config.ControlPlanes.Idle = 50 * time.Millisecond
	s := start(t, config)
	a := s.tenant(t, "a", `{}`)
	a.must(t, "POST", configMapPath, `{"metadata":{"name":"x"}}`)
	isOpen := func() bool { return s.host.fleet.IsOpen("a") }
	awaitClosed := func() {
		t.Helper()
		testserver.Eventually(t, time.Minute, func() error {
			if isOpen() {
				return fmt.Errorf("the control plane is open")
			}
			return nil
		})
	}
	awaitClosed()
	// Requests with invalid credentials do not open the control plane.
	for _, token := range []string{"x", "e30.e30.e30"} {
		if got := withToken(t, s, token, "/clusters/a/api"); got != "401" {
			t.Errorf("token %s: code %s, want 401", token, got)
		}
	}
	if isOpen() {
		t.Error("invalid credentials opened the control plane")
	}
	a.expectCode(t, 200, "", "GET", configMapPath+"/x")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", a.URL+configMapPath+"?watch=true&resourceVersion=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := a.admin.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	for range 5 { // the first call records that the controllers are not busy
		s.host.fleet.CloseIdle(0)
	}
	if !isOpen() {
		t.Error("the control plane was closed despite a watch")
	}
	a.must(t, "POST", configMapPath, `{"metadata":{"name":"y"}}`)
	lines := bufio.NewReader(watch.Body)
	for seen := false; !seen; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		seen = strings.Contains(line, `"name":"y"`)
	}
	cancel()
	awaitClosed()
}

// TestControlPlaneMetrics checks the metrics of control planes with a limit of two control planes that have
// their own series.
func TestControlPlaneMetrics(t *testing.T) {
	t.Parallel()
	config := Config{}
	two := 2
	config.ControlPlanes.Series = &two
	s := start(t, config)
	s.tenant(t, "unused", `{}`)
	s.tenant(t, "a", `{}`).must(t, "GET", configMapPath, "")
	busy := s.tenant(t, "busy", `{}`)
	for range 5 {
		busy.must(t, "GET", configMapPath, "")
	}
	limited := s.tenant(t, "limited", `{"limits":{"objects":1}}`)
	requests := 3
	for range requests {
		limited.must(t, "GET", configMapPath, "")
	}
	testserver.Eventually(t, time.Minute, func() error { // wait until the objects are counted
		requests++
		if code, _ := limited.do(t, "POST", configMapPath, fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, requests)); code != http.StatusForbidden {
			return fmt.Errorf("code %d", code)
		}
		return nil
	})
	var own []string
	for line := range strings.Lines(s.must(t, "GET", "/metrics", "")) {
		if strings.HasPrefix(line, "mainstay_control_plane") && !strings.HasPrefix(line, "mainstay_control_plane_stored_bytes") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	want := []string{
		`mainstay_control_plane_rejected_requests_total{control_plane="busy"} 0`, `mainstay_control_plane_rejected_requests_total{control_plane="limited"} 1`,
		`mainstay_control_plane_requests_total{control_plane="busy"} 5`, fmt.Sprintf(`mainstay_control_plane_requests_total{control_plane="limited"} %d`, requests),
		`mainstay_control_planes 4`, `mainstay_control_planes_open 3`,
	}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestControlPlaneWakes checks that a closed control plane opens when a controller has work, including
// after a restart.
func TestControlPlaneWakes(t *testing.T) {
	t.Parallel()
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	config := Config{Storage: StorageConfig{DataDir: t.TempDir()}}
	config.ControlPlanes.Idle = 50 * time.Millisecond
	s := start(t, config)
	a := s.tenant(t, "a", `{}`)
	finish := func(name string, lifetime time.Duration) {
		t.Helper()
		a.must(t, "POST", jobs, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"ttlSecondsAfterFinished":%d,
			"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`, name, int(lifetime.Seconds())))
		now := time.Now().UTC().Format(time.RFC3339)
		a.patch(t, jobs+"/"+name+"/status", fmt.Sprintf(`{"status":{"startTime":%[1]q,"completionTime":%[1]q,"succeeded":1,"conditions":[
			{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":%[1]q},
			{"type":"Complete","status":"True","lastTransitionTime":%[1]q}]}}`, now))
	}
	exists := func(name string) bool { return s.keysOf(t, "/jobs/default/"+name) != 0 }
	// finishAndClose creates finished jobs until the control plane closes before the last of them expires. It returns the
	// name of this job and the wake time. On a slow machine, the control plane can stay open for longer than a job exists.
	finishAndClose := func(prefix string) (name string, wake time.Time) {
		t.Helper()
		for lifetime := 2 * time.Second; lifetime < time.Minute; lifetime *= 2 {
			name = fmt.Sprintf("%s-%d", prefix, int(lifetime.Seconds()))
			finish(name, lifetime)
			closed := false
			testserver.Eventually(t, 2*time.Minute, func() error {
				due := s.controlPlane(t, "a").Status.WakeTime
				closed = due != nil && time.Until(due.Time) < time.Hour && !s.host.fleet.IsOpen("a")
				if closed {
					wake = due.Time
				} else if exists(name) {
					return fmt.Errorf("the control plane is open, or has the wrong wake time %v", due)
				}
				return nil
			})
			if closed {
				return name, wake
			}
		}
		t.Fatal("the control plane does not close before its job expires")
		return "", time.Time{}
	}
	awaitDeleted := func(name string) {
		t.Helper()
		testserver.Eventually(t, 2*time.Minute, func() error {
			if exists(name) {
				return fmt.Errorf("the job %s exists", name)
			}
			return nil
		})
	}
	name, _ := finishAndClose("x")
	awaitDeleted(name)
	name, wake := finishAndClose("y")
	s.end(t)
	s = start(t, config)
	if s.host.fleet.IsOpen("a") && time.Now().Before(wake) {
		t.Error("the control plane was opened when the server started")
	}
	awaitDeleted(name)
}

// TestControlPlaneTerminating checks that requests to a control plane do not create keys while its ControlPlane
// object is being deleted.
func TestControlPlaneTerminating(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.must(t, "POST", controlPlanePath, `{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"a","finalizers":["example.com/other"]}}`)
	s.awaitPhase(t, "a", controlplanes.Ready)
	a := s.enter(t, "a")
	token := a.accountToken(t)
	s.must(t, "DELETE", controlPlanePath+"/a", "")
	testserver.Eventually(t, time.Minute, func() error {
		if finalizers := s.controlPlane(t, "a").Finalizers; len(finalizers) != 1 {
			return fmt.Errorf("finalizers %v", finalizers)
		}
		return nil
	})
	for _, credential := range []string{token, "x"} {
		if got := withToken(t, s, credential, "/clusters/a/api"); got != "401" {
			t.Errorf("token %s: code %s, want 401", credential, got)
		}
	}
	s.expectCode(t, 404, "", "GET", "/clusters/a/api")
	if n := s.keysOf(t, ""); n != 0 {
		t.Errorf("%d keys were created", n)
	}
}
