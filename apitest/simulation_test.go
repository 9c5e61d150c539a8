package apitest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/apitest"
)

// TestTime checks that the timestamps of objects start at Options.Time, and that objects expire after Advance.
func TestTime(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	server := apitest.Options{Time: start}.Start(t)
	admin := client(t, server.Config())
	maps := admin.CoreV1().ConfigMaps("default")
	first, err := maps.Create(t.Context(), configMap("first"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := newToken(t, admin)
	event := newEvent(t, admin)
	server.Advance(2 * time.Hour)
	filled := configMap("second")
	filled.Data = map[string]string{"a": "b"}
	second, err := maps.Create(t.Context(), filled, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !first.CreationTimestamp.Time.Equal(start) || !second.CreationTimestamp.Time.Equal(start.Add(2*time.Hour)) {
		t.Errorf("created %s and %s", first.CreationTimestamp, second.CreationTimestamp)
	}
	if managed := second.ManagedFields; len(managed) != 1 || !managed[0].Time.Time.Equal(start.Add(2*time.Hour)) {
		t.Errorf("managed fields are %v", managed)
	}
	withToken := &rest.Config{Host: server.URL(), Dial: server.Config().Dial, Proxy: server.Config().Proxy, BearerToken: token}
	withToken.CAData = server.Config().CAData
	if _, err := client(t, withToken).Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token of an hour, two hours later: %v", err)
	}
	eventually(t, "the event expires", func() bool {
		_, err := admin.CoreV1().Events("default").Get(t.Context(), event, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// TestTimeOfControllers checks that objects that the server itself writes have timestamps of the test's clock,
// and that its controllers use this clock for deletions.
func TestTimeOfControllers(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	server := apitest.Options{Time: start}.Start(t)
	applyWidgets(t, server)
	admin := client(t, server.Config())
	for _, condition := range conditionsOfWidgets(t, server) {
		if at := condition.(map[string]any)["lastTransitionTime"]; at != "2030-01-02T03:04:05Z" {
			t.Errorf("a condition of the definition is %v", condition)
		}
	}
	lease, err := admin.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity=kube-apiserver"})
	if err != nil || len(lease.Items) != 1 || !lease.Items[0].Spec.RenewTime.Time.Equal(start) {
		t.Errorf("the leases of servers are %v, error %v", lease.Items, err)
	}
	newBootstrapToken(t, admin, start.Add(time.Hour))
	newCertificateRequest(t, admin)
	server.Advance(25 * time.Hour)
	eventually(t, "the bootstrap token is deleted, an hour later", func() bool {
		_, err := admin.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	eventually(t, "the certificate request that nobody approves is deleted, a day later", func() bool {
		_, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "open", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func conditionsOfWidgets(t *testing.T, server *apitest.Server) []any {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definition, err := dynamic.NewForConfigOrDie(server.Config()).Resource(resource).Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
	if err != nil || len(conditions) < 2 {
		t.Fatalf("the conditions of the definition are %v, error %v", conditions, err)
	}
	return conditions
}

func newBootstrapToken(t *testing.T, admin *kubernetes.Clientset, expires time.Time) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": expires.Format(time.RFC3339)},
	}
	if _, err := admin.CoreV1().Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newCertificateRequest(t *testing.T, admin *kubernetes.Clientset) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "open"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
	}}
	if _, err := admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestOldTime checks that the default objects of a new server have the time of the test's clock, even if this
// time is earlier than the time at which they were recorded.
func TestOldTime(t *testing.T) {
	t.Parallel()
	start := time.Date(1971, 1, 2, 3, 4, 5, 0, time.UTC)
	admin := client(t, apitest.Options{Time: start}.Start(t).Config())
	roles, err := admin.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(roles.Items) < 50 || !roles.Items[0].CreationTimestamp.Time.Equal(start) {
		t.Errorf("there are %d roles, the first since %s", len(roles.Items), roles.Items[0].CreationTimestamp)
	}
}

func newToken(t *testing.T, admin *kubernetes.Clientset) string {
	t.Helper()
	accounts := admin.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hour := int64(3600)
	token, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

func newEvent(t *testing.T, admin *kubernetes.Clientset) (name string) {
	t.Helper()
	event, err := admin.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "noted-"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return event.Name
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after a minute: %s", what)
		}
	}
}

// TestSeed checks that the same seed results in the same UIDs and names.
func TestSeed(t *testing.T) {
	t.Parallel()
	made := func(seed uint64) []string {
		admin := client(t, apitest.Options{Seed: seed}.Start(t).Config()).CoreV1()
		var made []string
		for range 3 {
			m, err := admin.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "settings-"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, m.Name, string(m.UID))
		}
		namespace, err := admin.Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return append(made, string(namespace.UID))
	}
	first, second, other := made(7), made(7), made(8)
	if !slices.Equal(first, second) {
		t.Errorf("the same seed makes %q and %q", first, second)
	}
	for i := range first {
		if slices.Contains(other, first[i]) || slices.Index(first, first[i]) != i {
			t.Errorf("%s is made twice", first[i])
		}
	}
}

// TestStaleGets checks that gets with resourceVersion=0 return the state at the time when the fault was
// injected. It tests a built-in and a custom resource.
func TestStaleGets(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	applyWidgets(t, server)
	admin := dynamic.NewForConfigOrDie(server.Config())
	for _, resource := range []schema.GroupVersionResource{{Version: "v1", Resource: "configmaps"}, {Group: "example.com", Version: "v1", Resource: "widgets"}} {
		objects := admin.Resource(resource).Namespace("default")
		kind := map[string]string{"configmaps": "ConfigMap", "widgets": "Widget"}[resource.Resource]
		create := func(name string) {
			t.Helper()
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}}}
			if _, err := objects.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create("before")
		stale := server.Inject(apitest.Fault{Verb: "get", Resource: resource.Resource, StaleReads: true})
		create("after")
		label := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
		changed, err := objects.Patch(t.Context(), "before", types.MergePatchType, label, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		labels := func(version string) map[string]string {
			t.Helper()
			got, err := objects.Get(t.Context(), "before", metav1.GetOptions{ResourceVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			return got.GetLabels()
		}
		if len(labels("0")) != 0 || len(labels("")) != 1 || len(labels(changed.GetResourceVersion())) != 1 {
			t.Errorf("%s: labels %v with resourceVersion 0, %v without resourceVersion, and %v with the newest resourceVersion", resource.Resource, labels("0"), labels(""), labels(changed.GetResourceVersion()))
		}
		if _, err := objects.Get(t.Context(), "after", metav1.GetOptions{ResourceVersion: "0"}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: get an object created after the fault: %v, want NotFound", resource.Resource, err)
		}
		stale.Remove()
		if len(labels("0")) != 1 {
			t.Errorf("%s: without the fault, the object is stale", resource.Resource)
		}
	}
}

// TestStaleReads checks that lists that allow stale data return the state at the time when the fault was
// injected, and that other lists return the current state.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	maps := client(t, server.Config()).CoreV1().ConfigMaps("default")
	create := func(name string) string {
		t.Helper()
		m, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.ResourceVersion
	}
	has := func(name string, options metav1.ListOptions) bool {
		t.Helper()
		list, err := maps.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(m corev1.ConfigMap) bool { return m.Name == name })
	}
	before := create("before")
	stale := server.Inject(apitest.Fault{Resource: "configmaps", StaleReads: true})
	after := create("after")
	tests := []struct {
		name    string
		options metav1.ListOptions
		stale   bool
	}{
		{"any version", metav1.ListOptions{ResourceVersion: "0"}, true},
		{"any version, in pages", metav1.ListOptions{ResourceVersion: "0", Limit: 500}, true},
		{"not older than before", metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, true},
		{"the newest", metav1.ListOptions{}, false},
		{"not older than after", metav1.ListOptions{ResourceVersion: after}, false},
	}
	for _, tt := range tests {
		if !has("before", tt.options) {
			t.Errorf("%s: the object created before the fault is missing", tt.name)
		}
		if got := has("after", tt.options); got == tt.stale {
			t.Errorf("%s: the object created after the fault is listed: %t", tt.name, got)
		}
	}
	if hits := stale.Hits(); hits != 6 { // three stale lists, each requested twice
		t.Errorf("the fault has met %d lists, want 6", hits)
	}
	stale.Remove()
	if !has("after", metav1.ListOptions{ResourceVersion: "0"}) {
		t.Error("without the fault, the list is stale")
	}
}
