package endpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// mergeSchemas returns the merge schemas, which are decoded once for all tests of the package. They are not
// modified.
var mergeSchemas = sync.OnceValue(func() managedfields.TypeConverter {
	return schemas{openapi.NewTypeConverter(), managedfields.NewDeducedTypeConverter()}
})

// schemas is a type converter for built-in kinds that deduces the types of all other kinds.
type schemas struct{ builtin, deduced managedfields.TypeConverter }

func (s schemas) of(kind string) managedfields.TypeConverter {
	if kind == "Widget" {
		return s.deduced
	}
	return s.builtin
}

func (s schemas) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return s.of(obj.GetObjectKind().GroupVersionKind().Kind).ObjectToTyped(obj, options...)
}

func (s schemas) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return s.builtin.TypedToObject(value)
}

// api is an API with a few small kinds that runs in the process of the test:
//
//	configmaps               typed, no hooks
//	pods, pods/status        with grace periods, a default for restartPolicy, and their own columns
//	pods/eviction, pods/log  a NamedCreater and a Connecter
//	nodes                    cluster-scoped
//	horizontalpodautoscalers v2 is the hub, v1 converts
//	widgets.example.com      untyped
type api struct {
	testing.TB
	http.Handler
	stores map[string]*registry.Store
	// feed adds a watch cache to each store if it is not nil.
	feed *cache.Feed
}

func newAPI(t testing.TB, config endpoints.Config) *api { return openAPI(t, config, false) }

// newCachedAPI is like newAPI, but adds a watch cache, as in a real server.
func newCachedAPI(t testing.TB, config endpoints.Config) *api { return openAPI(t, config, true) }

func openAPI(t testing.TB, config endpoints.Config, cached bool) *api {
	t.Helper()
	backend := storagetest.InMemory(t)
	if config.TypeConverter == nil {
		config.TypeConverter = mergeSchemas()
	}
	a := &api{TB: t, stores: map[string]*registry.Store{}}
	if cached {
		a.startFeed(backend)
	}
	resources := a.resources(backend)
	handler := &route.Handler{
		Catalog: route.NewCatalog(route.NewStatic(resources)), API: endpoints.New(config), NonResource: http.NotFoundHandler(),
	}
	a.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := contextOf(r, &info)
		request.SetUser(ctx, &request.User{Name: "tester"})
		if prepare, ok := ctx.Value(prepareKey{}).(func(context.Context)); ok {
			prepare(ctx)
		}
		handler.ServeHTTP(w, r.WithContext(ctx))
		if noted, ok := ctx.Value(warningsKey{}).(*[]string); ok {
			*noted = request.WarningsFrom(ctx)
		}
	})
	return a
}

// warningsKey is the context key of the warning recorder.
type warningsKey struct{}

// prepareKey is the context key of a function that changes the context of the request, as a filter does.
type prepareKey struct{}

func (a *api) store(backend kv.Backend, name string, kind *codec.Kind, namespaced bool, strategy *registry.Strategy) *registry.Store {
	strategy.Namespaced = namespaced
	resource := schema.GroupResource{Group: kind.Hub.GVK.Group, Resource: name}
	kept, err := storage.New(storage.Config{
		Backend: backend, Kind: kind, Namespaced: namespaced, ResourcePrefix: name, GroupResource: resource,
	})
	if err != nil {
		a.Fatal(err)
	}
	a.stores[name] = &registry.Store{Resource: resource, Kind: kind, Strategy: strategy, Storage: kept}
	if a.feed != nil {
		if a.stores[name].Storage, err = cache.New(cache.Config{Store: kept, Feed: a.feed}); err != nil {
			a.Fatal(err)
		}
	}
	return a.stores[name]
}

func (a *api) startFeed(backend kv.Backend) {
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: backend, Prefix: storage.DefaultPrefix})
	if err != nil {
		a.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	a.Cleanup(func() { cancel(); running.Wait() })
	a.feed = feed
}

func (a *api) resources(backend kv.Backend) []*rest.Resource {
	hub, one := hpaVersions()
	hpas := a.store(backend, "horizontalpodautoscalers", &codec.Kind{Hub: hub, Versions: []*codec.Version{hub, one}}, true, &registry.Strategy{})
	pods := a.store(backend, "pods", podKind(), true, podStrategy())
	kind := pods.Kind
	return []*rest.Resource{
		resource("configmaps", a.store(backend, "configmaps", kindOf("", "v1", "ConfigMap", func() codec.Object { return new(corev1.ConfigMap) }), true, &registry.Strategy{}), true),
		withTable(resource("pods", pods, true)),
		{GroupVersion: kind.Hub.GVK.GroupVersion(), Name: "pods", Subresource: "status", Namespaced: true, Kind: kind, Version: kind.Hub,
			Storage: &registry.SubresourceStore{Store: pods, Strategy: podStatusStrategy()}, ResetFields: reset("spec")},
		{GroupVersion: kind.Hub.GVK.GroupVersion(), Name: "pods", Subresource: "eviction", Namespaced: true, Version: evictionVersion(), WithoutTable: true, Storage: evictions{pods}},
		{GroupVersion: kind.Hub.GVK.GroupVersion(), Name: "pods", Subresource: "log", Namespaced: true, Version: connectVersion(), Storage: logs{}},
		resource("nodes", a.store(backend, "nodes", kindOf("", "v1", "Node", func() codec.Object { return new(corev1.Node) }), false, &registry.Strategy{}), false),
		resource("horizontalpodautoscalers", hpas, true),
		inVersion(resource("horizontalpodautoscalers", hpas, true), one),
		resource("widgets", a.store(backend, "widgets", widgetKind(), true, &registry.Strategy{}), true),
	}
}

func resource(name string, store *registry.Store, namespaced bool) *rest.Resource {
	return &rest.Resource{
		GroupVersion: store.Kind.Hub.GVK.GroupVersion(), Name: name, Singular: strings.TrimSuffix(name, "s"), Namespaced: namespaced,
		Kind: store.Kind, Version: store.Kind.Hub, Storage: store,
	}
}

func inVersion(r *rest.Resource, v *codec.Version) *rest.Resource {
	r.GroupVersion, r.Version = v.GVK.GroupVersion(), v
	return r
}

func kindOf(group, version, kind string, make func() codec.Object) *codec.Kind {
	return &codec.Kind{Hub: &codec.Version{GVK: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, New: make}}
}

func podKind() *codec.Kind {
	kind := kindOf("", "v1", "Pod", func() codec.Object { return new(corev1.Pod) })
	kind.Hub.Default = func(obj codec.Object) {
		if p := obj.(*corev1.Pod); p.Spec.RestartPolicy == "" {
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}
	}
	kind.Fields = func(obj codec.Object) fields.Set {
		return fields.Set{"spec.nodeName": obj.(*corev1.Pod).Spec.NodeName}
	}
	return kind
}

func podStrategy() *registry.Strategy {
	return &registry.Strategy{
		Generation: true,
		SpecChanged: func(obj, old codec.Object) bool {
			return !equality.Semantic.DeepEqual(obj.(*corev1.Pod).Spec, old.(*corev1.Pod).Spec)
		},
		PrepareForCreate: func(_ context.Context, obj codec.Object) { obj.(*corev1.Pod).Status = corev1.PodStatus{} },
		PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
			obj.(*corev1.Pod).Status = old.(*corev1.Pod).Status
		},
		GracePeriod: func(_ codec.Object, requested *int64) int64 {
			if requested != nil {
				return *requested
			}
			return 30
		},
	}
}

func podStatusStrategy() *registry.Strategy {
	return &registry.Strategy{Namespaced: true, PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
		obj.(*corev1.Pod).Spec = old.(*corev1.Pod).Spec
	}}
}

func reset(names ...any) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{"v1": fieldpath.NewSet(fieldpath.MakePathOrDie(names...))}
}

// withTable adds table columns and field selectors to the pods resource.
func withTable(r *rest.Resource) *rest.Resource {
	r.Table, r.ReturnDeleted = podColumns{}, true
	r.FieldLabel = func(label, value string) (string, string, error) {
		switch label {
		case "metadata.name", "metadata.namespace", "spec.nodeName":
			return label, value, nil
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
	return r
}

type podColumns struct{}

func (podColumns) Columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}, {Name: "Node", Type: "string", Priority: 1}}
}

func (podColumns) Cells(obj codec.Object, _ time.Time) ([]any, []metav1.TableRowCondition, error) {
	return []any{obj.GetName(), obj.(*corev1.Pod).Spec.NodeName}, nil, nil
}

func widgetKind() *codec.Kind {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	kind := kindOf(gvk.Group, gvk.Version, gvk.Kind, func() codec.Object {
		u := new(unstructured.Unstructured)
		u.SetGroupVersionKind(gvk)
		return u
	})
	kind.Hub.Untyped = true
	return kind
}

// hpaVersions returns the versions v2 (the hub) and v1 of autoscaling. Unlike in Kubernetes, a conversion
// to v1 drops the fields that v1 lacks, instead of preserving them in an annotation.
func hpaVersions() (hub, one *codec.Version) {
	hub = &codec.Version{GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		New: func() codec.Object { return new(autoscalingv2.HorizontalPodAutoscaler) }}
	one = &codec.Version{GVK: autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		New: func() codec.Object { return new(autoscalingv1.HorizontalPodAutoscaler) },
		Default: func(obj codec.Object) {
			if h := obj.(*autoscalingv1.HorizontalPodAutoscaler); h.Spec.MinReplicas == nil {
				h.Spec.MinReplicas = new(int32)
				*h.Spec.MinReplicas = 1
			}
		},
		ToHub: func(obj codec.Object) (codec.Object, error) {
			in := obj.(*autoscalingv1.HorizontalPodAutoscaler)
			out := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
			out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
			out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
			if cpu := in.Spec.TargetCPUUtilizationPercentage; cpu != nil {
				out.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: cpu}}}}
			}
			return out, nil
		},
		FromHub: func(obj codec.Object) (codec.Object, error) {
			in := obj.(*autoscalingv2.HorizontalPodAutoscaler)
			out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
			out.Spec.ScaleTargetRef = autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
			out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
			for _, m := range in.Spec.Metrics {
				if m.Resource != nil && m.Resource.Name == corev1.ResourceCPU {
					out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
				}
			}
			return out, nil
		}}
	return hub, one
}

func evictionVersion() *codec.Version {
	return kindOf("", "v1", "Binding", func() codec.Object { return new(corev1.Binding) }).Hub
}

// connectVersion returns the version of the options of pods/log, which have no metadata.
func connectVersion() *codec.Version {
	return &codec.Version{GVK: schema.GroupVersionKind{Version: "v1", Kind: "PodProxyOptions"}}
}

// evictions is a storage that deletes the pod and responds with a success Status.
type evictions struct{ pods *registry.Store }

func (e evictions) CreateNamed(ctx context.Context, name types.NamespacedName, _ codec.Object, _ rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	_, _, err := e.pods.Delete(ctx, name, nil, metav1.DeleteOptions{GracePeriodSeconds: new(int64), DryRun: options.DryRun})
	return nil, err
}

// logs is a connecter that responds with the name of the pod and the path in the options.
type logs struct{}

func (logs) ConnectOptions(query url.Values, tail string) (runtime.Object, error) {
	if query.Has("bad") {
		return nil, errors.New("bad is no option")
	}
	return &corev1.PodProxyOptions{Path: tail}, nil
}

func (logs) Connect(_ context.Context, name types.NamespacedName, options runtime.Object, _ rest.ErrorWriter) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "log of %s, tail %q", name, options.(*corev1.PodProxyOptions).Path)
	}), nil
}

func (logs) Connection() rest.Connection {
	return rest.Connection{Methods: []string{http.MethodGet}, AllowsPath: true, LongRunning: true}
}

// answer is a complete response.
type answer struct {
	*httptest.ResponseRecorder
	t testing.TB
	// warnings contains the warnings that a filter would send.
	warnings []string
}

// do sends a request. line contains the method and the path, and headers contains pairs of names and
// values.
func (a *api) do(line, body string, headers ...string) answer {
	a.Helper()
	r := newRequest(line, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return a.send(r)
}

func newRequest(line string, body io.Reader) *http.Request {
	method, target, _ := strings.Cut(line, " ")
	r := httptest.NewRequest(method, target, body)
	r.Header.Set("User-Agent", "tester/1.0")
	return r
}

func (a *api) send(r *http.Request) answer {
	w := httptest.NewRecorder()
	var warnings []string
	a.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), warningsKey{}, &warnings)))
	return answer{w, a.TB, warnings}
}

// must is like do, and fails the test if the request fails.
func (a *api) must(line, body string, headers ...string) answer {
	a.Helper()
	got := a.do(line, body, headers...)
	if got.Code >= 300 {
		a.Fatalf("%s: %d %s", line, got.Code, got.Body)
	}
	return got
}

func (w answer) object(into any) {
	w.t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		w.t.Fatalf("%v in %s", err, w.Body)
	}
}

func (w answer) status() metav1.Status {
	w.t.Helper()
	var status metav1.Status
	w.object(&status)
	return status
}

func (w answer) want(code int, message string) {
	w.t.Helper()
	if w.Code != code {
		w.t.Errorf("code %d; want %d: %.300s", w.Code, code, w.Body)
		return
	}
	if message == "" {
		return
	}
	got := w.status()
	if got.Message != message || int(got.Code) != code || got.Kind != "Status" || got.APIVersion != "v1" || got.Status != metav1.StatusFailure {
		w.t.Errorf("got  %+v\nwant %s", got, message)
	}
}

func (w answer) configMap() *corev1.ConfigMap {
	w.t.Helper()
	c := new(corev1.ConfigMap)
	w.object(c)
	if c.Kind != "ConfigMap" || c.APIVersion != "v1" {
		w.t.Fatalf("no ConfigMap: %s", w.Body)
	}
	return c
}

func (w answer) pod() *corev1.Pod {
	w.t.Helper()
	p := new(corev1.Pod)
	w.object(p)
	if p.Kind != "Pod" || p.APIVersion != "v1" {
		w.t.Fatalf("no Pod: %s", w.Body)
	}
	return p
}

const (
	inA      = "/api/v1/namespaces/a/"
	mergeT   = "application/merge-patch+json"
	jsonT    = "application/json-patch+json"
	smpT     = "application/strategic-merge-patch+json"
	applyT   = "application/apply-patch+yaml"
	tableT   = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partialT = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	listT    = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// configMap creates a configmap with the given data, and returns it.
func (a *api) configMap(name, data string) *corev1.ConfigMap {
	a.Helper()
	return a.must("POST "+inA+"configmaps", fmt.Sprintf(`{"metadata":{"name":%q},"data":{%s}}`, name, data)).configMap()
}

// encodeProtobuf encodes an object as clients do.
func encodeProtobuf(t testing.TB, obj runtime.Object) string {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobufType)
	if !ok {
		t.Fatal("no serializer")
	}
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// unsized hides the length of a body.
type unsized struct{ io.Reader }
