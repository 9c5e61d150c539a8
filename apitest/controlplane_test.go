package apitest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/apitest"
	"mainstay.dev/mainstay/internal/host"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// TestControlPlane checks that control planes of parallel tests are isolated from each other and from the root.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	server := apitest.Options{Port: true}.Start(t)
	definitions := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(definitions, []byte(widgets), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			plane := server.ControlPlane(t)
			plane.Apply(definitions)
			client := kubernetes.NewForConfigOrDie(plane.Config())
			settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
			if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			jane := kubernetes.NewForConfigOrDie(plane.As("jane", "developers"))
			if _, err := jane.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("jane: %v", err)
			}
			config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			_, err = kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("get the ConfigMap of a control plane from the root: %v", err)
			}
		})
	}
}

// TestUsers checks that users have the same permissions in a server, a control plane and a fork. Only Config returns
// the credentials of an administrator.
func TestUsers(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	for name, api := range map[string]*apitest.Server{"server": server, "control plane": server.ControlPlane(t), "fork": server.Fork(t)} {
		admin := host.Administrator()
		for config, allowed := range map[*rest.Config]bool{
			api.Config(): true, api.As("jane", admin.Groups...): true, api.As(admin.Name, admin.Groups...): true,
			api.As("jane"): false, api.As(admin.Name): false, api.As(admin.Name, "developers"): false, api.As(""): false,
		} {
			_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
				t.Errorf("%s, impersonating %+v: %v, want allowed: %t", name, config.Impersonate, err, allowed)
			}
		}
	}
}

// TestServerEndsFirst checks that a control plane may belong to a test that ends after the server.
func TestServerEndsFirst(t *testing.T) {
	t.Parallel()
	t.Run("server", func(inner *testing.T) {
		apitest.Start(inner).Fork(t)
	})
}

func ExampleServer_ControlPlane() {
	server := func(t testing.TB) *apitest.Server { return apitest.Start(t) }
	inTest(func(t testing.TB) {
		shared := server(t) // usually one server for all tests
		plane := shared.ControlPlane(t)
		client := kubernetes.NewForConfigOrDie(plane.Config())
		namespace, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		fmt.Println(namespace.Name, namespace.Status.Phase, err)
	})
	// Output: default Active <nil>
}

// TestFork prepares definitions and objects once, and runs parallel tests in forks.
func TestFork(t *testing.T) {
	t.Parallel()
	definitions, objects, tests := 200, 1000, 100
	if testing.Short() {
		definitions, objects, tests = 20, 100, 10
	}
	prepared := apitest.Start(t)
	var text strings.Builder
	for i := range definitions {
		fmt.Fprintf(&text, "---%s", strings.NewReplacer("widgets", fmt.Sprint("widgets", i), "Widget", fmt.Sprint("Widget", i)).Replace(widgets))
	}
	for i := range objects {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: default}\ndata: {k: prepared}\n", i)
	}
	file := filepath.Join(t.TempDir(), "prepared.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	prepared.Apply(file)
	t.Run("Tests", func(t *testing.T) {
		for i := range tests {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				fork := prepared.Fork(t)
				client := kubernetes.NewForConfigOrDie(fork.Config())
				maps := client.CoreV1().ConfigMaps("default")
				own, err := maps.Get(t.Context(), fmt.Sprint("c", i), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				own.Data["k"] = fmt.Sprint(i)
				if _, err := maps.Update(t.Context(), own, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
				other, err := maps.Get(t.Context(), fmt.Sprint("c", (i+1)%tests), metav1.GetOptions{})
				if err != nil || other.Data["k"] != "prepared" {
					t.Errorf("the object of another test is %+v, %v", other, err)
				}
				widgets := dynamic.NewForConfigOrDie(fork.Config()).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprint("widgets", i)})
				if _, err := widgets.List(t.Context(), metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	})
	prepared.Fork(t).Fork(t).ControlPlane(t)
}

// TestSnapshot starts servers with the objects of a snapshot.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	first := apitest.Start(t)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	client := kubernetes.NewForConfigOrDie(first.Config())
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := client.RESTClient().Get().AbsPath("/mainstay/v1/snapshot").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		maps := kubernetes.NewForConfigOrDie(apitest.Options{Snapshot: file}.Start(t).Config()).CoreV1().ConfigMaps("default")
		if err := maps.Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
