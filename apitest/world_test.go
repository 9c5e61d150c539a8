package apitest_test

import (
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/apitest"
)

// TestTime: objects show the time of the test, and expire by it.
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

// TestOldTime: a time that the recorded objects of a first start cannot have.
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

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in a minute it has not come to pass that %s", what)
		}
	}
}

// TestSeed: the same seed makes the same uids and names.
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

// TestStaleReads: lists that allow it are of the moment of the fault, all others are not.
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
			t.Errorf("%s: what was there before is missing", tt.name)
		}
		if got := has("after", tt.options); got == tt.stale {
			t.Errorf("%s: what came after is there: %t", tt.name, got)
		}
	}
	if hits := stale.Hits(); hits != 6 { // each was asked twice
		t.Errorf("the fault has met %d lists, want 6", hits)
	}
	stale.Remove()
	if !has("after", metav1.ListOptions{ResourceVersion: "0"}) {
		t.Error("without the fault, the list is stale")
	}
}
