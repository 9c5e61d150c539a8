package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// runCommand runs a command and checks its exit code. It also checks that the output contains want.
func runCommand(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	got := run(args, &stdout, &stderr, process{})
	out := stdout.String()
	if code != 0 {
		if out = stderr.String(); strings.Count(out, "\n") != 1 && code == 1 {
			t.Errorf("%q printed more than one line: %s", args, out)
		}
	}
	if got != code || !strings.Contains(out, want) {
		t.Errorf("%q: exit code %d, output %q %q; want %d and %q", args, got, stdout.String(), stderr.String(), code, want)
	}
}

func clientOf(t *testing.T, s *testserver.Server) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestStoreCommands tests the commands save, check, restore and migrate, and starts servers with the resulting
// stores.
func TestStoreCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	s := testserver.New(t, testserver.Options{Dir: path("data")})
	configMaps := clientOf(t, s).CoreV1().ConfigMaps("default")
	before, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	runCommand(t, 0, "saved ", "snapshot", "save", path("running"), "--kubeconfig="+s.Kubeconfig())
	runCommand(t, 1, "the file already exists", "snapshot", "save", path("running"), "--kubeconfig="+s.Kubeconfig())
	runCommand(t, 1, "data directory is in use", "snapshot", "save", path("stopped"), "--data-dir="+path("data"))
	runCommand(t, 1, "data directory is in use", "check", "--data-dir="+path("data"))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	runCommand(t, 0, "is consistent: format 1, revision ", "check", "--data-dir="+path("data"))
	runCommand(t, 0, "saved ", "snapshot", "save", path("stopped"), "--data-dir="+path("data"))
	runCommand(t, 1, "no such file", "check", "--data-dir="+path("none"))
	runCommand(t, 1, "no such file", "snapshot", "save", path("x"), "--data-dir="+path("none"))
	runCommand(t, 1, "is not empty", "snapshot", "restore", path("stopped"), "--data-dir="+path("data"))
	runCommand(t, 0, "the store continues at revision 2000000000", "snapshot", "restore", path("running"), "--data-dir="+path("restored"))
	runCommand(t, 2, "--data-dir is required", "snapshot", "restore", path("running"))
	runCommand(t, 2, "one of --data-dir and --kubeconfig", "snapshot", "save", path("x"))
	runCommand(t, 2, "requires one file", "snapshot", "save")

	raw, err := os.ReadFile(path("running"))
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(path("damaged"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	runCommand(t, 1, "damaged", "snapshot", "restore", path("damaged"), "--data-dir="+path("fresh"))
	runCommand(t, 1, "there is no store in", "check", "--data-dir="+path("fresh"))
	if err := os.WriteFile(path("nonsense"), []byte("nonsense, and more of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	runCommand(t, 1, "this is not a snapshot", "snapshot", "restore", path("nonsense"), "--data-dir="+path("fresh"))

	cluster := etcdtest.Start(t, etcdtest.Options{TLS: true})
	files := []string{"--etcd-cafile=" + cluster.Files.CA, "--etcd-certfile=" + cluster.Files.ClientCert, "--etcd-keyfile=" + cluster.Files.ClientKey}
	url := strings.Join(cluster.URLs(), ",")
	runCommand(t, 0, "copied ", append(files, "migrate", "--from="+path("restored"), "--to="+url)...)
	runCommand(t, 1, "the target is not empty", append(files, "migrate", "--from="+path("data"), "--to="+url)...)
	runCommand(t, 0, "copied ", append(files, "migrate", "--from="+path("data"), "--to="+url, "--force")...)
	runCommand(t, 0, "copied ", append(files, "migrate", "--from="+url, "--to="+path("fresh"))...)
	runCommand(t, 1, "use etcd at http://127.0.0.1:1: ", "migrate", "--from=http://127.0.0.1:1", "--to="+path("other"))
	runCommand(t, 2, "--from and --to are required", "migrate")
	runCommand(t, 0, "is consistent", "check", "--data-dir="+path("fresh"))

	for _, options := range []testserver.Options{
		{Dir: path("restored")}, {Dir: path("fresh")},
		{Dir: path("over-etcd"), Flags: append(files, "--etcd-servers="+url)},
	} {
		server := testserver.New(t, options)
		client := clientOf(t, server).CoreV1().ConfigMaps("default")
		after, err := client.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || after.UID != before.UID || after.Data["k"] != "v" {
			t.Errorf("%s has %v, %v", options.Dir, after, err)
		}
		if _, err := client.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("%s: create again: %v", options.Dir, err)
		}
		if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Errorf("%s: delete: %v", options.Dir, err)
		}
		if len(options.Flags) > 0 {
			runCommand(t, 0, "saved a snapshot of etcd", "snapshot", "save", path("etcd"), "--kubeconfig="+server.Kubeconfig())
			runCommand(t, 1, "this is not a snapshot of a Mainstay store", "snapshot", "restore", path("etcd"), "--data-dir="+path("another"))
		}
	}
}

// TestCheckServices checks that "mainstay check" finds a service with a node port that is not allocated to it.
func TestCheckServices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := testserver.New(t, testserver.Options{Dir: dir})
	created, err := clientOf(t, s).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	runCommand(t, 0, "is consistent", "check", "--data-dir="+dir)
	port := strconv.Itoa(int(created.Spec.Ports[0].NodePort))
	removeKey(t, filepath.Join(dir, "store"), "/registry/services/nodeports/"+port)
	runCommand(t, 1, port+" of the service default/a is not allocated", "check", "--data-dir="+dir)
	runCommand(t, 0, "is consistent", "check", "--data-dir="+dir, "--etcd-prefix=/other")
}

func removeKey(t *testing.T, dir, key string) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	entry, _, err := store.Get(t.Context(), key, 0)
	if err == nil {
		_, err = store.Commit(t.Context(), kv.Op{Key: key, Kind: kv.OpDelete, Expect: entry.Modified})
	}
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}
