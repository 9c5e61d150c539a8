package apitest_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/apitest"
	"mainstay.dev/mainstay/test/testserver"
)

// applyWidgets creates the definition of widgets and one widget.
func applyWidgets(t *testing.T, server *apitest.Server) {
	t.Helper()
	dir := t.TempDir()
	one := "{apiVersion: example.com/v1, kind: Widget, metadata: {name: one}}\n---\n"
	if err := os.WriteFile(filepath.Join(dir, "widgets.yaml"), []byte(one+testserver.Widgets), 0o600); err != nil {
		t.Fatal(err)
	}
	server.ApplyCRDs(dir)
	server.Apply(dir)
}

func client(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]apitest.Options{"in memory": {}, "on disk": {OnDisk: true}, "with a port": {Port: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := options.Start(t)
			admin := client(t, server.Config())
			if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			jane := client(t, server.As("jane", "developers"))
			if _, err := jane.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("jane's list: %v; want that it is forbidden", err)
			}
			if _, err := client(t, server.As("root", "system:masters")).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	applyWidgets(t, server)
	c, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	widgets := c.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	if _, err := widgets.Namespace("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	server := apitest.Options{Port: true}.Start(t)
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, config).ServerVersion(); err != nil {
		t.Error(err)
	}
}

// TestNoGoroutineLeaks checks that a stopped server leaves no goroutines, including the goroutines of its
// connections. It counts goroutines, so it is not parallel.
func TestNoGoroutineLeaks(t *testing.T) {
	t.Run("warm", serveOnce) // initialization once per process
	before := runtime.NumGoroutine()
	for range 5 {
		t.Run("server", serveOnce)
	}
	var left int
	for range 1000 {
		if left = runtime.NumGoroutine(); left <= before {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines, want at most %d:\n%s", left, before, stacks[:runtime.Stack(stacks, true)])
}

func serveOnce(t *testing.T) {
	c := client(t, apitest.Start(t).Config())
	if _, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	w, err := c.CoreV1().Namespaces().Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range w.ResultChan() { // until the server ends
		}
	}()
}

// TestManyServers runs a hundred independent servers.
func TestManyServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred servers")
	}
	var group sync.WaitGroup
	servers := make([]*kubernetes.Clientset, 100)
	for i := range servers {
		servers[i] = client(t, apitest.Start(t).Config())
	}
	for _, c := range servers {
		group.Go(func() {
			if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("mine"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault apitest.Fault
		is    func(error) bool
	}{
		{"a conflict", apitest.Fault{Verb: "update", Status: 409}, apierrors.IsConflict},
		{"an error of the server", apitest.Fault{Resource: "configmaps", Status: 500}, apierrors.IsInternalError},
		{"an expired version", apitest.Fault{Name: "a", Status: 410}, apierrors.IsResourceExpired},
		{"an error without a reason", apitest.Fault{User: "kubernetes-admin", Status: 503}, apierrors.IsServiceUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := apitest.Start(t)
			maps := client(t, server.Config()).CoreV1().ConfigMaps("default")
			made, err := maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			injected := server.Inject(tt.fault)
			if _, err := maps.Update(t.Context(), made, metav1.UpdateOptions{}); !tt.is(err) {
				t.Errorf("with the fault: %v", err)
			}
			if hits := injected.Hits(); hits == 0 {
				t.Error("the fault matched no request")
			}
			injected.Remove()
			injected.Remove()
			if _, err := maps.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
				t.Errorf("without the fault: %v", err)
			}
		})
	}
}

// TestRetryAfter checks that client-go retries after 429, so that the request succeeds.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	injected := server.Inject(apitest.Fault{Verb: "create", Status: 429, Count: 1})
	if _, err := client(t, server.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if hits := injected.Hits(); hits != 1 {
		t.Errorf("the fault has met %d requests, want 1", hits)
	}
}

// TestProbability checks that the seed of a fault determines which requests fail.
func TestProbability(t *testing.T) {
	t.Parallel()
	outcomes := func() string {
		server := apitest.Start(t)
		server.Inject(apitest.Fault{Verb: "get", Status: 500, Probability: 0.5, Seed: 42})
		maps := client(t, server.Config()).CoreV1().ConfigMaps("default")
		var b strings.Builder
		for range 30 {
			if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); apierrors.IsNotFound(err) {
				b.WriteByte('-')
			} else {
				b.WriteByte('x')
			}
		}
		return b.String()
	}
	first, second := outcomes(), outcomes()
	if first != second || !strings.Contains(first, "-") || !strings.Contains(first, "x") {
		t.Errorf("got %s and %s, want equal outcomes with successes and failures", first, second)
	}
}

func TestWatchFaults(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	maps := client(t, server.Config()).CoreV1().ConfigMaps("default")
	start := func() watch.Interface {
		w, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}) // a controller creates this ConfigMap
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	skip := func(w watch.Interface, name string) {
		t.Helper()
		for event := range w.ResultChan() {
			if m, ok := event.Object.(*corev1.ConfigMap); ok && m.Name == name {
				return
			}
		}
		t.Errorf("the watch ended before %s", name)
	}
	create := func(name string) {
		t.Helper()
		if _, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	frozen := start()
	create("a")
	skip(frozen, "a")
	freeze := server.Inject(apitest.Fault{Resource: "configmaps", FreezeWatch: true})
	create("b")
	other := client(t, server.As("kubernetes-admin", "system:masters")).CoreV1()
	if _, err := other.ConfigMaps("default").Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
		t.Errorf("reads while watches are frozen: %v", err)
	}
	select {
	case event := <-frozen.ResultChan():
		t.Errorf("a frozen watch delivered %v", event)
	default:
	}
	freeze.Remove()
	skip(frozen, "b")
	drop := server.Inject(apitest.Fault{DropWatch: true, Resource: "configmaps", Count: 1})
	for range frozen.ResultChan() { // ends when the watch is dropped
	}
	if hits := drop.Hits(); hits != 1 {
		t.Errorf("the fault has met %d watches, want 1", hits)
	}
	create("c")
	skip(start(), "c")
}

// BenchmarkStart measures the time until a server is ready.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		t := &scope{TB: b}
		server := apitest.Start(t)
		b.StopTimer()
		if _, err := client(t, server.Config()).ServerVersion(); err != nil {
			b.Error(err)
		}
		t.end()
		b.StartTimer()
	}
}

// scope is a testing.TB with its own cleanups, inside a benchmark.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range s.cleanups {
		f()
	}
}

// BenchmarkMemory reports the live heap of an idle server.
func BenchmarkMemory(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	apitest.Start(b)
	before := heap()
	for b.Loop() {
		apitest.Start(b)
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "live-B/server")
}

// TestOptions checks that the server uses the options, and that an invalid option is an error.
func TestOptions(t *testing.T) {
	t.Parallel()
	server := apitest.Options{
		FeatureGates: map[string]bool{"ClusterTrustBundle": true}, RuntimeConfig: map[string]string{"certificates.k8s.io/v1beta1": "true"},
		Controllers: []string{"-*"}, DisableAdmissionPlugins: []string{"ServiceAccount"}, AuthorizationModes: []string{"AlwaysAllow"},
	}.Start(t)
	nobody := kubernetes.NewForConfigOrDie(server.As("nobody"))
	if _, err := nobody.Discovery().ServerResourcesForGroupVersion("certificates.k8s.io/v1beta1"); err != nil {
		t.Error(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := nobody.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
