package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// eventually calls condition until it returns nil. After a minute, it ends the test with the last error.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	testserver.Eventually(t, time.Minute, condition)
}

// environment is a server that serves the definition of sites, and a client without a cache.
type environment struct {
	server *testserver.Server
	config *rest.Config
	client client.Client
	scheme *runtime.Scheme
	dns    *dns
	// reconciled counts the calls of the reconciler.
	reconciled atomic.Int64
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	server := testserver.New(t, testserver.Options{})
	w := newEnvironmentOf(t, server.RESTConfig())
	w.server = server
	return w
}

// newEnvironmentOf is like newEnvironment, but uses an existing API. The field server of the result is nil.
func newEnvironmentOf(t *testing.T, config *rest.Config) *environment {
	t.Helper()
	w := &environment{config: config, scheme: runtime.NewScheme(), dns: &dns{records: map[string]string{}}}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	addToScheme(w.scheme)
	var err error
	if w.client, err = client.New(config, client.Options{Scheme: w.scheme}); err != nil {
		t.Fatal(err)
	}
	crd := readDefinition(t)
	if err := w.client.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	// The operator must not start before discovery contains the kind.
	eventually(t, func() error {
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("the definition is not established")
	})
	return w
}

func readDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	text, err := os.ReadFile("testdata/sites.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// counted is a reconciler that counts its calls.
type counted struct {
	*reconciler
	count *atomic.Int64
}

func (c counted) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c.count.Add(1)
	return c.reconciler.Reconcile(ctx, req)
}

// run runs the operator until the test ends.
func (w *environment) run(t *testing.T) {
	mgr, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme: w.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "sites.web.example.com", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &reconciler{Client: mgr.GetClient(), dns: w.dns}
	if err := r.setUp(mgr, counted{r, &w.reconciled}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
}

func newSite(name string) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: SiteSpec{
		Domain: name + ".example.com", Pages: []Page{{Path: "/", Text: "hello"}},
	}}
}

// settled waits until the operator has reported the current generation of a site, and returns the site.
func (w *environment) settled(t *testing.T, name string) *Site {
	t.Helper()
	site := &Site{}
	eventually(t, func() error {
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, site); err != nil {
			return err
		}
		if site.Status.ObservedGeneration != site.Generation {
			return fmt.Errorf("generation %d is not observed: %+v", site.Generation, site.Status)
		}
		return nil
	})
	return site
}

func (w *environment) deployment(t *testing.T, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, d)
	return d, err
}

// TestOperator creates, updates and deletes a site. It restarts the server in between.
func TestOperator(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run(t)

	site := newSite("shop")
	if err := w.client.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if site.Spec.Zone != "eu" || site.Spec.Replicas == nil || *site.Spec.Replicas != 1 {
		t.Errorf("defaults are missing in the answer: %+v", site.Spec)
	}
	site = w.settled(t, "shop")
	ready := meta.FindStatusCondition(site.Status.Conditions, "Ready")
	if site.Generation != 1 || len(site.Finalizers) != 1 || ready == nil || ready.Status != metav1.ConditionFalse {
		t.Errorf("generation %d, finalizers %v, ready %v", site.Generation, site.Finalizers, ready)
	}
	d, err := w.deployment(t, "shop")
	if err != nil || !metav1.IsControlledBy(d, site) || *d.Spec.Replicas != 1 {
		t.Fatalf("deployment %+v, %v", d, err)
	}

	t.Log("the spec is followed, by scale too")
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if err := w.client.SubResource("scale").Update(t.Context(), site, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if site = w.settled(t, "shop"); site.Generation != 2 || *site.Spec.Replicas != 3 {
		t.Errorf("generation %d, replicas %d", site.Generation, *site.Spec.Replicas)
	}

	t.Log("a restart loses nothing: what happens after it is seen")
	if err := w.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, err = w.deployment(t, "shop"); err != nil || *d.Spec.Replicas != 3 {
		t.Fatalf("replicas after scaling: %+v, %v", d.Spec.Replicas, err)
	}
	if err := w.client.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		again, err := w.deployment(t, "shop")
		if err == nil && again.UID == d.UID {
			return fmt.Errorf("deployment is still the old one")
		}
		return err
	})

	t.Log("what the deployment reports is reported on")
	d, err = w.deployment(t, "shop")
	if err != nil {
		t.Fatal(err)
	}
	d.Status.Replicas, d.Status.ReadyReplicas = 3, 3
	if err := w.client.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if site = w.settled(t, "shop"); !meta.IsStatusConditionTrue(site.Status.Conditions, "Ready") || site.Status.ReadyReplicas != 3 {
			return fmt.Errorf("status %+v", site.Status)
		}
		return nil
	})

	t.Log("deletion waits for the finalizer")
	if w.dns.get("shop.example.com") != "shop" {
		t.Error("the domain is not registered")
	}
	if err := w.client.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		err := w.client.Get(t.Context(), client.ObjectKeyFromObject(site), &Site{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the site is still there: %v", err)
	})
	if got := w.dns.get("shop.example.com"); got != "" {
		t.Errorf("the domain is still %s's", got)
	}
}

// TestNoEndlessReconciling checks that the operator does not trigger itself endlessly: a status write without
// changes creates no event, and a status write with changes does not change the generation.
func TestNoEndlessReconciling(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run(t)
	const sites = 20
	for i := range sites {
		if err := w.client.Create(t.Context(), newSite(fmt.Sprint("site", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sites {
		w.settled(t, fmt.Sprint("site", i))
	}
	// The creation of a site, its finalizer, and its two objects trigger reconciliations. Conflicts trigger a
	// few more.
	if n := w.reconciled.Load(); n > 10*sites {
		t.Errorf("%d sites were reconciled %d times", sites, n)
	}
}

// TestClient tests typical requests of operators, apart from those of the reconciler.
func TestClient(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *environment)
	}{
		{"rules refuse", clientRules},
		{"fields select", clientSelect},
		{"owners of fields meet", clientApply},
		{"an old object is not written", clientConflict},
		{"metadata alone is read", clientMetadata},
		{"a definition grows", clientGrow},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, w)
		})
	}
}

func clientRules(t *testing.T, w *environment) {
	bad := newSite("bad")
	bad.Spec.Domain = "NOT A DOMAIN"
	if err := w.client.Create(t.Context(), bad); !apierrors.IsInvalid(err) {
		t.Errorf("create with an invalid domain: error %v, want Invalid", err)
	}
	site := newSite("fixed")
	if err := w.client.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	site.Spec.Domain = "other.example.com"
	if err := w.client.Update(t.Context(), site); !apierrors.IsInvalid(err) {
		t.Errorf("change the domain: error %v, want Invalid", err)
	}
}

func clientSelect(t *testing.T, w *environment) {
	for i, zone := range []string{"us", "eu", "us"} {
		site := newSite(fmt.Sprint("zoned", i))
		site.Spec.Zone = zone
		site.Labels = map[string]string{"test": "select"}
		if err := w.client.Create(t.Context(), site); err != nil {
			t.Fatal(err)
		}
	}
	list := &SiteList{}
	err := w.client.List(t.Context(), list, client.InNamespace("default"), client.MatchingFields{"spec.zone": "us"}, client.MatchingLabels{"test": "select"})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d sites, %v", len(list.Items), err)
	}
}

func clientApply(t *testing.T, w *environment) {
	apply := func(owner client.FieldOwner, text string, options ...client.PatchOption) error {
		site := newSite("applied")
		site.TypeMeta = metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: "Site"}
		site.Spec.Pages = []Page{{Path: "/" + string(owner), Text: text}, {Path: "/all", Text: text}}
		return w.client.Patch(t.Context(), site, client.Apply, append(options, owner)...) //nolint:staticcheck // operators use the deprecated method
	}
	if err := apply("a", "x"); err != nil {
		t.Fatal(err)
	}
	if err := apply("b", "y"); !apierrors.IsConflict(err) {
		t.Errorf("a second owner of /all: %v", err)
	}
	if err := apply("b", "y", client.ForceOwnership); err != nil {
		t.Error(err)
	}
	site := &Site{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "applied"}, site); err != nil {
		t.Fatal(err)
	}
	if len(site.Spec.Pages) != 3 || len(site.ManagedFields) != 2 {
		t.Errorf("pages %v, %d managers", site.Spec.Pages, len(site.ManagedFields))
	}
}

func clientConflict(t *testing.T, w *environment) {
	site := newSite("twice")
	if err := w.client.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	old := site.DeepCopyObject().(*Site)
	site.Spec.Zone = "us"
	if err := w.client.Update(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	old.Spec.Pages = nil
	if err := w.client.Update(t.Context(), old); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
}

func clientMetadata(t *testing.T, w *environment) {
	if err := w.client.Create(t.Context(), newSite("known")); err != nil {
		t.Fatal(err)
	}
	site := &metav1.PartialObjectMetadata{}
	site.SetGroupVersionKind(groupVersion.WithKind("Site"))
	err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "known"}, site)
	if err != nil || site.Generation != 1 || site.UID == "" {
		t.Errorf("metadata of the site: %+v, %v; want generation 1 and a UID", site, err)
	}
}

// clientGrow adds a field to the definition, as a new release of an operator might do.
func clientGrow(t *testing.T, w *environment) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	eventually(t, func() error {
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "sites.web.example.com"}, crd); err != nil {
			return err
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["owner"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"nobody"`)}}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		return w.client.Update(t.Context(), crd)
	})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bystander", Namespace: "default"}}
	if err := w.client.Create(t.Context(), config); err != nil {
		t.Error(err)
	}
	grown := newUnstructuredSite("grown")
	if err := w.client.Create(t.Context(), grown); err != nil {
		t.Fatal(err)
	}
	if owner := grown.Object["spec"].(map[string]any)["owner"]; owner != "nobody" {
		t.Errorf("the new field is %v", owner)
	}
}
