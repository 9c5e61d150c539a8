package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"mainstay.dev/mainstay/internal/codec"
)

// TestRecordAppend checks that the output for all media types is equivalent to the output of apimachinery's
// serializers.
func TestRecordAppend(t *testing.T) {
	t.Parallel()
	record := storedPod(t)
	want := testPod()
	want.ResourceVersion = "7"
	want.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	for _, media := range []codec.Media{codec.JSON, codec.YAML, codec.Protobuf} {
		body, err := record.Append(nil, podVersion(), media)
		if err != nil {
			t.Fatalf("append the record as %s: %v", media, err)
		}
		got, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
		if err != nil {
			t.Fatalf("%s: decode: %v", media, err)
		}
		got.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
		if !equality.Semantic.DeepEqual(want, got) {
			t.Errorf("%s:\n%s", media, cmp.Diff(want, got))
		}
	}
}

func TestRecordBytesEqualApimachinery(t *testing.T) {
	t.Parallel()
	record := storedPod(t)
	obj, err := record.Object()
	if err != nil {
		t.Fatal(err)
	}
	var wantJSON, wantProtobuf bytes.Buffer
	if err := json.NewEncoder(&wantJSON).Encode(obj); err != nil {
		t.Fatal(err)
	}
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &wantProtobuf); err != nil {
		t.Fatal(err)
	}
	for media, want := range map[codec.Media][]byte{codec.JSON: wantJSON.Bytes(), codec.Protobuf: wantProtobuf.Bytes()} {
		got, err := record.Append(nil, podVersion(), media)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", media, got, want)
		}
	}
}

func TestRecordSelectors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		label, field string
		want         bool
	}{
		{"", "", true},
		{"app=web", "", true},
		{"app!=web", "", false},
		{"", "metadata.name=p,metadata.namespace=a", true},
		{"", "spec.nodeName=n", true},
		{"app=web", "spec.nodeName=other", false},
	} {
		label, err := labels.Parse(test.label)
		if err != nil {
			t.Fatal(err)
		}
		field, err := fields.ParseSelector(test.field)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := storedPod(t).Matches(label, field); err != nil || got != test.want {
			t.Errorf("Matches(%q, %q) = %v, %v; want %v", test.label, test.field, got, err, test.want)
		}
	}
	if got, err := storedPod(t).Matches(nil, nil); err != nil || !got {
		t.Errorf("Matches(nil, nil) = %v, %v", got, err)
	}
}

func TestRecordWithRevision(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]*codec.Record{
		"stored":   storedPod(t),
		"unstored": codec.RecordOf(podKind(), testPod(), nil, 7),
	} {
		moved, err := record.WithRevision(9).Object()
		if err != nil {
			t.Fatal(err)
		}
		original, err := record.Object()
		if err != nil {
			t.Fatal(err)
		}
		if moved.GetResourceVersion() != "9" || original.GetResourceVersion() != "7" {
			t.Errorf("%s: revisions %s and %s; want 9 and 7", name, moved.GetResourceVersion(), original.GetResourceVersion())
		}
	}
}

func TestRecordIsSafeForConcurrentReaders(t *testing.T) {
	t.Parallel()
	record := storedPod(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, media := range []codec.Media{codec.JSON, codec.Protobuf, codec.YAML} {
				if _, err := record.Append(nil, podVersion(), media); err != nil {
					t.Error(err)
				}
			}
			record.DropDecoded()
			if _, err := record.Fields(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestUndecodableRecordIsAnError(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "a", Name: "p"}
	for _, value := range []string{"", "garbage", "k8s\x00\xff", "{}", `{"kind":"Secret","apiVersion":"v1"}`} {
		record := codec.NewRecord(podKind(), name, []byte(value), 1)
		if _, err := record.Append(nil, podVersion(), codec.JSON); !errors.Is(err, codec.ErrUndecodable) {
			t.Errorf("%q: error %v; want ErrUndecodable", value, err)
		}
	}
}

func TestUntypedKindIsStoredAsJSON(t *testing.T) {
	t.Parallel()
	v := widgetVersion()
	kind := &codec.Kind{Hub: v}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"aFirst": int64(1), "metadata": map[string]any{"name": "w", "namespace": "a"}, "spec": map[string]any{"size": int64(3)},
	}}
	value, err := kind.EncodeStored(t.Context(), widget)
	if err != nil {
		t.Fatal(err)
	}
	record := codec.NewRecord(kind, types.NamespacedName{Namespace: "a", Name: "w"}, value, 5)
	body, err := record.Append(nil, v, codec.JSON)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"Widget","apiVersion":"example.com/v1","aFirst":1,"metadata":{"name":"w","namespace":"a","resourceVersion":"5"},"spec":{"size":3}}` + "\n"
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	if _, err := record.Append(nil, v, codec.Protobuf); !errors.Is(err, codec.ErrNoProtobuf) {
		t.Errorf("protobuf: error %v; want ErrNoProtobuf", err)
	}
}

func BenchmarkRecordJSON(b *testing.B) {
	record := storedPod(b)
	value := record.Stored()
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			if _, err := codec.NewRecord(record.Kind(), record.Name(), value, 7).JSONTail(podVersion()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		v, dst := podVersion(), make([]byte, 0, 8<<10)
		for b.Loop() {
			if _, err := record.Append(dst, v, codec.JSON); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestUntypedRecordSelectors(t *testing.T) {
	t.Parallel()
	kind := &codec.Kind{Hub: widgetVersion()}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "w", "namespace": "a", "labels": map[string]any{"app": "web"}},
	}}
	value, err := kind.EncodeStored(t.Context(), widget)
	if err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "a", Name: "w"}
	for what, r := range map[string]*codec.Record{"written": codec.RecordOf(kind, widget, value, 3), "read": codec.NewRecord(kind, name, value, 3)} {
		for selector, want := range map[string]bool{"app=web": true, "app!=web": false, "other": false, "!other": true} {
			label, err := labels.Parse(selector)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := r.Matches(label, nil); err != nil || got != want {
					t.Errorf("%s: %s: %v, %v; want %v", what, selector, got, err, want)
				}
			}
		}
	}
}

// TestRecordCached checks that Cached decodes an object only once, until DropDecoded is called.
func TestRecordCached(t *testing.T) {
	t.Parallel()
	record := storedPod(t)
	record.DropDecoded()
	kept := func() codec.Object {
		t.Helper()
		obj, err := record.Cached()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	first := kept()
	if kept() != first {
		t.Error("the object was decoded again")
	}
	if mine, err := record.Object(); err != nil || mine == first {
		t.Errorf("Object returned the shared object, or an error: %v", err)
	}
	record.DropDecoded()
	if kept() == first {
		t.Error("the object was not dropped")
	}
}

// TestFieldNames checks that the cached fields of all records share their names.
func TestFieldNames(t *testing.T) {
	t.Parallel()
	var first *byte
	for range 2 {
		set, err := storedPod(t).Fields()
		if err != nil {
			t.Fatal(err)
		}
		for name := range set {
			if name != "spec.nodeName" {
				continue
			}
			if data := unsafe.StringData(name); first == nil {
				first = data
			} else if data != first {
				t.Error("two records have different copies of the name of a field")
			}
		}
	}
	if first == nil {
		t.Error("spec.nodeName is missing")
	}
}
