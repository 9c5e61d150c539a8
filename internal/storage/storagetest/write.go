package storagetest

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

func writeTests() []test {
	return []test{
		{"CreateAndGet", testCreateAndGet},
		{"Keys", testKeys},
		{"BadNames", testBadNames},
		{"GetAtRevision", testGetAtRevision},
		{"UpdateCreates", testUpdateCreates},
		{"UpdateWithoutChange", testUpdateWithoutChange},
		{"UpdateFromStaleRecord", testUpdateFromStaleRecord},
		{"UpdateErrorFromStaleRecord", testUpdateErrorFromStaleRecord},
		{"UpdateRemoves", testUpdateRemoves},
		{"Delete", testDelete},
		{"DeleteValidates", testDeleteValidates},
		{"Preconditions", testPreconditions},
		{"DryRun", testDryRun},
		{"TooLarge", testTooLarge},
		{"TTL", testTTL},
		{"SharedRecord", testSharedRecord},
		{"Transformer", testTransformer},
	}
}

func testCreateAndGet(e *env) {
	created := e.create(Pod("ns", "a", "x=1"))
	if created.Revision() == 0 {
		e.Error("the created record has no revision")
	}
	got, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{})
	if err != nil {
		e.Fatal(err)
	}
	if got.Revision() != created.Revision() || e.pod(got).Labels["x"] != "1" || e.pod(got).ResourceVersion != rv(created.Revision()) {
		e.Errorf("got %v at %d, want the object created at %d", e.pod(got), got.Revision(), created.Revision())
	}
	if _, err := e.Create(e.ctx, Pod("ns", "a"), storage.WriteOptions{}); !errors.Is(err, storage.ErrExists) {
		e.Errorf("second create: %v, want ErrExists", err)
	}
	if _, err := e.Get(e.ctx, key("ns", "b"), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
		e.Errorf("get of a missing object: %v, want ErrNotFound", err)
	}
	if n, err := e.Count(e.ctx); n != 1 || err != nil {
		e.Errorf("count is %d, %v, want 1", n, err)
	}
}

func testKeys(e *env) {
	e.create(Pod("ns", "a"))
	for _, want := range []string{"/registry/pods/ns/a"} {
		if entry, _, err := e.backend.Get(e.ctx, want, 0); err != nil || entry == nil {
			e.Errorf("key %s: %v, %v", want, entry, err)
		} else if e.setup.Transformer == nil && !strings.HasPrefix(string(entry.Value), "k8s\x00") {
			e.Errorf("value %q is not kube-apiserver's protobuf", entry.Value)
		}
	}
	cluster := e.open(storage.Config{Kind: PodKind(), ResourcePrefix: "group.io/things", Prefix: "/other"})
	if _, err := cluster.Create(e.ctx, Pod("", "b"), storage.WriteOptions{}); err != nil {
		e.Fatal(err)
	}
	if entry, _, err := e.backend.Get(e.ctx, "/other/group.io/things/b", 0); err != nil || entry == nil {
		e.Errorf("key of a cluster-scoped object: %v, %v", entry, err)
	}
}

func testBadNames(e *env) {
	for _, name := range []types.NamespacedName{
		key("ns", ""), key("", "a"), key("ns", ".."), key("ns", "a/b"), key("..", "a"), key("n/s", "a"), key("ns", "a%"),
	} {
		var invalid *storage.InvalidOptionError
		if _, err := e.Get(e.ctx, name, storage.ReadOptions{}); !errors.As(err, &invalid) {
			e.Errorf("get %q: %v, want an InvalidOptionError", name, err)
		}
		if _, err := e.Create(e.ctx, Pod(name.Namespace, name.Name), storage.WriteOptions{}); !errors.As(err, &invalid) {
			e.Errorf("create %q: %v, want an InvalidOptionError", name, err)
		}
	}
}

func testGetAtRevision(e *env) {
	first := e.create(Pod("ns", "a", "x=1"))
	second := e.change(key("ns", "a"), label("x", "2"))
	for _, at := range []string{"", "0", rv(first.Revision()), rv(second.Revision())} {
		got, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{ResourceVersion: at})
		if err != nil {
			e.Fatalf("get at %q: %v", at, err)
		}
		if at != "0" && at != rv(first.Revision()) && got.Revision() != second.Revision() {
			e.Errorf("get at %q returned revision %d, want %d", at, got.Revision(), second.Revision())
		}
	}
	_, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{ResourceVersion: rv(second.Revision() + 1000)})
	var future *storage.FutureRevisionError
	if !errors.As(err, &future) || future.Requested != second.Revision()+1000 || future.Current < second.Revision() {
		e.Errorf("get in the future: %v", err)
	}
	const want = `resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{ResourceVersion: "abc"}); err == nil || err.Error() != want {
		e.Errorf("get at an invalid revision: %v, want %s", err, want)
	}
}

func testUpdateCreates(e *env) {
	record, err := e.Update(e.ctx, key("ns", "a"), func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current != nil {
			e.Error("the current record is not nil, although there is no object")
		}
		return Pod("ns", "a"), storage.WriteOptions{}, nil
	}, storage.UpdateOptions{})
	if err != nil || record.Revision() == 0 {
		e.Fatalf("update that creates: %v, %v", record, err)
	}
}

func testUpdateWithoutChange(e *env) {
	created := e.create(Pod("ns", "a"))
	before, err := e.backend.CurrentRevision(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	for _, cached := range []*codec.Record{nil, created} {
		same, err := e.Update(e.ctx, key("ns", "a"), updatePod(func(*corev1.Pod) {}), storage.UpdateOptions{Cached: cached})
		if err != nil || same.Revision() != created.Revision() {
			e.Errorf("update without change: %v, %v", same, err)
		}
	}
	if after, err := e.backend.CurrentRevision(e.ctx); err != nil || after != before {
		e.Errorf("revision is %d, %v after updates that changed nothing, was %d", after, err, before)
	}
	// The cached record is now outdated.
	e.change(key("ns", "a"), label("x", "2"))
	back, err := e.Update(e.ctx, key("ns", "a"), updatePod(func(pod *corev1.Pod) { delete(pod.Labels, "x") }), storage.UpdateOptions{Cached: created})
	if err != nil || back.Revision() <= created.Revision()+1 {
		e.Fatalf("update back: %v", err)
	}
	if got, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{}); err != nil || e.pod(got).Labels["x"] != "" {
		e.Errorf("an outdated cached record hid a change: %v, %v", e.pod(got).Labels, err)
	}
}

func testUpdateFromStaleRecord(e *env) {
	stale := e.create(Pod("ns", "a", "x=1"))
	e.change(key("ns", "a"), label("y", "1"))
	calls := 0
	record, err := e.Update(e.ctx, key("ns", "a"), updatePod(func(pod *corev1.Pod) {
		calls++
		pod.Labels["z"] = "1"
	}), storage.UpdateOptions{Cached: stale})
	if err != nil {
		e.Fatal(err)
	}
	if got := e.pod(record).Labels; got["y"] != "1" || got["z"] != "1" {
		e.Errorf("labels are %v, want both changes", got)
	}
	if calls != 2 {
		e.Errorf("update was called %d times, want 2", calls)
	}
}

func testUpdateErrorFromStaleRecord(e *env) {
	stale := e.create(Pod("ns", "a", "x=1"))
	e.change(key("ns", "a"), label("x", "2"))
	refuse := errors.New("refused")
	update := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, err := current.Object()
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		if obj.GetLabels()["x"] == "1" {
			return nil, storage.WriteOptions{}, refuse
		}
		obj.GetLabels()["x"] = "3"
		return obj, storage.WriteOptions{}, nil
	}
	if _, err := e.Update(e.ctx, key("ns", "a"), update, storage.UpdateOptions{Cached: stale}); err != nil {
		e.Errorf("the error for an outdated record was returned: %v", err)
	}
	if _, err := e.Update(e.ctx, key("ns", "a"), func(*codec.Record) (codec.Object, storage.WriteOptions, error) {
		return nil, storage.WriteOptions{}, refuse
	}, storage.UpdateOptions{}); err != refuse {
		e.Errorf("the error of the update function was replaced by %v", err)
	}
}

func testUpdateRemoves(e *env) {
	e.create(Pod("ns", "a", "x=1"))
	record, err := e.Update(e.ctx, key("ns", "a"), func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		last := e.pod(current)
		last.Labels["x"] = "last"
		return nil, storage.WriteOptions{}, storage.Remove{Last: last}
	}, storage.UpdateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	if e.pod(record).Labels["x"] != "last" {
		e.Errorf("returned labels %v, want the labels of Remove.Last", e.pod(record).Labels)
	}
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
		e.Errorf("get after removal: %v", err)
	}
}

func testDelete(e *env) {
	created := e.create(Pod("ns", "a", "x=1"))
	gone := e.remove(key("ns", "a"))
	if gone.Revision() <= created.Revision() || e.pod(gone).Labels["x"] != "1" || e.pod(gone).ResourceVersion != rv(gone.Revision()) {
		e.Errorf("deletion returned %v", e.pod(gone))
	}
	for _, cached := range []*codec.Record{nil, created} {
		if _, err := e.Delete(e.ctx, key("ns", "a"), nil, storage.UpdateOptions{Cached: cached}); !errors.Is(err, storage.ErrNotFound) {
			e.Errorf("second delete: %v, want ErrNotFound", err)
		}
	}
}

func testDeleteValidates(e *env) {
	e.create(Pod("ns", "a"))
	refuse := errors.New("refused")
	if _, err := e.Delete(e.ctx, key("ns", "a"), func(codec.Object) error { return refuse }, storage.UpdateOptions{}); !errors.Is(err, refuse) {
		e.Errorf("refused deletion: %v", err)
	}
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{}); err != nil {
		e.Errorf("get after a refused deletion: %v", err)
	}
}

func testPreconditions(e *env) {
	created := e.create(Pod("ns", "a"))
	uid, other, old := types.UID("uid-of-a"), types.UID("other"), rv(created.Revision())
	e.change(key("ns", "a"), label("x", "2"))
	for _, wrong := range []*metav1.Preconditions{{UID: &other}, {UID: &uid, ResourceVersion: &old}} {
		var precondition *storage.PreconditionError
		if _, err := e.Delete(e.ctx, key("ns", "a"), nil, storage.UpdateOptions{Preconditions: wrong}); !errors.As(err, &precondition) {
			e.Errorf("delete: %v, want a PreconditionError", err)
		}
		if _, err := e.Update(e.ctx, key("ns", "a"), updatePod(label("x", "3")), storage.UpdateOptions{Preconditions: wrong, Cached: created}); !errors.As(err, &precondition) {
			e.Errorf("update: %v, want a PreconditionError", err)
		}
	}
	if _, err := e.Delete(e.ctx, key("ns", "a"), nil, storage.UpdateOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		e.Errorf("delete with the right uid: %v", err)
	}
}

func testDryRun(e *env) {
	if _, err := e.Create(e.ctx, Pod("ns", "new"), storage.WriteOptions{DryRun: true}); err != nil {
		e.Fatal(err)
	}
	created := e.create(Pod("ns", "a", "x=1"))
	if _, err := e.Create(e.ctx, Pod("ns", "a"), storage.WriteOptions{DryRun: true}); !errors.Is(err, storage.ErrExists) {
		e.Errorf("dry run of the creation of an existing object: %v", err)
	}
	updated, err := e.Update(e.ctx, key("ns", "a"), updatePod(label("x", "2")), storage.UpdateOptions{DryRun: true})
	if err != nil || e.pod(updated).Labels["x"] != "2" || updated.Revision() != created.Revision() {
		e.Errorf("dry run of an update: %v", err)
	}
	if _, err := e.Delete(e.ctx, key("ns", "a"), nil, storage.UpdateOptions{DryRun: true}); err != nil {
		e.Errorf("dry run of a deletion: %v", err)
	}
	if current, err := e.backend.CurrentRevision(e.ctx); err != nil || int64(current) != created.Revision() {
		e.Errorf("dry runs changed the revision from %d to %d", created.Revision(), current)
	}
}

func testTooLarge(e *env) {
	small := e.open(storage.Config{ResourcePrefix: "small", Kind: PodKind(), MaxObjectBytes: 100})
	if _, err := small.Create(e.ctx, Pod("ns", "a", "x="+strings.Repeat("x", 100)), storage.WriteOptions{}); !errors.Is(err, storage.ErrTooLarge) {
		e.Errorf("create: %v, want ErrTooLarge", err)
	}
	big := Pod("ns", "a")
	big.Annotations = map[string]string{"x": strings.Repeat("x", 3<<19)}
	_, err := e.Create(e.ctx, big, storage.WriteOptions{})
	if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "request is too large") {
		e.Errorf("create: %v, want ErrTooLarge", err)
	}
	if _, err := e.Create(e.ctx, Pod("ns", "a"), storage.WriteOptions{}); err != nil {
		e.Fatal(err)
	}
	grow := updatePod(func(pod *corev1.Pod) { pod.Annotations = map[string]string{"x": strings.Repeat("x", 3<<19)} })
	if _, err := e.Update(e.ctx, key("ns", "a"), grow, storage.UpdateOptions{}); !errors.Is(err, storage.ErrTooLarge) {
		e.Errorf("update: %v, want ErrTooLarge", err)
	}
}

func testTTL(e *env) {
	w := e.watch("ns", fromNow(e))
	if _, err := e.Create(e.ctx, Pod("ns", "a"), storage.WriteOptions{TTL: time.Second}); err != nil {
		e.Fatal(err)
	}
	var last string
	for !strings.HasPrefix(last, "DELETED a") {
		events, err := w.Next(e.ctx)
		if err != nil {
			e.Fatal(err)
		}
		last = e.describe(events[len(events)-1])
	}
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
		e.Errorf("get after the time to live: %v", err)
	}
}

// testSharedRecord checks that the writer and the watchers in a process share one record, and thus its
// encodings.
func testSharedRecord(e *env) {
	w := e.watch("", fromNow(e))
	written := e.create(Pod("ns", "a"))
	events, err := w.Next(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	if events[0].Record != written {
		e.Error("the watch does not share the record of the writer")
	}
}

// xorTransformer is a Transformer for tests. A stored value begins with the name; the plain value follows,
// combined with the key by XOR.
type xorTransformer struct{ name byte }

func (v xorTransformer) ToStorage(_ context.Context, plain []byte, key string) ([]byte, error) {
	return append([]byte{v.name}, mix(plain, key)...), nil
}

func (v xorTransformer) FromStorage(_ context.Context, data []byte, key string) ([]byte, bool, error) {
	if len(data) == 0 {
		return nil, false, errors.New("no value")
	}
	return mix(data[1:], key), data[0] != v.name, nil
}

func mix(data []byte, key string) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = b ^ key[i%len(key)]
	}
	return out
}

func testTransformer(e *env) {
	old := e.open(storage.Config{ResourcePrefix: "secret", Kind: PodKind(), Namespaced: true, Transformer: xorTransformer{'1'}})
	created, err := old.Create(e.ctx, Pod("ns", "a"), storage.WriteOptions{})
	if err != nil {
		e.Fatal(err)
	}
	entry, _, err := e.backend.Get(e.ctx, "/registry/secret/ns/a", 0)
	if err != nil || !strings.HasPrefix(string(entry.Value), "1") || strings.Contains(string(entry.Value), "image") {
		e.Fatalf("stored %q, %v, want it transformed", entry.Value, err)
	}
	renewed := e.open(storage.Config{ResourcePrefix: "secret", Kind: PodKind(), Namespaced: true, Transformer: xorTransformer{'2'}})
	updated, err := renewed.Update(e.ctx, key("ns", "a"), updatePod(func(*corev1.Pod) {}), storage.UpdateOptions{})
	if err != nil || updated.Revision() == created.Revision() {
		e.Errorf("an update without change did not rewrite the stale value: %v, %v", updated, err)
	}
	if entry, _, err = e.backend.Get(e.ctx, "/registry/secret/ns/a", kv.Revision(0)); err != nil || !strings.HasPrefix(string(entry.Value), "2") {
		e.Errorf("stored %q, %v", entry.Value, err)
	}
	again, err := renewed.Update(e.ctx, key("ns", "a"), updatePod(func(*corev1.Pod) {}), storage.UpdateOptions{Cached: updated})
	if err != nil || again.Revision() != updated.Revision() {
		e.Errorf("the current value was written again: %v, %v", again, err)
	}
}
