package controlplane

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/resourcequotas"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/simulation"
)

const quotaPath = "/api/v1/namespaces/default/resourcequotas"

// quotaTest is a control plane with a quota in namespace default.
type quotaTest struct {
	*testing.T
	plane *ControlPlane
}

func newQuotaTest(t *testing.T, hard string) *quotaTest {
	t.Helper()
	return newQuotaTestIn(t, newEnv(t), hard)
}

func newQuotaTestIn(t *testing.T, env *Env, hard string) *quotaTest {
	t.Helper()
	env.Identity.Authenticator = byHeader{}
	q := &quotaTest{t, newPlane(t, env, "/quotas")}
	q.send("POST", quotaPath, fmt.Sprintf(`{"metadata":{"name":"q"},"spec":{"hard":{%s}}}`, hard), 201, "")
	return q
}

func (q *quotaTest) send(method, path, body string, want int, contains string) {
	q.Helper()
	as(q.T, q.plane, "admin", method, path, body, want, contains)
}

// used formats the usage in a quota's status, as in "pods=1,services=0".
func (q *quotaTest) used() string {
	q.Helper()
	quotas := loopback.For[*corev1.ResourceQuota](instanceOf(q.T, q.plane).resources.access, corev1.SchemeGroupVersion.WithResource("resourcequotas"))
	quota, err := quotas.Get(q.Context(), types.NamespacedName{Namespace: "default", Name: "q"})
	if err != nil {
		q.Fatal(err)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Used)) {
		used := quota.Status.Used[name]
		all = append(all, string(name)+"="+used.String())
	}
	return strings.Join(all, ",")
}

func (q *quotaTest) expect(want string) {
	q.Helper()
	if got := q.used(); got != want {
		q.Errorf("%s are used, want %s", got, want)
	}
}

// await waits until the usage in the quota's status has the given text.
func (q *quotaTest) await(want string) {
	q.Helper()
	for deadline := time.Now().Add(30 * time.Second); q.used() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			q.Fatalf("%s are used, want %s", q.used(), want)
		}
	}
}

// awaitServed waits until a custom resource is served.
func (q *quotaTest) awaitServed(path string) {
	q.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r := httptest.NewRequestWithContext(q.Context(), "GET", path, nil)
		r.Header.Set("User", "admin")
		w := httptest.NewRecorder()
		q.plane.ServeHTTP(w, r)
		if w.Code == 200 {
			return
		}
		if time.Now().After(deadline) {
			q.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
}

const namespaced = "/api/v1/namespaces/default/"

// TestQuotaOfPods checks that pods are charged to a quota, and that released usage is available immediately.
func TestQuotaOfPods(t *testing.T) {
	t.Parallel()
	q := newQuotaTest(t, `"pods":"2","requests.cpu":"1","count/pods":"5"`)
	q.expect("count/pods=0,pods=0,requests.cpu=0")
	pods := namespaced + "pods"
	pod := `{"metadata":{"name":%q%s},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":%q}}}]}}`
	q.send("POST", pods+"?dryRun=All", fmt.Sprintf(pod, "dry", "", "1"), 201, "")
	q.send("POST", pods+"?dryRun=All", fmt.Sprintf(pod, "dry", "", "2"), 403, "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1")
	q.expect("count/pods=0,pods=0,requests.cpu=0")
	q.send("POST", pods, fmt.Sprintf(pod, "a", "", "400m"), 201, "")
	q.send("POST", pods, fmt.Sprintf(pod, "a", "", "400m"), 409, "")
	q.send("POST", pods, fmt.Sprintf(pod, "b", `,"finalizers":["example.com/f"]`, "600m"), 201, "")
	q.expect("count/pods=2,pods=2,requests.cpu=1")
	q.send("POST", pods, fmt.Sprintf(pod, "c", "", "1m"), 403,
		`exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1`)
	q.send("POST", pods, fmt.Sprintf(pod, "c", "", "1m"), 403, `{"reason":"AdmissionPlugin","message":"ResourceQuota"}`)
	q.send("POST", pods, `{"metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 403, "failed quota: q: must specify requests.cpu for: c")

	status := strings.Replace(fmt.Sprintf(pod, "a", "", "400m"), `"spec"`, `"status":{"phase":"Succeeded"},"spec"`, 1)
	q.send("PUT", pods+"/a/status", status, 200, "")
	q.expect("count/pods=2,pods=1,requests.cpu=600m")
	q.send("DELETE", pods+"/a", "", 200, "")
	q.expect("count/pods=1,pods=1,requests.cpu=600m")
	q.send("DELETE", pods+"/b", `{"gracePeriodSeconds":0}`, 200, "")
	q.expect("count/pods=1,pods=0,requests.cpu=0") // the grace period of the pod has expired
	q.send("PATCH", pods+"/b", `{"metadata":{"finalizers":null}}`, 200, "")
	q.expect("count/pods=0,pods=0,requests.cpu=0")
}

// TestQuotaOfOtherKinds checks quotas for custom objects, objects that are created by an update, node ports,
// storage and quotas. A new quota counts the objects that already exist.
func TestQuotaOfOtherKinds(t *testing.T) {
	t.Parallel()
	q := newQuotaTest(t, `"requests.storage":"2Gi","services.nodeports":"1","resourcequotas":"2","count/widgets.example.com":"1","count/leases.coordination.k8s.io":"1","secrets":"1"`)
	none := "count/leases.coordination.k8s.io=0,count/widgets.example.com=0,requests.storage=0,resourcequotas=1,secrets=0,services.nodeports=0"
	q.expect(none)
	q.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, 201, "")
	widgets := "/apis/example.com/v1/namespaces/default/widgets"
	q.awaitServed(widgets)
	q.send("POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, 201, "")
	q.send("POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"}}`, 403, `widgets.example.com \"b\" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1`)
	q.send("DELETE", widgets+"/a", "", 200, "")
	leases := "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	q.send("PUT", leases+"/a", `{"metadata":{"name":"a"}}`, 201, "") // created by an update
	q.send("PUT", leases+"/b", `{"metadata":{"name":"b"}}`, 403, "exceeded quota: q, requested: count/leases.coordination.k8s.io=1")
	q.send("DELETE", leases, "", 200, "")
	q.expect(none)

	services := namespaced + "services"
	service := `{"metadata":{"name":"s"},"spec":{"type":%q,"clusterIP":%q,"ports":[{"port":80}]}}`
	q.send("POST", services, fmt.Sprintf(service, "NodePort", ""), 201, "")
	q.send("POST", services, strings.Replace(fmt.Sprintf(service, "NodePort", ""), `"s"`, `"r"`, 1), 403, "requested: services.nodeports=1")
	q.send("DELETE", services+"/s", "", 200, "")
	claims := namespaced + "persistentvolumeclaims"
	claim := `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%q}}}}`
	q.send("POST", claims, fmt.Sprintf(claim, "3Gi"), 403, "requested: requests.storage=3Gi, used: requests.storage=0, limited: requests.storage=2Gi")
	q.send("POST", claims, fmt.Sprintf(claim, "1Gi"), 201, "")
	q.expect(strings.Replace(none, "storage=0", "storage=1Gi", 1))

	second := `{"metadata":{"name":%q},"spec":{"hard":{"persistentvolumeclaims":"5"}}}`
	q.send("POST", quotaPath, fmt.Sprintf(second, "r"), 201, "")
	q.send("GET", quotaPath+"/r", "", 200, `"used":{"persistentvolumeclaims":"1"}`)
	q.send("POST", quotaPath, fmt.Sprintf(second, "s"), 403, "requested: resourcequotas=1, used: resourcequotas=2, limited: resourcequotas=2")
	q.send("DELETE", quotaPath+"/r", "", 200, "")
	q.expect(strings.Replace(none, "storage=0", "storage=1Gi", 1))
	q.send("DELETE", quotaPath+"/q", "", 200, "")
	q.send("POST", services, fmt.Sprintf(service, "NodePort", ""), 201, "")
}

// TestQuotaGrows checks that usage is computed before the write of a quota with new limits returns.
func TestQuotaGrows(t *testing.T) {
	t.Parallel()
	q := newQuotaTest(t, `"secrets":"1"`)
	secrets := namespaced + "secrets"
	q.send("POST", secrets, `{"metadata":{"name":"a"}}`, 201, "")
	q.send("POST", secrets, `{"metadata":{"name":"b"}}`, 403, "")
	q.send("PUT", quotaPath+"/q", `{"metadata":{"name":"q"},"spec":{"hard":{"secrets":"2","configmaps":"9"}}}`, 200, "")
	q.send("GET", quotaPath+"/q", "", 200, `"hard":{"configmaps":"9","secrets":"2"},"used"`)
	q.send("POST", secrets, `{"metadata":{"name":"b"}}`, 201, "")
	q.send("POST", secrets, `{"metadata":{"name":"c"}}`, 403, "used: secrets=2, limited: secrets=2")
	// A limit below the current usage is reported, and no objects are deleted.
	q.send("PUT", quotaPath+"/q", `{"metadata":{"name":"q"},"spec":{"hard":{"secrets":"0"}}}`, 200, "")
	q.expect("secrets=2")
	q.send("PUT", secrets+"/a", `{"metadata":{"name":"a","labels":{"a":"b"}}}`, 200, "")
	q.send("DELETE", secrets+"/a", "", 200, "")
	q.expect("secrets=1")
}

// TestUncharged checks that objects written without a charge, and a wrong status, are corrected
// eventually.
func TestUncharged(t *testing.T) {
	t.Parallel()
	q := newQuotaTest(t, `"secrets":"3"`)
	uncharged, err := New(q.plane.env, "/quotas", Options{Admission: AdmissionOptions{DisablePlugins: []string{resourceQuota}}, Controllers: ControllerOptions{Names: []string{"-" + resourcequotas.Name}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(uncharged.Close)
	secrets := namespaced + "secrets"
	as(t, uncharged, "admin", "POST", secrets, `{"metadata":{"name":"a"}}`, 201, "")
	q.await("secrets=1")
	q.send("POST", secrets, `{"metadata":{"name":"b"}}`, 201, "")
	as(t, uncharged, "admin", "DELETE", secrets+"/a", "", 200, "")
	q.await("secrets=1")
	q.send("PUT", quotaPath+"/q/status", `{"metadata":{"name":"q"},"status":{"hard":{"secrets":"3"},"used":{"secrets":"0"}}}`, 200, "")
	if err := controllerOf[*resourcequotas.Controller](instanceOf(t, q.plane).controllers).Recount(t.Context(), types.NamespacedName{Namespace: "default", Name: "q"}); err != nil {
		t.Fatal(err)
	}
	q.expect("secrets=1")
}

// TestQuotaOfOverduePod checks that all usage of a pod is released when the pod is removed after its deadline,
// although the removal is charged only to a part of the usage.
func TestQuotaOfOverduePod(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Simulation = simulation.New(simulation.Config{})
	q := newQuotaTestIn(t, env, `"pods":"2","count/pods":"2"`)
	pods := namespaced + "pods"
	q.send("POST", pods, `{"metadata":{"name":"a"},"spec":{"nodeName":"lost","terminationGracePeriodSeconds":30,"containers":[{"name":"c","image":"i"}]}}`, 201, "")
	q.send("DELETE", pods+"/a", "", 200, `"deletionGracePeriodSeconds":30`)
	q.expect("count/pods=1,pods=1")
	env.Simulation.Advance(2 * time.Minute)
	q.send("DELETE", pods+"/a", `{"gracePeriodSeconds":0}`, 200, "")
	q.await("count/pods=0,pods=0")
}

// TestQuotaOfMany checks that exactly as many concurrent writes succeed as the quota permits, and that the
// other writes are rejected because of the quota.
func TestQuotaOfMany(t *testing.T) {
	t.Parallel()
	const allowed = 7
	q := newQuotaTest(t, `"secrets":"7","count/secrets":"9"`)
	secrets := loopback.For[*corev1.Secret](instanceOf(t, q.plane).resources.access, corev1.SchemeGroupVersion.WithResource("secrets"))
	for range 3 {
		var created atomic.Int32
		var group errgroup.Group
		for n := range 48 {
			group.Go(func() error {
				secret := &corev1.Secret{}
				secret.Name, secret.Namespace = fmt.Sprint("s", n), "default"
				_, err := secrets.Create(t.Context(), secret)
				if err == nil {
					created.Add(1)
				} else if !apierrors.IsForbidden(err) {
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := created.Load(); n != allowed {
			t.Errorf("%d were created, want %d", n, allowed)
		}
		q.expect("count/secrets=7,secrets=7")
		q.send("DELETE", namespaced+"secrets", "", 200, "")
		q.expect("count/secrets=0,secrets=0")
	}
}

// BenchmarkQuota measures the creation of a ConfigMap without quotas, with one quota in its namespace, and with
// 10,000 quotas in other namespaces.
func BenchmarkQuota(b *testing.B) {
	for _, tt := range []struct {
		name         string
		own, foreign int
	}{{"none", 0, 0}, {"others", 0, 10_000}, {"one", 1, 0}, {"one among others", 1, 10_000}} {
		b.Run(tt.name, func(b *testing.B) {
			env := newEnv(b)
			i := instanceOf(b, newPlane(b, env, "/quotas"))
			quotas := loopback.For[*corev1.ResourceQuota](i.resources.access, corev1.SchemeGroupVersion.WithResource("resourcequotas"))
			maps := loopback.For[*corev1.ConfigMap](i.resources.access, configMaps)
			create := func(namespace string) {
				quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
					corev1.ResourceConfigMaps: *resource.NewQuantity(1_000_000_000, resource.DecimalSI), corev1.ResourcePods: *resource.NewQuantity(5, resource.DecimalSI), corev1.ResourceRequestsCPU: *resource.NewQuantity(8, resource.DecimalSI)}}}
				quota.Name, quota.Namespace = "q", namespace
				if _, err := quotas.Create(b.Context(), quota); err != nil {
					b.Fatal(err)
				}
			}
			for n := range tt.foreign {
				name := fmt.Sprint("n", n)
				namespace := &corev1.Namespace{}
				namespace.Name = name
				if _, err := loopback.For[*corev1.Namespace](i.resources.access, corev1.SchemeGroupVersion.WithResource("namespaces")).Create(b.Context(), namespace); err != nil {
					b.Fatal(err)
				}
				create(name)
			}
			if tt.own > 0 {
				create("default")
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				m := &corev1.ConfigMap{}
				m.Name, m.Namespace = fmt.Sprint("m", n), "default"
				if _, err := maps.Create(b.Context(), m); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}
