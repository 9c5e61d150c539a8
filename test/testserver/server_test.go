package testserver

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestServerLifecycle restarts a server, kills it, and starts it again. It checks that the credentials and the
// address stay valid.
func TestServerLifecycle(t *testing.T) {
	t.Parallel()
	srv := New(t, Options{})
	client := kubernetes.NewForConfigOrDie(srv.RESTConfig())
	serves := func() {
		t.Helper()
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Fatalf("get the default namespace: %v", err)
		}
	}
	serves()
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves()
	srv.Kill()
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves()
	if srv.Logs() == "" {
		t.Error("the output of the server was not stored")
	}
	if !strings.HasPrefix(srv.Kubeconfig(), srv.Dir()) {
		t.Errorf("kubeconfig %q is not in the data directory %q", srv.Kubeconfig(), srv.Dir())
	}
}
