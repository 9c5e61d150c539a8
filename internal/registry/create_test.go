package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage"
)

func TestCreateFillsMetadata(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		strategy   registry.Strategy
		generation int64
	}{
		"without generation": {registry.Strategy{}, 7}, // as the client sent it
		"with generation":    {registry.Strategy{Generation: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &test.strategy, nil)
			before := time.Now().Truncate(time.Second)
			past := metav1.NewTime(time.Unix(1, 0))
			seconds := int64(5)
			got := e.create(pod("p", func(p *corev1.Pod) {
				p.UID, p.Generation, p.SelfLink = "mine", 7, "/x"
				p.CreationTimestamp, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = past, &past, &seconds
			}))
			if got.UID == "" || got.UID == "mine" {
				t.Errorf("uid %q; want a UID that the server has generated", got.UID)
			}
			if got.CreationTimestamp.Time.Before(before) || got.CreationTimestamp.Nanosecond() != 0 {
				t.Errorf("creationTimestamp %v; want now, in whole seconds", got.CreationTimestamp)
			}
			if got.DeletionTimestamp != nil || got.DeletionGracePeriodSeconds != nil || got.SelfLink != "" {
				t.Errorf("the client has set system metadata: %+v", got.ObjectMeta)
			}
			if got.Generation != test.generation {
				t.Errorf("generation %d; want %d", got.Generation, test.generation)
			}
			if revision(t, got) <= 0 {
				t.Errorf("resourceVersion %q", got.ResourceVersion)
			}
			if diff := cmp.Diff(got, e.get("p")); diff != "" {
				t.Errorf("(-response +stored):\n%s", diff)
			}
		})
	}
}

func TestCreateRejects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 254)
	for name, test := range map[string]struct {
		change  func(*corev1.Pod)
		code    int32
		message string
	}{
		"resourceVersion":               {func(p *corev1.Pod) { p.ResourceVersion = "1" }, 400, "resourceVersion should not be set on objects to be created"},
		"resourceVersion with zeros":    {func(p *corev1.Pod) { p.ResourceVersion = "01" }, 400, "resourceVersion should not be set on objects to be created"},
		"resourceVersion of the future": {func(p *corev1.Pod) { p.ResourceVersion = "18446744073709551615" }, 400, "resourceVersion should not be set on objects to be created"},
		"no name":                       {func(p *corev1.Pod) { p.Name = "" }, 422, `Pod "" is invalid: metadata.name: Required value: name or generateName is required`},
		"bad name":                      {func(p *corev1.Pod) { p.Name = "P" }, 422, `Pod "P" is invalid: metadata.name: Invalid value: "P": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		"long name":                     {func(p *corev1.Pod) { p.Name = long }, 422, `Pod "` + long + `" is invalid: metadata.name: Invalid value: "` + long + `": must be no more than 253 characters`},
		"no namespace":                  {func(p *corev1.Pod) { p.Namespace = "" }, 422, `Pod "p" is invalid: metadata.namespace: Required value`},
		"bad label":                     {func(p *corev1.Pod) { p.Labels = map[string]string{"a b": "c"} }, 422, `Pod "p" is invalid: metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		"owner without uid": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n"}}
		}, 422, `Pod "p" is invalid: metadata.ownerReferences[0].uid: Required value: must not be empty`},
		"both deletion finalizers": {func(p *corev1.Pod) {
			p.Finalizers = []string{"orphan", "foregroundDeletion"}
		}, 422, `Pod "p" is invalid: metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, nil, nil)
			_, err := e.Create(e.ctx, pod("p", test.change), nil, metav1.CreateOptions{})
			wantStatus(t, err, test.code, test.message)
			if n, err := e.Storage.Count(e.ctx); err != nil || n != 0 {
				t.Errorf("%d objects, %v; want none", n, err)
			}
		})
	}
}

// TestCreateIgnoresVersion checks the values of resourceVersion that are accepted in a new object, as in
// kube-apiserver, because they do not identify a revision.
func TestCreateIgnoresVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0", "00", "abc", "-1", "+1", " 1", "1.0", "18446744073709551616"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, nil, nil)
			got := e.create(pod("p", func(p *corev1.Pod) { p.ResourceVersion = version }))
			if got.ResourceVersion == version || revision(t, got) <= 0 {
				t.Errorf("resourceVersion %q; want one assigned by the server", got.ResourceVersion)
			}
		})
	}
}

// TestDryRunOfAVersion checks that the dry run of a creation accepts a resourceVersion, as in kube-apiserver.
func TestDryRunOfAVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	record, err := e.Create(e.ctx, pod("p", func(p *corev1.Pod) { p.ResourceVersion = "7" }), nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := e.Storage.Count(e.ctx); err != nil || n != 0 || record.Name().Name != "p" {
		t.Errorf("%d objects, %v; want none, and a response for %s", n, err, record.Name())
	}
}

func TestCreateTwice(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p", finalizers("example.com/f")))
	_, err := e.Create(e.ctx, pod("p"), nil, metav1.CreateOptions{})
	wantStatus(t, err, 409, `pods "p" already exists`)
	if _, _, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Create(e.ctx, pod("p"), nil, metav1.CreateOptions{})
	wantStatus(t, err, 409, `object is being deleted: pods "p" already exists`)
}

// takenStorage returns ErrExists for a number of creations. names contains the names of all attempted
// creations.
type takenStorage struct {
	storage.Interface
	taken int
	names []string
}

func (s *takenStorage) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	s.names = append(s.names, obj.GetName())
	if len(s.names) <= s.taken {
		return nil, storage.ErrExists
	}
	return s.Interface.Create(ctx, obj, options)
}

func TestGenerateName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for name, test := range map[string]struct {
		name, base string
		taken      int
		tries      int
		message    string // of the conflict, NAME standing for the last name
		prefix     string
	}{
		"first try":        {base: "web-", tries: 1, prefix: "web-"},
		"third try":        {base: "web-", taken: 2, tries: 3, prefix: "web-"},
		"last try":         {base: "web-", taken: 7, tries: 8, prefix: "web-"},
		"never":            {base: "web-", taken: 8, tries: 8, message: `pods "NAME" already exists, the server was not able to generate a unique name for the object`},
		"long base":        {base: long, tries: 1, prefix: long[:58]},
		"name wins":        {name: "p", base: "web-", tries: 1, prefix: "p"},
		"taken and a name": {name: "p", base: "web-", taken: 1, tries: 1, message: `pods "NAME" already exists`},
		"invalid base":     {base: "-", message: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var taken *takenStorage
			e := newEnv(t, nil, func(s storage.Interface) storage.Interface {
				taken = &takenStorage{Interface: s, taken: test.taken}
				return taken
			})
			p := pod(test.name)
			p.GenerateName = test.base
			record, err := e.Create(e.ctx, p, nil, metav1.CreateOptions{})
			if len(taken.names) != test.tries {
				t.Errorf("tried %q; want %d names", taken.names, test.tries)
			}
			switch {
			case test.message == "-":
				if statusOf(err).Code != 422 {
					t.Errorf("error %v; want 422", err)
				}
				return
			case test.message != "":
				wantStatus(t, err, 409, strings.ReplaceAll(test.message, "NAME", taken.names[len(taken.names)-1]))
				return
			case err != nil:
				t.Fatal(err)
			}
			got := e.read(record)
			if suffix, ok := strings.CutPrefix(got.Name, test.prefix); !ok || test.name == "" && len(suffix) != 5 {
				t.Errorf("name %q; want %q and five characters", got.Name, test.prefix)
			}
			if got.GenerateName != test.base {
				t.Errorf("generateName %q; want %q", got.GenerateName, test.base)
			}
			seen := map[string]bool{}
			for _, name := range taken.names {
				seen[name] = true
			}
			if len(seen) != len(taken.names) {
				t.Errorf("names tried twice: %q", taken.names)
			}
		})
	}
}

func TestExactGenerateName(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{Namespaced: true, ExactGenerateName: true}, nil)
	p := pod("")
	p.GenerateName = "web"
	record, err := e.Create(e.ctx, p, nil, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.read(record).Name; got != "web" {
		t.Errorf("name %q", got)
	}
}

func TestGeneratedNameConflict(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, func(s storage.Interface) storage.Interface { return &takenStorage{Interface: s, taken: 100} })
	p := pod("")
	p.GenerateName = "web-"
	_, err := e.Create(e.ctx, p, nil, metav1.CreateOptions{})
	if got := statusOf(err); got.Details == nil || got.Details.RetryAfterSeconds != 1 {
		t.Errorf("status %+v; want retryAfterSeconds 1", got)
	}
}

// TestHookOrder checks that a creation calls the hooks of a strategy in the documented order, and validating
// admission last, with the final object.
func TestHookOrder(t *testing.T) {
	t.Parallel()
	var calls []string
	note := func(s string) { calls = append(calls, s) }
	strategy := &registry.Strategy{
		PrepareForCreate: func(_ context.Context, obj codec.Object) {
			note("prepare " + obj.GetName())
			obj.SetLabels(map[string]string{"prepared": "yes"})
		},
		ValidateName: func(name string, prefix bool) []string {
			note("name")
			return validation.NameIsDNSSubdomain(name, prefix)
		},
		Validate:         func(context.Context, codec.Object) field.ErrorList { note("validate"); return nil },
		WarningsOnCreate: func(context.Context, codec.Object) []string { note("warnings"); return []string{"careful"} },
		PrepareForUpdate: func(context.Context, codec.Object, codec.Object) { note("prepare") },
		ValidateUpdate:   func(context.Context, codec.Object, codec.Object) field.ErrorList { note("validate"); return nil },
		WarningsOnUpdate: func(context.Context, codec.Object, codec.Object) []string { note("warnings"); return nil },
	}
	e := newEnv(t, strategy, nil)
	admit := func(_ context.Context, obj, old codec.Object) error {
		note("admission " + obj.GetLabels()["prepared"])
		if (old != nil) != (obj.GetResourceVersion() != "") {
			t.Errorf("old %v for %v", old, obj)
		}
		return nil
	}
	if _, err := e.Create(e.ctx, pod("p"), admit, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"prepare p", "name", "validate", "warnings", "admission yes"}, calls); diff != "" {
		t.Errorf("creation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"careful"}, request.WarningsFrom(e.ctx)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestCreateCallsAdmission(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	refused := errors.New("no")
	_, err := e.Create(e.ctx, pod("p"), func(context.Context, codec.Object, codec.Object) error { return refused }, metav1.CreateOptions{})
	if !errors.Is(err, refused) || e.get("p") != nil {
		t.Errorf("error %v; want the error of admission and no object", err)
	}
}

func TestFinalizerWarnings(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{Finalizers: registry.WarnUnqualifiedFinalizers}, nil)
	e.create(pod("p", finalizers("bare.example.com", "example.com/good", "orphan")))
	warning := func(name string) string {
		return `metadata.finalizers: "` + name + `": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers`
	}
	if diff := cmp.Diff([]string{warning("bare.example.com")}, request.WarningsFrom(e.ctx)); diff != "" {
		t.Errorf("warnings of creation (-want +got):\n%s", diff)
	}
	e.ctx = request.NewContext(t.Context(), &request.Info{}, time.Now())
	if _, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "second.example.com") }, noOptions()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{warning("second.example.com")}, request.WarningsFrom(e.ctx)); diff != "" {
		t.Errorf("warnings of an update, which must be only for new finalizers (-want +got):\n%s", diff)
	}
}

func TestRejectFinalizers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{Finalizers: registry.RejectUnqualifiedFinalizers}, nil)
	refusal := func(place string) string {
		return `Pod "p" is invalid: ` + place + `: Invalid value: "bare.example.com": name is neither a standard finalizer name nor is it fully qualified`
	}
	_, err := e.Create(e.ctx, pod("p", finalizers("example.com/good", "bare.example.com")), nil, metav1.CreateOptions{})
	wantStatus(t, err, 422, refusal("metadata.finalizers[1]"))
	e.create(pod("p", finalizers("example.com/good", "orphan")))
	_, err = e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "bare.example.com") }, noOptions())
	wantStatus(t, err, 422, refusal("metadata.finalizers[2]"))

	// Objects of older servers with such a finalizer remain editable.
	e.Strategy.Finalizers = registry.AllowUnqualifiedFinalizers
	e.create(pod("old", finalizers("bare.example.com")))
	e.Strategy.Finalizers = registry.RejectUnqualifiedFinalizers
	if _, err := e.change(e.Store, "old", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, noOptions()); err != nil {
		t.Error(err)
	}
}

func TestCreateDryRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	record, err := e.Create(e.ctx, pod("p"), nil, metav1.CreateOptions{DryRun: dryRun()})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.read(record); got.UID == "" || got.ResourceVersion != "" {
		t.Errorf("response %+v; want a uid and no resourceVersion", got.ObjectMeta)
	}
	if e.get("p") != nil {
		t.Error("a dry run was stored")
	}
	e.create(pod("p"))
	_, err = e.Create(e.ctx, pod("p"), nil, metav1.CreateOptions{DryRun: dryRun()})
	wantStatus(t, err, 409, `pods "p" already exists`)
}

// ttlStorage records the TTL of each write.
type ttlStorage struct {
	storage.Interface
	seen []time.Duration
}

func (s *ttlStorage) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	s.seen = append(s.seen, options.TTL)
	return s.Interface.Create(ctx, obj, options)
}

func TestTTL(t *testing.T) {
	t.Parallel()
	var noted *ttlStorage
	e := newEnv(t, &registry.Strategy{TTL: func(obj codec.Object) time.Duration {
		if obj.GetLabels()["short"] != "" {
			return time.Second
		}
		return time.Hour
	}}, func(s storage.Interface) storage.Interface {
		noted = &ttlStorage{Interface: s}
		return noted
	})
	e.create(pod("long"))
	e.create(pod("short", func(p *corev1.Pod) { p.Labels = map[string]string{"short": "1"} }))
	if diff := cmp.Diff([]time.Duration{time.Hour, time.Second}, noted.seen); diff != "" {
		t.Errorf("TTLs (-want +got):\n%s", diff)
	}
	w, err := e.Watch(e.ctx, "a", watchFrom(e, "short"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	events, err := w.Next(e.ctx)
	if err != nil || len(events) != 1 || events[0].Type != "DELETED" || events[0].Record.Name() != key("short") {
		t.Errorf("events %v, %v; want the deletion of short", events, err)
	}
	if e.get("long") == nil {
		t.Error("long was deleted, too")
	}
}
