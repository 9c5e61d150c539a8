package codec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var thingGroup = schema.GroupVersion{Group: "example.com"}

// convertingKind returns a kind that is stored as v1 and served as v2, converted by convert.
func convertingKind(convert func(ctx context.Context, objects []Object, to *Version) ([]Object, error)) *Kind {
	version := func(name string) *Version {
		gvk := thingGroup.WithKind("Thing")
		gvk.Version = name
		return &Version{GVK: gvk, New: func() Object { return &unstructured.Unstructured{Object: map[string]any{}} }, Untyped: true}
	}
	hub, stored := version("v2"), version("v1")
	stored.FromHub = func(Object) (Object, error) { return nil, errors.New("converted without a context") }
	stored.ToHub = stored.FromHub
	stored.Default = func(obj Object) { obj.(*unstructured.Unstructured).Object["defaulted"] = true }
	return &Kind{Hub: hub, Stored: stored, Versions: []*Version{hub, stored}, Convert: convert}
}

// marking is a conversion that marks the objects. It counts its calls and the converted objects.
type marking struct{ calls, objects atomic.Int32 }

func (m *marking) convert(_ context.Context, objects []Object, to *Version) ([]Object, error) {
	m.calls.Add(1)
	m.objects.Add(int32(len(objects)))
	for _, obj := range objects {
		obj.GetObjectKind().SetGroupVersionKind(to.GVK)
		obj.(*unstructured.Unstructured).Object["converted"] = true
	}
	return objects, nil
}

func storedThing(version, name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.com/%s","kind":"Thing","metadata":{"name":%q}}`, version, name)
}

func thingRecord(kind *Kind, version, name string) *Record {
	return NewRecord(kind, types.NamespacedName{Name: name}, storedThing(version, name), 7)
}

func TestConvertOnce(t *testing.T) {
	t.Parallel()
	var m marking
	kind := convertingKind(m.convert)
	a, b, c := thingRecord(kind, "v1", "a"), thingRecord(kind, "v2", "b"), thingRecord(kind, "v1", "c")
	odd := NewRecord(kind, types.NamespacedName{Name: "d"}, []byte(`{ "kind":"Thing","apiVersion":"example.com/v2","metadata":{"name":"d"}}`), 7)
	for range 2 {
		if err := Convert(t.Context(), a, b, nil, c, odd, a); err != nil {
			t.Fatal(err)
		}
	}
	if m.calls.Load() != 1 || m.objects.Load() != 2 {
		t.Errorf("called %d times for %d objects, want once for 2", m.calls.Load(), m.objects.Load())
	}
	for record, want := range map[*Record]string{
		a:                 `"metadata":{"resourceVersion":"7","name":"a"},"converted":true,"defaulted":true}`,
		a.WithRevision(9): `"metadata":{"resourceVersion":"9","name":"a"},"converted":true,"defaulted":true}`,
		b:                 `"metadata":{"name":"b","resourceVersion":"7"}}`,
		odd:               `"metadata":{"name":"d","resourceVersion":"7"}}`,
	} {
		if tail, err := record.JSONTail(kind.Hub); err != nil || string(tail) != want {
			t.Errorf("%s, %v; want %s", tail, err, want)
		}
	}
	if obj, err := a.Object(); err != nil || obj.GetResourceVersion() != "7" || obj.GetName() != "a" || obj.GetObjectKind().GroupVersionKind() != kind.Hub.GVK {
		t.Errorf("object of the record: %v, error %v; want a in the hub version at revision 7", obj, err)
	}
	late := thingRecord(kind, "v1", "e")
	if obj, err := late.Shared(); !errors.Is(err, ErrNotConverted) || m.calls.Load() != 1 {
		t.Errorf("without Convert: %v, %v, called %d times", obj, err, m.calls.Load())
	}
	if _, err := late.JSONTail(kind.Hub); !errors.Is(err, ErrNotConverted) {
		t.Errorf("encode without Convert: %v", err)
	}
}

// TestConvertSharesCalls checks that callers that need the same records share one call.
func TestConvertSharesCalls(t *testing.T) {
	t.Parallel()
	var m marking
	called, proceed := make(chan struct{}), make(chan struct{})
	kind := convertingKind(func(ctx context.Context, objects []Object, to *Version) ([]Object, error) {
		if m.calls.Load() == 0 {
			close(called)
			<-proceed
		}
		return m.convert(ctx, objects, to)
	})
	a, b := thingRecord(kind, "v1", "a"), thingRecord(kind, "v1", "b")
	var all sync.WaitGroup
	all.Go(func() {
		if err := Convert(t.Context(), a, b); err != nil {
			t.Error(err)
		}
	})
	<-called
	for range 5 {
		all.Go(func() {
			if err := Convert(t.Context(), b, a); err != nil {
				t.Error(err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Convert(gone, a); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: %v", err)
	}
	close(proceed)
	all.Wait()
	if m.calls.Load() != 1 {
		t.Errorf("called %d times, want once", m.calls.Load())
	}
}

// TestConvertAfterFailure checks that callers that wait for a failing call receive its error, and that the
// conversion is retried if the call failed because its caller's context ended.
func TestConvertAfterFailure(t *testing.T) {
	t.Parallel()
	fault := errors.New("not today")
	for _, test := range []struct {
		name  string
		first error
		want  error // of the waiting callers
	}{
		{"failed", fault, fault},
		{"went away", context.Canceled, nil},
		{"panicked", nil, errAbandoned},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var m marking
			called, proceed := make(chan struct{}), make(chan struct{})
			var first sync.Once
			kind := convertingKind(func(ctx context.Context, objects []Object, to *Version) ([]Object, error) {
				mine := false
				first.Do(func() { mine = true })
				if !mine {
					return m.convert(ctx, objects, to)
				}
				close(called)
				<-proceed
				if test.first == nil {
					panic("oops")
				}
				return nil, test.first
			})
			a := thingRecord(kind, "v1", "a")
			var all sync.WaitGroup
			all.Go(func() {
				defer func() { _ = recover() }()
				if err := Convert(t.Context(), a); !errors.Is(err, test.first) {
					t.Errorf("first caller: %v", err)
				}
			})
			<-called
			_, others := claimRecords([]*Record{a}) // as Convert does before it waits
			close(proceed)
			left, err := waitFor(t.Context(), others)
			all.Wait()
			if err == nil {
				err = Convert(t.Context(), left...)
			}
			if !errors.Is(err, test.want) {
				t.Errorf("waiting caller: %v, want %v", err, test.want)
			}
			if err := Convert(t.Context(), a); err != nil || a.conversion.value.Load() == nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestConvertBesideFailure checks that a caller converts its records in a separate call if another caller's
// larger batch fails.
func TestConvertBesideFailure(t *testing.T) {
	t.Parallel()
	var m marking
	called, proceed := make(chan struct{}), make(chan struct{})
	kind := convertingKind(func(ctx context.Context, objects []Object, to *Version) ([]Object, error) {
		for _, obj := range objects {
			if obj.GetName() == "bad" {
				close(called)
				<-proceed
				return nil, errors.New("a bad one")
			}
		}
		return m.convert(ctx, objects, to)
	})
	good, bad := thingRecord(kind, "v1", "good"), thingRecord(kind, "v1", "bad")
	var both sync.WaitGroup
	both.Go(func() {
		if err := Convert(t.Context(), good, bad); err == nil {
			t.Error("Convert returned no error for a batch with a bad object")
		}
	})
	<-called
	_, others := claimRecords([]*Record{good})
	close(proceed)
	left, err := waitFor(t.Context(), others)
	both.Wait()
	if err != nil || len(left) != 1 {
		t.Fatalf("%d are left, %v", len(left), err)
	}
	if err := Convert(t.Context(), good); err != nil {
		t.Error(err)
	}
}

func TestConvertInBatches(t *testing.T) {
	t.Parallel()
	var m marking
	kind := convertingKind(m.convert)
	var records []*Record
	for i := range MaxConverted + 1 {
		records = append(records, thingRecord(kind, "v1", fmt.Sprint(i)))
	}
	if err := Convert(t.Context(), records...); err != nil || m.calls.Load() != 2 || int(m.objects.Load()) != len(records) {
		t.Errorf("%v: called %d times for %d objects", err, m.calls.Load(), m.objects.Load())
	}
	large := make([]byte, MaxConvertedBytes/2)
	for i := range large {
		large[i] = 'x'
	}
	records = nil
	for i := range 3 {
		value := fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"%d"},"text":%q}`, i, large)
		records = append(records, NewRecord(kind, types.NamespacedName{Name: fmt.Sprint(i)}, value, 1))
	}
	m.calls.Store(0)
	if err := Convert(t.Context(), records...); err != nil || m.calls.Load() != 3 {
		t.Errorf("large objects: %v: called %d times", err, m.calls.Load())
	}
}

func TestEncodeStoredConverts(t *testing.T) {
	t.Parallel()
	var m marking
	kind := convertingKind(m.convert)
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v2", "kind": "Thing", "metadata": map[string]any{"name": "a"}}}
	value, err := kind.EncodeStored(t.Context(), obj)
	if want := `{"apiVersion":"example.com/v1","converted":true,"kind":"Thing","metadata":{"name":"a"}}`; err != nil || string(value) != want {
		t.Errorf("%s, %v; want %s", value, err, want)
	}
	if record := RecordOf(kind, obj, value, 3); record.conversion == nil {
		t.Error("the stored value is not converted when it is read")
	}
}

func TestIsStoredIn(t *testing.T) {
	t.Parallel()
	v1 := schema.GroupVersion{Group: "example.com", Version: "v1"}
	for value, want := range map[string]bool{
		`{"apiVersion":"example.com/v1","kind":"Thing"}`:  true,
		`{"apiVersion":"example.com/v11","kind":"Thing"}`: false,
		`{"apiVersion":"example.com/v`:                    false,
		`{"apiVersion":"example.com`:                      false,
		`{"apiVersion":"v1","kind":"Thing"}`:              false,
		`{"kind":"Thing","apiVersion":"example.com/v1"}`:  false,
		``: false,
	} {
		if got := isStoredIn([]byte(value), v1); got != want {
			t.Errorf("isStoredIn(%s) = %v, want %v", value, got, want)
		}
	}
	if !isStoredIn([]byte(`{"apiVersion":"v1"}`), schema.GroupVersion{Version: "v1"}) {
		t.Error("isStoredIn returns false for the core group")
	}
}
