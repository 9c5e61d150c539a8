package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// clients contains the clients of one test. Each test has its own namespace.
type clients struct {
	config    *rest.Config
	namespace string
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	maps      corev1client.ConfigMapInterface // of the namespace
}

// clientBehavior is a test of one way of using client-go.
type clientBehavior struct {
	name string
	run  func(t *testing.T, c *clients)
}

func TestClientGo(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	for theme, behaviors := range map[string][]clientBehavior{
		"objects":   handlingObjects,
		"patches":   patchingObjects,
		"lists":     listingObjects,
		"watches":   watchingObjects,
		"discovery": discovering,
		"leases":    leading,
	} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			for _, b := range behaviors {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, newClients(t, srv.RESTConfig()))
				})
			}
		})
	}
}

func newClients(t *testing.T, config *rest.Config) *clients {
	t.Helper()
	return clientsIn(config, newNamespace(t, kubernetes.NewForConfigOrDie(config)))
}

// clientsIn returns clients for an existing namespace.
func clientsIn(config *rest.Config, namespace string) *clients {
	kube := kubernetes.NewForConfigOrDie(config)
	return &clients{
		config: config, namespace: namespace, kube: kube,
		dynamic: dynamic.NewForConfigOrDie(config), metadata: metadata.NewForConfigOrDie(config),
		maps: kube.CoreV1().ConfigMaps(namespace),
	}
}

// create creates a ConfigMap with the content of newConfigMap and ends the test on error.
func (c *clients) create(t *testing.T, name string, data ...string) *corev1.ConfigMap {
	t.Helper()
	created, err := c.maps.Create(t.Context(), newConfigMap(name, data...), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create ConfigMap %s: %v", name, err)
	}
	return created
}

// newConfigMap returns a ConfigMap with the label app=test. data contains alternating keys and values.
func newConfigMap(name string, data ...string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "test"}}, Data: map[string]string{}}
	for i := 0; i+1 < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

// must returns a function that returns its first argument, and ends the test if its second argument is an
// error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantError fails the test unless is(err) is true. what names the expected error.
func wantError(t *testing.T, err error, is func(error) bool, what string) {
	t.Helper()
	if !is(err) {
		t.Errorf("got error %v, want %s", err, what)
	}
}
