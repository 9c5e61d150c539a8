package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// graceful returns the Strategy of a kind with a grace period of 30 seconds.
func graceful() *registry.Strategy {
	return &registry.Strategy{Generation: true, GracePeriod: func(_ codec.Object, asked *int64) int64 {
		if asked != nil {
			return *asked
		}
		return 30
	}}
}

func seconds(n int64) *int64 { return &n }

func (e *env) delete(name string, options metav1.DeleteOptions) (*corev1.Pod, bool) {
	e.Helper()
	record, gone, err := e.Delete(e.ctx, key(name), nil, options)
	if err != nil {
		e.Fatal(err)
	}
	return e.read(record), gone
}

func TestDeleteAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	created := e.create(pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
	got, gone := e.delete("p", metav1.DeleteOptions{GracePeriodSeconds: seconds(100)})
	if !gone || e.get("p") != nil {
		t.Fatal("the object still exists")
	}
	if revision(t, got) <= revision(t, created) {
		t.Errorf("revision %s; want the revision of the deletion, after %s", got.ResourceVersion, created.ResourceVersion)
	}
	want := created.DeepCopy()
	want.ResourceVersion = got.ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last state of the object (-want +got):\n%s", diff)
	}
	_, _, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{})
	wantStatus(t, err, 404, `pods "p" not found`)
}

func TestDeleteWithFinalizers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{Generation: true}, nil)
	e.create(pod("p", finalizers("example.com/a", "example.com/b")))
	before := time.Now().Truncate(time.Second)
	marked, gone := e.delete("p", metav1.DeleteOptions{})
	if gone || marked.DeletionTimestamp == nil || marked.DeletionTimestamp.Time.Before(before) {
		t.Fatalf("gone %v, deletionTimestamp %v; want a mark", gone, marked.DeletionTimestamp)
	}
	if marked.DeletionGracePeriodSeconds == nil || *marked.DeletionGracePeriodSeconds != 0 || marked.Generation != 2 {
		t.Errorf("grace period %v, generation %d; want 0 and 2", marked.DeletionGracePeriodSeconds, marked.Generation)
	}
	again, gone := e.delete("p", metav1.DeleteOptions{})
	if diff := cmp.Diff(marked, again); diff != "" || gone {
		t.Errorf("a second deletion changed the object (gone %v):\n%s", gone, diff)
	}
	one, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = p.Finalizers[1:] }, noOptions())
	if err != nil || e.get("p") == nil {
		t.Fatalf("the object was removed although it has a finalizer: %v", err)
	}
	last, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = nil }, noOptions())
	if err != nil || e.get("p") != nil {
		t.Fatalf("the object still exists without finalizers: %v", err)
	}
	if len(last.Finalizers) != 0 || revision(t, last) != revision(t, one) {
		t.Errorf("response %v at %s; want no finalizers, at %s, as before the removal", last.Finalizers, last.ResourceVersion, one.ResourceVersion)
	}
}

func TestNewFinalizersDuringDeletion(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p", finalizers("example.com/a")))
	e.delete("p", metav1.DeleteOptions{})
	_, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "example.com/b") }, noOptions())
	wantStatus(t, err, 422, `Pod "p" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/b"}`)
}

func TestLastFinalizerByDryRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p", finalizers("example.com/a")))
	e.delete("p", metav1.DeleteOptions{})
	got, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = nil }, rest.UpdateOptions{UpdateOptions: metav1.UpdateOptions{DryRun: dryRun()}})
	if err != nil || len(got.Finalizers) != 0 {
		t.Errorf("response %v, %v", got, err)
	}
	if e.get("p") == nil {
		t.Error("a dry run removed the object")
	}
}

// TestGracePeriods checks the grace period of an object after each of several deletions.
func TestGracePeriods(t *testing.T) {
	t.Parallel()
	type step struct {
		asked *int64
		// left is the resulting grace period, or -1 if the object is removed.
		left    int64
		written bool
	}
	for name, test := range map[string]struct {
		finalizers []string
		steps      []step
	}{
		"default":           {steps: []step{{nil, 30, true}}},
		"longer":            {steps: []step{{seconds(60), 60, true}}},
		"at once":           {steps: []step{{seconds(0), -1, true}}},
		"negative":          {steps: []step{{seconds(-5), 1, true}}},
		"not extended":      {steps: []step{{seconds(20), 20, true}, {nil, 20, false}, {seconds(20), 20, false}, {seconds(40), 20, false}}},
		"shortened":         {steps: []step{{nil, 30, true}, {seconds(10), 10, true}, {seconds(-1), 1, true}}},
		"ended":             {steps: []step{{nil, 30, true}, {seconds(0), -1, true}}},
		"ended, but held":   {finalizers: []string{"example.com/a"}, steps: []step{{nil, 30, true}, {seconds(0), 0, true}, {seconds(0), 0, false}, {nil, 0, false}}},
		"at once, but held": {finalizers: []string{"example.com/a"}, steps: []step{{seconds(0), 0, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, graceful(), nil)
			e.create(pod("p", finalizers(test.finalizers...)))
			var begun time.Time
			for i, step := range test.steps {
				before := e.get("p")
				if i == 0 {
					begun = time.Now().Truncate(time.Second)
				}
				got, gone := e.delete("p", metav1.DeleteOptions{GracePeriodSeconds: step.asked})
				if gone != (step.left < 0) {
					t.Fatalf("step %d: gone %v", i, gone)
				}
				left := max(step.left, 0)
				if got.DeletionGracePeriodSeconds == nil || *got.DeletionGracePeriodSeconds != left {
					t.Errorf("step %d: grace period %v; want %d", i, got.DeletionGracePeriodSeconds, left)
				}
				// The period starts at the first deletion; the test permits some time for its own
				// execution.
				due := got.DeletionTimestamp.Sub(begun) - time.Duration(left)*time.Second
				if due < 0 || due > 20*time.Second {
					t.Errorf("step %d: due %v after the first announcement and %d s", i, due, left)
				}
				if (got.ResourceVersion != before.ResourceVersion) != step.written {
					t.Errorf("step %d: revision %s after %s; want written %v", i, got.ResourceVersion, before.ResourceVersion, step.written)
				}
				if got.Generation != 2 {
					t.Errorf("step %d: generation %d; want 2, however often it is deleted", i, got.Generation)
				}
			}
		})
	}
}

// TestMarkBeforeRemoval checks that watches of a kind with grace periods receive the deletion timestamp before the
// deletion, that the preconditions apply to the state before the mark, that admission is called once, and that a
// marked object is removed by the next deletion.
func TestMarkBeforeRemoval(t *testing.T) {
	t.Parallel()
	e := newEnv(t, graceful(), nil)
	created := e.create(pod("p"))
	w, err := e.Watch(e.ctx, "a", watchFrom(e, "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	validations := 0
	validate := func(context.Context, codec.Object, codec.Object) error { validations++; return nil }
	options := metav1.DeleteOptions{GracePeriodSeconds: seconds(0), Preconditions: &metav1.Preconditions{UID: &created.UID, ResourceVersion: &created.ResourceVersion}}
	if _, gone, err := e.Delete(e.ctx, key("p"), validate, options); err != nil || !gone || validations != 1 {
		t.Fatalf("gone %v after %d validations, %v", gone, validations, err)
	}
	var got []string
	for len(got) < 2 {
		events, err := w.Next(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			p := e.read(ev.Record)
			got = append(got, fmt.Sprint(ev.Type, " ", p.DeletionTimestamp != nil, " ", *p.DeletionGracePeriodSeconds, " ", p.Generation))
		}
	}
	if diff := cmp.Diff([]string{"MODIFIED true 0 2", "DELETED true 0 2"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// The second write of a deletion fails.
	var broken failingRemoval
	e = newEnv(t, graceful(), func(s storage.Interface) storage.Interface {
		broken.Interface = s
		return &broken
	})
	e.create(pod("p"))
	broken.fail = true
	if _, _, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}); err == nil {
		t.Error("no error")
	}
	if p := e.get("p"); p == nil || p.DeletionTimestamp == nil {
		t.Fatalf("after the failed removal: %v", p)
	}
	broken.fail = false
	if _, gone := e.delete("p", metav1.DeleteOptions{}); !gone {
		t.Error("the marked object was not removed")
	}
}

// failingRemoval is a storage whose removals fail.
type failingRemoval struct {
	storage.Interface
	fail bool
}

// Update implements storage.Interface.
func (f *failingRemoval) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	return f.Interface.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		if f.fail && errors.As(err, &storage.Remove{}) {
			err = errors.New("the store is not available")
		}
		return obj, write, err
	}, options)
}

func TestGracePeriodHoldsAgainstFinalizers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, graceful(), nil)
	e.create(pod("p", finalizers("example.com/a")))
	e.delete("p", metav1.DeleteOptions{})
	if _, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Finalizers = nil }, noOptions()); err != nil {
		t.Fatal(err)
	}
	if e.get("p") == nil {
		t.Fatal("the object was removed before its grace period was over")
	}
	if _, gone := e.delete("p", metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}); !gone {
		t.Error("the object still exists after its grace period was set to 0")
	}
}

func TestPropagation(t *testing.T) {
	t.Parallel()
	const orphan, foreground = metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	policy := func(p metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &p}
	}
	orphans := func(b bool) metav1.DeleteOptions { return metav1.DeleteOptions{OrphanDependents: &b} }
	for name, test := range map[string]struct {
		byDefault bool
		have      []string
		options   metav1.DeleteOptions
		want      []string // nil if the object is removed
	}{
		"no policy":                         {},
		"background":                        {options: policy(metav1.DeletePropagationBackground)},
		"orphan":                            {options: policy(metav1.DeletePropagationOrphan), want: []string{orphan}},
		"foreground":                        {options: policy(metav1.DeletePropagationForeground), want: []string{foreground}},
		"orphanDependents":                  {options: orphans(true), want: []string{orphan}},
		"orphanDependents false":            {options: orphans(false)},
		"orphans by default":                {byDefault: true, want: []string{orphan}},
		"background instead of the default": {byDefault: true, options: policy(metav1.DeletePropagationBackground)},
		"orphanDependents false instead of the default": {byDefault: true, options: orphans(false)},
		"after others":                      {have: []string{"a.com/a"}, options: policy(metav1.DeletePropagationForeground), want: []string{"a.com/a", foreground}},
		"had orphan":                        {have: []string{orphan, "a.com/a"}, want: []string{orphan, "a.com/a"}},
		"had foreground":                    {have: []string{foreground}, want: []string{foreground}},
		"had orphan, asks orphan":           {have: []string{orphan, "a.com/a"}, options: policy(metav1.DeletePropagationOrphan), want: []string{orphan, "a.com/a"}},
		"had orphan, asks foreground":       {have: []string{orphan, "a.com/a"}, options: policy(metav1.DeletePropagationForeground), want: []string{"a.com/a", foreground}},
		"had foreground, asks orphan":       {have: []string{foreground, "a.com/a"}, options: policy(metav1.DeletePropagationOrphan), want: []string{"a.com/a", orphan}},
		"had orphan, asks background":       {have: []string{orphan}, options: policy(metav1.DeletePropagationBackground)},
		"had foreground, asks background":   {have: []string{foreground, "a.com/a"}, options: policy(metav1.DeletePropagationBackground), want: []string{"a.com/a"}},
		"had orphan, default says orphan":   {byDefault: true, have: []string{orphan}, want: []string{orphan}},
		"had foreground, default is orphan": {byDefault: true, have: []string{foreground}, want: []string{foreground}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &registry.Strategy{OrphanByDefault: test.byDefault}, nil)
			e.create(pod("p", finalizers(test.have...)))
			got, gone := e.delete("p", test.options)
			if gone != (test.want == nil) {
				t.Fatalf("gone %v with %q; want %q", gone, got.Finalizers, test.want)
			}
			if gone {
				return
			}
			if diff := cmp.Diff(test.want, got.Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecondDeletionChangesPropagation(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p"))
	orphan, background := metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground
	if _, gone := e.delete("p", metav1.DeleteOptions{PropagationPolicy: &orphan}); gone {
		t.Fatal("the object was removed immediately")
	}
	if _, gone := e.delete("p", metav1.DeleteOptions{}); gone {
		t.Fatal("a deletion without a policy reset the policy of the first deletion")
	}
	if _, gone := e.delete("p", metav1.DeleteOptions{PropagationPolicy: &background}); !gone {
		t.Error("still there")
	}
}

func TestBlockedRemoval(t *testing.T) {
	t.Parallel()
	marks := new(atomic.Int32)
	e := newEnv(t, &registry.Strategy{
		BlocksRemoval: func(obj codec.Object) bool { return obj.(*corev1.Pod).Spec.NodeName != "" },
		PrepareForDelete: func(obj codec.Object) {
			marks.Add(1)
			obj.(*corev1.Pod).Status.Phase = corev1.PodFailed
		},
	}, nil)
	e.create(pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
	got, gone := e.delete("p", metav1.DeleteOptions{})
	if gone || got.DeletionTimestamp == nil || got.Status.Phase != corev1.PodFailed || marks.Load() == 0 {
		t.Fatalf("gone %v: %+v", gone, got)
	}
	if _, err := e.change(statusPart(e.Store), "p", func(p *corev1.Pod) { p.Status.Message = "x" }, noOptions()); err != nil || e.get("p") == nil {
		t.Fatalf("an update of the status removed the object: %v", err)
	}
	if _, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "" }, noOptions()); err != nil || e.get("p") != nil {
		t.Errorf("not released: %v", err)
	}
}

func TestStatusWriteReleases(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p", finalizers("example.com/a")))
	e.delete("p", metav1.DeleteOptions{})
	if _, err := e.change(statusPart(e.Store), "p", func(p *corev1.Pod) { p.Finalizers = nil }, noOptions()); err != nil || e.get("p") != nil {
		t.Errorf("not released: %v", err)
	}
}

// TestDeletePreconditionsWithPrepareForDelete checks the conflict message of kinds with PrepareForDelete. As
// in kube-apiserver, it differs from the message of other kinds.
func TestDeletePreconditionsWithPrepareForDelete(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{PrepareForDelete: func(codec.Object) {}}, nil)
	created := e.create(pod("p"))
	other, old := types.UID("x"), "1"
	_, _, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	wantStatus(t, err, 409, `Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: x, UID in object meta: `+string(created.UID))
	_, _, err = e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}})
	wantStatus(t, err, 409, `Operation cannot be fulfilled on pods "p": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: `+created.ResourceVersion)
}

func TestDeletePreconditions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	created := e.create(pod("p"))
	other, old := types.UID("x"), "1"
	_, _, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	wantStatus(t, err, 409, fmt.Sprintf(`Operation cannot be fulfilled on Pod "p": the UID in the precondition (x) does not match the UID in record (%s). The object might have been deleted and then recreated`, created.UID))
	if d := statusOf(err).Details; d == nil || d.Kind != "Pod" {
		t.Errorf("details %+v; want the kind", d)
	}
	// An older revision, and a revision that never existed.
	if _, err := e.change(e.Store, "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, noOptions()); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{old, created.ResourceVersion, "999999"} {
		_, _, err = e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		if !apierrors.IsConflict(err) || !strings.HasSuffix(err.Error(), "The object might have been modified") {
			t.Errorf("resourceVersion %s: error %v; want a conflict", version, err)
		}
	}
	newest := e.get("p").ResourceVersion
	if _, gone := e.delete("p", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &created.UID, ResourceVersion: &newest}}); !gone {
		t.Error("still there")
	}
}

func TestDeleteDryRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		strategy   *registry.Strategy
		finalizers []string
		gone       bool
	}{
		"at once":    {gone: true},
		"finalizers": {finalizers: []string{"example.com/a"}},
		"graceful":   {strategy: graceful()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, test.strategy, nil)
			before := e.create(pod("p", finalizers(test.finalizers...)))
			got, gone := e.delete("p", metav1.DeleteOptions{DryRun: dryRun()})
			if gone != test.gone || (got.DeletionTimestamp != nil) == test.gone {
				t.Errorf("gone %v, deletionTimestamp %v", gone, got.DeletionTimestamp)
			}
			if diff := cmp.Diff(before, e.get("p")); diff != "" {
				t.Errorf("a dry run was stored:\n%s", diff)
			}
		})
	}
}

func TestDeleteCallsAdmission(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
	refused := errors.New("no")
	_, _, err := e.Delete(e.ctx, key("p"), func(_ context.Context, obj, old codec.Object) error {
		if obj != nil || old.(*corev1.Pod).Spec.NodeName != "n" {
			t.Errorf("admission of %v, %v; want nil and the object", obj, old)
		}
		return refused
	}, metav1.DeleteOptions{})
	if !errors.Is(err, refused) || e.get("p") == nil {
		t.Errorf("error %v; want the error of admission", err)
	}
}

// TestConcurrentDeletions checks that exactly one of many deletions of an object succeeds, and the
// others return NotFound.
func TestConcurrentDeletions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	for range 20 {
		e.create(pod("p"))
		var done, missing atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch _, gone, err := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{}); {
				case err == nil && gone:
					done.Add(1)
				case apierrors.IsNotFound(err):
					missing.Add(1)
				default:
					t.Errorf("gone %v, %v", gone, err)
				}
			})
		}
		wg.Wait()
		if done.Load() != 1 || missing.Load() != 7 {
			t.Fatalf("%d deletions succeeded and %d returned NotFound; want 1 and 7", done.Load(), missing.Load())
		}
	}
}

func names(t testing.TB, list *rest.List) []string {
	t.Helper()
	var got []string
	for record, err := range list.Items {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Name().Namespace+"/"+record.Name().Name)
	}
	return got
}

func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		namespace string
		options   metav1.DeleteOptions
		list      rest.ListOptions
		deleted   []string
		left      []string
	}{
		"a namespace":    {namespace: "a", deleted: []string{"a/p0", "a/p1", "a/p2", "a/p3"}, left: []string{"b/q"}},
		"all namespaces": {deleted: []string{"a/p0", "a/p1", "a/p2", "a/p3", "b/q"}},
		"none":           {namespace: "c", left: []string{"a/p0", "a/p1", "a/p2", "a/p3", "b/q"}},
		"by label": {namespace: "a", list: rest.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"odd": "true"})},
			deleted: []string{"a/p1", "a/p3"}, left: []string{"a/p0", "a/p2", "b/q"}},
		"a page": {namespace: "a", list: rest.ListOptions{Limit: 3},
			deleted: []string{"a/p0", "a/p1", "a/p2"}, left: []string{"a/p3", "b/q"}},
		"dry run": {namespace: "a", options: metav1.DeleteOptions{DryRun: dryRun()},
			deleted: []string{"a/p0", "a/p1", "a/p2", "a/p3"}, left: []string{"a/p0", "a/p1", "a/p2", "a/p3", "b/q"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, nil, nil)
			for i := range 4 {
				e.create(pod(fmt.Sprint("p", i), func(p *corev1.Pod) { p.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)} }))
			}
			e.create(pod("q", func(p *corev1.Pod) { p.Namespace = "b" }))
			list, err := e.DeleteCollection(e.ctx, test.namespace, nil, test.options, test.list)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.deleted, names(t, list)); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if (list.Continue != "") != (test.list.Limit > 0) || list.Revision == 0 {
				t.Errorf("continue %q at revision %d", list.Continue, list.Revision)
			}
			left, err := e.List(e.ctx, "", rest.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.left, names(t, left)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeleteCollectionSkips checks that concurrently deleted objects and objects with
// finalizers do not prevent the deletion of the others.
func TestDeleteCollectionSkips(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.create(pod("p0", finalizers("example.com/a")))
	for i := 1; i < 4; i++ {
		e.create(pod(fmt.Sprint("p", i)))
	}
	first := true
	list, err := e.DeleteCollection(e.ctx, "a", func(context.Context, codec.Object, codec.Object) error {
		if first {
			first = false
			e.delete("p2", metav1.DeleteOptions{})
		}
		return nil
	}, metav1.DeleteOptions{}, rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, list); len(got) != 4 {
		t.Errorf("response %q; want all listed objects", got)
	}
	left, err := e.List(e.ctx, "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/p0"}, names(t, left)); diff != "" || e.get("p0").DeletionTimestamp == nil {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestDeleteCollectionStopsWithItsRequest(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	for i := range 3 {
		e.create(pod(fmt.Sprint("p", i)))
	}
	ctx, cancel := context.WithCancel(e.ctx)
	_, err := e.DeleteCollection(ctx, "a", func(context.Context, codec.Object, codec.Object) error { cancel(); return nil }, metav1.DeleteOptions{}, rest.ListOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want context.Canceled", err)
	}
	if e.get("p2") == nil {
		t.Error("the deletion continued after the end of the context")
	}
}
