package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

func noOptions() rest.UpdateOptions { return rest.UpdateOptions{} }

// watchFrom returns options to watch the changes after the current state of an object.
func watchFrom(e *env, name string) rest.ListOptions {
	e.Helper()
	return rest.ListOptions{ResourceVersion: e.get(name).ResourceVersion}
}

// specCounted returns a Strategy that increments the generation if the spec changes.
func specCounted() *registry.Strategy {
	return &registry.Strategy{
		Generation: true,
		SpecChanged: func(obj, old codec.Object) bool {
			return !equality.Semantic.DeepEqual(obj.(*corev1.Pod).Spec, old.(*corev1.Pod).Spec)
		},
		PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
			obj.(*corev1.Pod).Status = old.(*corev1.Pod).Status
		},
	}
}

// statusPart returns the status subresource of pods.
func statusPart(store *registry.Store) *registry.SubresourceStore {
	return &registry.SubresourceStore{Store: store, Subresource: "status", Strategy: &registry.Strategy{
		Namespaced: true, Generation: true, BlocksRemoval: store.Strategy.BlocksRemoval,
		PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
			obj.(*corev1.Pod).Spec = old.(*corev1.Pod).Spec
			obj.SetLabels(old.GetLabels())
		},
	}}
}

func TestOptimisticConcurrency(t *testing.T) {
	t.Parallel()
	const conflict = `Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the latest version and try again`
	const required = `pods "p" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`
	for name, test := range map[string]struct {
		require bool
		version string // OLD and NEW are placeholders for the first and the newest version
		code    int32
		message string
	}{
		"newest":                   {version: "NEW"},
		"newest, required":         {version: "NEW", require: true},
		"none":                     {},
		"zero":                     {version: "0"},
		"zeros":                    {version: "00"},
		"no number":                {version: "abc", code: 409, message: conflict},
		"none, required":           {require: true, code: 422, message: required},
		"zero, required":           {version: "0", require: true, code: 422, message: required},
		"older":                    {version: "OLD", code: 409, message: conflict},
		"older, required":          {version: "OLD", require: true, code: 409, message: conflict},
		"of the future":            {version: "999999", code: 409, message: conflict},
		"of the future, required ": {version: "999999", require: true, code: 409, message: conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &registry.Strategy{RequireResourceVersion: test.require}, nil)
			old := e.create(pod("p"))
			current, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, noOptions())
			if err != nil {
				t.Fatal(err)
			}
			next := pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "m" })
			switch next.ResourceVersion = test.version; test.version {
			case "OLD":
				next.ResourceVersion = old.ResourceVersion
			case "NEW":
				next.ResourceVersion = current.ResourceVersion
			}
			got, _, err := e.put(next, noOptions())
			if test.code != 0 {
				wantStatus(t, err, test.code, test.message)
				if e.get("p").Spec.NodeName != "n" {
					t.Error("the object was written nevertheless")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Spec.NodeName != "m" || revision(t, got) <= revision(t, current) {
				t.Errorf("got %s at %s, after %s", got.Spec.NodeName, got.ResourceVersion, current.ResourceVersion)
			}
		})
	}
}

func TestUpdateKeepsSystemMetadata(t *testing.T) {
	t.Parallel()
	e := newEnv(t, specCounted(), nil)
	before := e.create(pod("p", finalizers("example.com/f")))
	if _, _, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	marked := e.get("p")
	got, _, err := e.put(pod("p", finalizers("example.com/f"), func(p *corev1.Pod) {
		p.Generation, p.SelfLink, p.CreationTimestamp = 99, "/x", metav1.NewTime(time.Unix(1, 0))
		p.Labels = map[string]string{"a": "b"}
	}), noOptions())
	if err != nil {
		t.Fatal(err)
	}
	want := marked.DeepCopy()
	want.Labels, want.ResourceVersion = map[string]string{"a": "b"}, got.ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" || got.UID != before.UID {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImmutableMetadata(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*corev1.Pod)
		message string
	}{
		"uid": {func(p *corev1.Pod) { p.UID = "other" }, `Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable`},
		"deletionTimestamp": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
		}, `Pod "p" is invalid: metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable`},
		"grace period": {func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }, `Pod "p" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable`},
		"bad label":    {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "-"} }, `Pod "p" is invalid: metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, nil, nil)
			e.create(pod("p"))
			_, err := e.change(e.Store, "p", test.change, noOptions())
			wantStatus(t, err, 422, test.message)
		})
	}
}

func TestUIDPrecondition(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	stored := e.create(pod("p"))
	other := types.UID("other")
	_, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, rest.UpdateOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	wantStatus(t, err, 409, `Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, Key: /registry/pods/a/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: `+string(stored.UID))
	if _, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, rest.UpdateOptions{Preconditions: &metav1.Preconditions{UID: &stored.UID}}); err != nil {
		t.Error(err)
	}
	_, err = e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, rest.UpdateOptions{Preconditions: &metav1.Preconditions{UID: &other}, UpdateOptions: metav1.UpdateOptions{DryRun: []string{"All"}}})
	wantStatus(t, err, 409, `Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, Key: /pods/a/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: `+string(stored.UID))
	missing := func(allow bool) error {
		_, _, err := e.put(pod("q"), rest.UpdateOptions{AllowCreate: allow, Preconditions: &metav1.Preconditions{UID: &other}})
		return err
	}
	wantStatus(t, missing(false), 404, `pods "q" not found`)
	wantStatus(t, missing(true), 409, `Operation cannot be fulfilled on pods "q": StorageError: invalid object, Code: 4, Key: /registry/pods/a/q, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: `)
}

func TestGenerationCountsTheSpec(t *testing.T) {
	t.Parallel()
	e := newEnv(t, specCounted(), nil)
	e.create(pod("p"))
	status := statusPart(e.Store)
	for i, step := range []struct {
		name    string
		through rest.Updater
		change  func(*corev1.Pod)
		want    int64
		written bool
	}{
		{"nothing", e.Store, func(*corev1.Pod) {}, 1, false},
		{"a label", e.Store, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, 1, true},
		{"the spec", e.Store, func(p *corev1.Pod) { p.Spec.NodeName = "n" }, 2, true},
		{"the status through the main resource", e.Store, func(p *corev1.Pod) { p.Status.Message = "x" }, 2, false},
		{"the status", status, func(p *corev1.Pod) { p.Status.Message = "x" }, 2, true},
		{"the spec and a label through the status", status, func(p *corev1.Pod) { p.Spec.NodeName = "m"; p.Labels = nil }, 2, false},
		{"generation itself", e.Store, func(p *corev1.Pod) { p.Generation = 50 }, 2, false},
		{"the spec again", e.Store, func(p *corev1.Pod) { p.Spec.NodeName = "m" }, 3, true},
	} {
		before := e.get("p")
		got, err := e.change(step.through, "p", step.change, noOptions())
		if err != nil {
			t.Fatalf("step %d, %s: change the pod: %v", i, step.name, err)
		}
		if got.Generation != step.want || (got.ResourceVersion != before.ResourceVersion) != step.written {
			t.Errorf("%d %s: generation %d, revision %s after %s; want generation %d, written %v", i, step.name,
				got.Generation, got.ResourceVersion, before.ResourceVersion, step.want, step.written)
		}
	}
	final := e.get("p")
	if final.Status.Message != "x" || final.Labels["a"] != "b" {
		t.Errorf("object %+v", final)
	}
}

func TestPartDoesNotCreate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{AllowCreateOnUpdate: true}, nil)
	_, _, err := statusPart(e.Store).Update(e.ctx, key("p"), func(context.Context, codec.Object) (codec.Object, error) {
		return pod("p"), nil
	}, rest.UpdateOptions{AllowCreate: true})
	wantStatus(t, err, 404, `pods "p" not found`)
}

func TestCreateOnUpdate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		strategy registry.Strategy
		allow    bool
		version  string
		created  bool
		code     int32
		message  string
	}{
		"not allowed":         {code: 404, message: `pods "p" not found`},
		"by the kind":         {strategy: registry.Strategy{AllowCreateOnUpdate: true, Generation: true}, created: true},
		"by apply":            {strategy: registry.Strategy{Generation: true}, allow: true, created: true},
		"old resourceVersion": {strategy: registry.Strategy{Generation: true}, allow: true, version: "5", created: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &test.strategy, nil)
			validated := ""
			options := rest.UpdateOptions{
				AllowCreate:    test.allow,
				Validate:       func(context.Context, codec.Object, codec.Object) error { validated += "update"; return nil },
				ValidateCreate: func(context.Context, codec.Object, codec.Object) error { validated += "create"; return nil },
			}
			got, created, err := e.put(pod("p", func(p *corev1.Pod) { p.ResourceVersion = test.version }), options)
			if test.code != 0 {
				wantStatus(t, err, test.code, test.message)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if created != test.created || validated != "create" || got.UID == "" || got.Generation != 1 || got.CreationTimestamp.IsZero() {
				t.Errorf("created %v, validated as %q: %+v", created, validated, got.ObjectMeta)
			}
			validated = ""
			if _, created, err = e.put(pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }), options); err != nil || created || validated != "update" {
				t.Errorf("second time: created %v, validated as %q, %v", created, validated, err)
			}
		})
	}
}

func TestUpdateDryRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{AllowCreateOnUpdate: true}, nil)
	before := e.create(pod("p"))
	options := rest.UpdateOptions{UpdateOptions: metav1.UpdateOptions{DryRun: dryRun()}}
	got, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, options)
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.NodeName != "n" || got.ResourceVersion != before.ResourceVersion {
		t.Errorf("response %s at %s; want the change at the same revision %s", got.Spec.NodeName, got.ResourceVersion, before.ResourceVersion)
	}
	if diff := cmp.Diff(before, e.get("p")); diff != "" {
		t.Errorf("a dry run was stored:\n%s", diff)
	}
	if _, created, err := e.put(pod("q"), options); err != nil || !created || e.get("q") != nil {
		t.Errorf("creation: created %v, %v, stored %v", created, err, e.get("q"))
	}
}

func TestUpdateErrorsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p"))
	refused := apierrors.NewForbidden(e.Resource, "p", errors.New("no"))
	_, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, rest.UpdateOptions{
		Validate: func(context.Context, codec.Object, codec.Object) error { return refused },
	})
	if !apierrors.IsForbidden(err) {
		t.Errorf("error %v; want the error of admission", err)
	}
	if e.get("p").Spec.NodeName != "" {
		t.Error("the object was written nevertheless")
	}
}

// TestNoUpdateIsLost checks that no increment is lost if many writers increment a counter in one
// object: half of them with a resourceVersion and retries, half with an UpdateFunc.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 20
	e := newEnv(t, nil, nil)
	e.create(pod("p", func(p *corev1.Pod) { p.Annotations = map[string]string{"n": "0"} }))
	increment := func(p *corev1.Pod) {
		n, err := strconv.Atoi(p.Annotations["n"])
		if err != nil {
			t.Error(err)
		}
		p.Annotations["n"] = strconv.Itoa(n + 1)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				if w%2 == 0 {
					if _, err := e.change(e.Store, "p", increment, noOptions()); err != nil {
						t.Errorf("writer %d: %v", w, err)
					}
					continue
				}
				for {
					p := e.get("p")
					increment(p)
					_, _, err := e.put(p, noOptions())
					if err == nil {
						break
					}
					if !apierrors.IsConflict(err) {
						t.Errorf("writer %d: %v", w, err)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if got := e.get("p").Annotations["n"]; got != fmt.Sprint(writers*each) {
		t.Errorf("counted to %s; want %d", got, writers*each)
	}
}

// writes is a storage that records the options of updates.
type writes struct {
	storage.Interface
	options []storage.WriteOptions
}

func (w *writes) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	return w.Interface.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		w.options = append(w.options, write)
		return obj, write, err
	}, options)
}

// TestSubresourceOfWrite checks that storage receives the subresource of a write as an option. Quotas
// depend on it.
func TestSubresourceOfWrite(t *testing.T) {
	t.Parallel()
	var recorded *writes
	e := newEnv(t, nil, func(inner storage.Interface) storage.Interface {
		recorded = &writes{Interface: inner}
		return recorded
	})
	e.create(pod("p"))
	change := func(_ context.Context, current codec.Object) (codec.Object, error) {
		obj := current.DeepCopyObject().(*corev1.Pod)
		obj.Status.Message += "x"
		return obj, nil
	}
	for want, updater := range map[string]rest.Updater{"": e.Store, "status": statusPart(e.Store)} {
		recorded.options = nil
		if _, _, err := updater.Update(e.ctx, key("p"), change, rest.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(recorded.options) != 1 || recorded.options[0].Subresource != want {
			t.Errorf("%q: options %+v", want, recorded.options)
		}
	}
}
