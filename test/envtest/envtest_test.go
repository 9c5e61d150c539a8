package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// assets creates the folder by running envtest-assets with the given flags, and returns its path.
func assets(t testing.TB, flags ...string) string {
	t.Helper()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "assets")
	for range 2 { // the second call finds the files of the first
		if out, err := exec.Command(binary, append([]string{"envtest-assets", dir}, flags...)...).CombinedOutput(); err != nil {
			t.Fatalf("make the assets: %v\n%s", err, out)
		}
	}
	return dir
}

// start starts an environment and stops it when the test ends.
func start(t testing.TB, env *envtest.Environment) *rest.Config {
	t.Helper()
	var log testserver.Buffer
	server := env.ControlPlane.GetAPIServer()
	server.Out, server.Err = &log, &log
	config, err := env.Start()
	if err != nil {
		t.Fatalf("start the environment: %v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
		for _, found := range testserver.Panics(log.String()) {
			t.Error(found)
		}
	})
	return config
}

func newClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEnvironment(t *testing.T) {
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets(t),
		CRDDirectoryPaths:     []string{"testdata"}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{refusals()}},
	}
	admin := newClient(t, start(t, env))
	t.Run("definitions", func(t *testing.T) {
		site := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "a", "namespace": "default"},
			"spec": map[string]any{"domain": "a.example.com"},
		}}
		if err := admin.Create(t.Context(), site); err != nil {
			t.Error(err)
		}
	})
	t.Run("users", func(t *testing.T) { testUsers(t, env, admin) })
	t.Run("webhooks", func(t *testing.T) { testWebhooks(t, env, admin) })
	t.Run("controllers", func(t *testing.T) { testNoControllers(t, admin) })
	t.Run("kubectl", func(t *testing.T) { testKubectl(t, env) })
}

// testUsers checks that a role binding authorizes a user that was added to the environment.
func testUsers(t *testing.T, env *envtest.Environment, admin client.Client) {
	jane, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"viewers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hers := newClient(t, jane.Config())
	if err := hers.List(t.Context(), &corev1.PodList{}); !apierrors.IsForbidden(err) {
		t.Errorf("before the binding: %v", err)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "viewers"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	}
	if err := admin.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "viewers"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "viewers"}},
	}
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error { return hers.List(t.Context(), &corev1.PodList{}) })
}

// refusals returns the configuration of a webhook that rejects ConfigMaps.
func refusals() *admissionregistrationv1.ValidatingWebhookConfiguration {
	none, path, fail := admissionregistrationv1.SideEffectClassNone, "/refuse", admissionregistrationv1.Fail
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "refusals"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refusals.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"refusing": "true"}},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "refusals", Namespace: "default", Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

// testWebhooks checks that the server calls the webhook that envtest has installed.
func testWebhooks(t *testing.T, env *envtest.Environment, admin client.Client) {
	options := env.WebhookInstallOptions
	server := webhook.NewServer(webhook.Options{Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir})
	server.Register("/refuse", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Denied("no config maps here")
	})})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	testserver.Eventually(t, time.Minute, func() error { return server.StartedChecker()(&http.Request{}) })
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "refusing", Labels: map[string]string{"refusing": "true"}}}); err != nil {
		t.Fatal(err)
	}
	err := admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "refusing"}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a config map that the webhook refuses: %v", err)
	}
}

// doomed creates a namespace with two ConfigMaps, the first of which owns the second, and deletes the owner. It
// returns the namespace and the dependent.
func doomed(t *testing.T, admin client.Client) (*corev1.Namespace, *corev1.ConfigMap) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "doomed"}}
	for _, object := range []client.Object{namespace, owner} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "dependent", Namespace: "doomed",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	if err := admin.Create(t.Context(), dependent); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	return namespace, dependent
}

// testNoControllers checks that no controllers run, as in kube-apiserver: a new namespace is empty, and
// dependents and namespaces remain after their deletion.
func testNoControllers(t *testing.T, admin client.Client) {
	namespace, dependent := doomed(t, admin)
	if err := admin.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	// Most controllers act within milliseconds, the namespace controller after a grace period of half a second.
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(dependent), dependent); err != nil {
			t.Fatalf("the dependent: %v", err)
		}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil {
			t.Fatalf("the namespace: %v", err)
		}
	}
	if namespace.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the namespace is %s", namespace.Status.Phase)
	}
	account := &corev1.ServiceAccount{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "doomed", Name: "default"}, account); !apierrors.IsNotFound(err) {
		t.Errorf("the default account: %v; want none", err)
	}
}

// TestControllers tests a folder whose kube-apiserver runs the garbage collector and the namespace controller.
func TestControllers(t *testing.T) {
	env := &envtest.Environment{BinaryAssetsDirectory: assets(t, "--controllers=garbage-collector-controller,namespace-controller")}
	admin := newClient(t, start(t, env))
	namespace, dependent := doomed(t, admin)
	eventuallyGone(t, admin, dependent)
	if err := admin.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, admin, namespace)
}

func eventuallyGone(t *testing.T, admin client.Client, object client.Object) {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("%s is still there", object.GetName()), err)
	})
}

func testKubectl(t *testing.T, env *envtest.Environment) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl here")
	}
	user, err := env.AddUser(envtest.User{Name: "k", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := kubectl.Run("get", "namespaces", "-o", "name")
	var out, problems bytes.Buffer
	_, _ = out.ReadFrom(stdout)
	_, _ = problems.ReadFrom(stderr)
	if err != nil || !bytes.Contains(out.Bytes(), []byte("namespace/default")) {
		t.Errorf("kubectl get namespaces: %v\n%s%s", err, out.String(), problems.String())
	}
}

// BenchmarkStart measures the duration of envtest's Start.
func BenchmarkStart(b *testing.B) {
	dir := assets(b)
	for b.Loop() {
		env := &envtest.Environment{BinaryAssetsDirectory: dir}
		if _, err := env.Start(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
