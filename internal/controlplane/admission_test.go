package controlplane

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
)

// TestAdmissionPlugins checks that the registration of each plugin creates a plugin with the same
// name, and that names are unique.
func TestAdmissionPlugins(t *testing.T) {
	t.Parallel()
	c, err := New(newEnv(t), "/plugins", Options{Features: FeatureOptions{Gates: feature.Set{feature.GenericWorkload: true, feature.CompositePodGroup: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	i := instanceOf(t, c)
	seen := map[string]bool{}
	dependencies := i.admission.dependencies(i.settings, i.resources, nil, nil, i.controllers)
	for _, r := range plugin.All() {
		if seen[r.Name] {
			t.Errorf("%s is listed twice", r.Name)
		}
		seen[r.Name] = true
		if created := r.New(dependencies); created == nil || created.Name() != r.Name {
			t.Errorf("%s creates %v", r.Name, created)
		}
		if r.Description == "" {
			t.Errorf("%s has no description", r.Name)
		}
	}
}

// TestAdmissionOfOptions checks that options can disable default plugins.
func TestAdmissionOfOptions(t *testing.T) {
	t.Parallel()
	c, err := New(newEnv(t), "/plugins", Options{Admission: AdmissionOptions{DisablePlugins: []string{"Priority", "ServiceAccount"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if got := names(instanceOf(t, c).admission.chain); slices.Contains(got, "Priority") || !slices.Contains(got, "NamespaceLifecycle") {
		t.Errorf("plugins %s", got)
	}
}

// TestOnlyAdmissionPlugins checks that OnlyPlugins disables all other plugins.
func TestOnlyAdmissionPlugins(t *testing.T) {
	t.Parallel()
	c, err := New(newEnv(t), "/plugins", Options{Admission: AdmissionOptions{OnlyPlugins: []string{"Priority", "AlwaysPullImages"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	got := names(instanceOf(t, c).admission.chain)
	slices.Sort(got)
	if want := []string{"AlwaysPullImages", "Priority"}; !slices.Equal(got, want) {
		t.Errorf("plugins %s, want %s", got, want)
	}
}

func names(chain admission.Chain) []string {
	var names []string
	for _, p := range chain {
		names = append(names, p.Name())
	}
	return names
}

func instanceOf(t testing.TB, c *ControlPlane) *instance {
	t.Helper()
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.opened.Load()
}

// TestAdmissionOverHTTP checks the effects of the default admission plugins on requests.
func TestAdmissionOverHTTP(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	const (
		classes  = "/apis/scheduling.k8s.io/v1/priorityclasses"
		claims   = "/api/v1/namespaces/default/persistentvolumeclaims"
		runtimes = "/apis/node.k8s.io/v1/runtimeclasses"
		storages = "/apis/storage.k8s.io/v1/storageclasses"
		limits   = "/api/v1/namespaces/default/limitranges"
		ingress  = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
	)
	pod := func(name, spec string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"}]%s}}`, name, spec)
	}
	as(t, c, "admin", "POST", pods, pod("a", ""), 201, `"priority":0,`)
	as(t, c, "admin", "POST", pods, pod("b", `,"priorityClassName":"system-node-critical"`), 201, `"priority":2000001000,`)
	as(t, c, "admin", "GET", pods+"/a", "", 200, `"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},`)
	as(t, c, "admin", "POST", pods, pod("c", `,"priorityClassName":"none"`), 403, `pods \"c\" is forbidden: no PriorityClass with name none was found`)

	// A write of an object that a plugin looks up has taken effect by the time it returns.
	as(t, c, "admin", "POST", classes, `{"metadata":{"name":"low"},"value":-7,"globalDefault":true}`, 201, "")
	as(t, c, "admin", "POST", pods, pod("d", ""), 201, `"priority":-7,`)
	as(t, c, "admin", "POST", classes, `{"metadata":{"name":"two"},"value":7,"globalDefault":true}`, 403, "PriorityClass low is already marked as default")
	as(t, c, "admin", "DELETE", classes+"/low", "", 200, "")
	as(t, c, "admin", "POST", pods, pod("e", ""), 201, `"priority":0,`)

	as(t, c, "admin", "POST", runtimes, `{"metadata":{"name":"rc"},"handler":"h","overhead":{"podFixed":{"cpu":"100m"}}}`, 201, "")
	as(t, c, "admin", "POST", pods, pod("f", `,"runtimeClassName":"rc"`), 201, `"overhead":{"cpu":"100m"}`)
	as(t, c, "admin", "POST", pods, pod("g", `,"runtimeClassName":"none"`), 403, `RuntimeClass \"none\" not found`)

	claim := `{"metadata":{"name":%q},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	as(t, c, "admin", "POST", claims, fmt.Sprintf(claim, "a"), 201, `"finalizers":["kubernetes.io/pvc-protection"]`)
	as(t, c, "admin", "POST", storages, `{"metadata":{"name":"s","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p"}`, 201, "")
	as(t, c, "admin", "POST", claims, fmt.Sprintf(claim, "b"), 201, `"storageClassName":"s"`)
	as(t, c, "admin", "POST", "/apis/networking.k8s.io/v1/ingressclasses", `{"metadata":{"name":"ic","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"a.b/c"}}`, 201, "")
	as(t, c, "admin", "POST", ingress, `{"metadata":{"name":"i"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`, 201, `"ingressClassName":"ic"`)

	as(t, c, "admin", "POST", "/api/v1/nodes", `{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z"}}}`, 201, `"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]`)
	as(t, c, "admin", "POST", pods+"/a/binding", `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}`, 201, "")
	as(t, c, "admin", "GET", pods+"/a", "", 200, `"labels":{"topology.kubernetes.io/zone":"z"}`)

	as(t, c, "admin", "POST", limits, `{"metadata":{"name":"lr"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"default":{"cpu":"500m"}}]}}`, 201, "")
	as(t, c, "admin", "POST", pods, pod("h", ""), 201, `"kubernetes.io/limit-ranger":"LimitRanger plugin set: cpu request for container c; cpu limit for container c"`)
	as(t, c, "admin", "POST", pods, `{"metadata":{"name":"i"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"2"}}}]}}`, 403,
		`pods \"i\" is forbidden: maximum cpu usage per Container is 1, but limit is 2`)
}

// BenchmarkAdmission measures the execution of all default plugins for the creation of an object.
// BenchmarkAdmission/pods looks up the default priority class and lists limit ranges; /configmaps
// reads no other objects.
func BenchmarkAdmission(b *testing.B) {
	c := newPlane(b, newEnv(b), "/plugins")
	i := instanceOf(b, c)
	chain := i.admission.chain
	for name, obj := range map[string]codec.Object{
		"pods":       &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		"configmaps": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}},
	} {
		b.Run(name, func(b *testing.B) {
			resource := i.resources.finder.find(corev1.SchemeGroupVersion, name, "")
			b.ReportAllocs()
			for b.Loop() {
				created := obj
				if pod, ok := obj.(*corev1.Pod); ok {
					shallow := *pod // plugins write to its specification
					created = &shallow
				}
				a := &admission.Attributes{Request: admission.Request{Operation: admission.Create, Resource: resource, Namespace: "default", Name: "x", Lookups: new(admission.Lookups)}, Object: created}
				if err := chain.Mutate(b.Context(), a); err != nil {
					b.Fatal(err)
				}
				if err := chain.Validate(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestPluginsOnDemand checks that plugins which are disabled by default run if they are enabled.
func TestPluginsOnDemand(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Identity.Authenticator = byHeader{}
	c, err := New(env, "/plugins", Options{Admission: AdmissionOptions{EnablePlugins: []string{"NamespaceAutoProvision", "DenyServiceExternalIPs", "OwnerReferencesPermissionEnforcement"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	as(t, c, "admin", "POST", "/api/v1/namespaces/new/configmaps", `{"metadata":{"name":"a"}}`, 201, "")
	as(t, c, "admin", "GET", "/api/v1/namespaces/new", "", 200, `"phase":"Active"`)
	as(t, c, "admin", "POST", "/api/v1/namespaces/new/services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["192.0.2.1"]}}`, 403, "Use of external IPs is denied by admission control")
	owner := `{"metadata":{"name":%q,"ownerReferences":[{"apiVersion":"v1","kind":%q,"name":"a","uid":"u","blockOwnerDeletion":true}]}}`
	as(t, c, "admin", "POST", "/api/v1/namespaces/new/configmaps", fmt.Sprintf(owner, "b", "ConfigMap"), 201, "")
	as(t, c, "admin", "POST", "/api/v1/namespaces/new/configmaps", fmt.Sprintf(owner, "c", "Nope"), 403, "cannot find RESTMapping for APIVersion v1 Kind Nope")
}
