package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/test/testserver"
)

// TestAuthCommands creates kubeconfigs for a user and for a service account, and explains their permissions.
func TestAuthCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, jane, bot := filepath.Join(dir, "data"), filepath.Join(dir, "jane.kubeconfig"), filepath.Join(dir, "bot.kubeconfig")
	s := testserver.New(t, testserver.Options{Dir: data})
	admin := clientOf(t, s)
	ctx := t.Context()
	for _, err := range []error{
		func() error {
			_, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}, metav1.CreateOptions{})
			return err
		}(),
		func() error {
			_, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
			}, metav1.CreateOptions{})
			return err
		}(),
		func() error {
			_, err := admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "devs"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "devs"}, {Kind: "ServiceAccount", Namespace: "default", Name: "bot"}},
			}, metav1.CreateOptions{})
			return err
		}(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	home := s.Dir()
	adminFile := filepath.Join(home, "admin.kubeconfig")

	runCommand(t, 0, "", "kubeconfig", "--user=jane", "--group=devs", "--ttl=1h", "--data-dir="+home, "--output="+jane)
	runCommand(t, 0, "", "kubeconfig", "--serviceaccount=default/bot", "--ttl=1h", "--kubeconfig="+adminFile, "--output="+bot)
	for _, file := range []string{jane, bot} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("stat %s: %v, %v; want mode 0600", file, info, err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("list pods with %s: %v", file, err)
		}
		if _, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "cannot list resource") {
			t.Errorf("list secrets with %s: %v, want Forbidden", file, err)
		}
	}

	why := func(want string, args ...string) {
		t.Helper()
		runCommand(t, 0, want, append([]string{"auth", "why", "--kubeconfig=" + adminFile}, args...)...)
	}
	why("allowed: jane can get pods \"p\" in the namespace \"default\"", "--as=jane", "--as-group=devs", "-n", "default", "get", "po/p")
	why("by: RoleBinding \"devs/default\" of Role \"reader\" to Group \"devs\"\n    allows get, list of pods, in the namespace \"default\"", "--as=jane", "--as-group=devs", "-n", "default", "get", "po/p")
	why("denied: jane cannot delete pods \"p\" in the namespace \"default\"\nnear: RoleBinding", "--as=jane", "--as-group=devs", "-n", "default", "delete", "pods/p")
	why("differs in: verb", "--as=jane", "--as-group=devs", "-n", "default", "delete", "pods/p")
	why("differs in: namespace", "--as=jane", "--as-group=devs", "-n", "other", "list", "pods")
	why("comes close", "--as=jane", "-n", "default", "get", "deployments.apps")
	why("to ServiceAccount \"bot/default\"", "--as=system:serviceaccount:default:bot", "-n", "default", "list", "pods")
	why("authorized for everything", "delete", "nodes")
	why("by: ClusterRoleBinding \"system:discovery\"", "--as=jane", "get", "/apis")
	why("reason: no relationship found between node 'n' and this object", "--as=system:node:n", "--as-group=system:nodes", "-n", "default", "get", "secrets/s")
	runCommand(t, 1, `the server has no resource "nopes"`, "auth", "why", "--kubeconfig="+adminFile, "get", "nopes")
	runCommand(t, 2, "a verb and a resource or path are required", "auth", "why", "get")
	runCommand(t, 2, "exactly one of --user and --serviceaccount is required", "kubeconfig")
	runCommand(t, 2, "it must be NAMESPACE/NAME", "kubeconfig", "--serviceaccount=x")
	runCommand(t, 2, "it must be at least 10m0s", "kubeconfig", "--user=x", "--ttl=1s")
	runCommand(t, 1, "not found", "kubeconfig", "--serviceaccount=default/nope", "--kubeconfig="+adminFile)
	runCommand(t, 1, "no data directory of a server at", "kubeconfig", "--user=x", "--data-dir="+filepath.Join(dir, "nope"))
	runCommand(t, 2, "--ttl is 876000h0m0s; it must be at most 596523h14m7s", "kubeconfig", "--user=x", "--ttl=876000h", "--kubeconfig="+adminFile)
}

// TestKubeconfigOfEnvironment checks that $KUBECONFIG replaces only the default data directory. It is not
// parallel, because it sets environment variables of the process.
func TestKubeconfigOfEnvironment(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.kubeconfig")
	t.Setenv("KUBECONFIG", other)
	t.Chdir(t.TempDir())
	runCommand(t, 1, other, "kubeconfig", "--user=x")
	runCommand(t, 1, "no data directory of a server at nowhere", "kubeconfig", "--user=x", "--data-dir=nowhere")
	// In a list, files that do not exist are ignored.
	existing := writeTestKubeconfig(t, "https://127.0.0.1:1")
	t.Setenv("KUBECONFIG", strings.Join([]string{"", other, existing}, string(filepath.ListSeparator)))
	runCommand(t, 1, "https://127.0.0.1:1/", "kubeconfig", "--user=x")
	runCommand(t, 1, "https://127.0.0.1:1/", "history")
}

// TestWriteCredentials checks that links are followed, that special files are not replaced, and that an error leaves
// no files.
func TestWriteCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("target"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(in("target"), in("link")), os.Symlink(os.DevNull, in("device"))); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"link", "device", "new"} {
		if err := writeCredentials(in(name), []byte("text")); err != nil {
			t.Errorf("write to %s: %v", name, err)
		}
	}
	if err := writeCredentials(dir, []byte("text")); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("write to a directory: %v", err)
	}
	for name, want := range map[string]fs.FileMode{"link": fs.ModeSymlink, "device": fs.ModeSymlink, "target": 0, "new": 0} {
		if info, err := os.Lstat(in(name)); err != nil || info.Mode().Type() != want {
			t.Errorf("%s is %v, %v, want the type %v", name, info, err, want)
		}
	}
	for _, name := range []string{"target", "new"} {
		if text, err := os.ReadFile(in(name)); err != nil || string(text) != "text" {
			t.Errorf("%s contains %q, %v", name, text, err)
		}
	}
}
