package codec_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"sort"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/codectest"
)

// storedKinds returns all kinds with metadata in client-go's scheme.
func storedKinds() []*codec.Kind {
	var kinds []*codec.Kind
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.New(t).Interface().(codec.Object); ok && gvk.Version != "__internal" {
			kinds = append(kinds, &codec.Kind{Hub: &codec.Version{GVK: gvk, New: func() codec.Object { return reflect.New(t).Interface().(codec.Object) }}})
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].Hub.GVK.String() < kinds[j].Hub.GVK.String() })
	return kinds
}

// checkStored compares the encodings of two records, that of a new object and that of an object read back,
// with the result of decoding and re-encoding the stored value.
func checkStored(t *testing.T, kind *codec.Kind, obj codec.Object, revision int64) {
	t.Helper()
	value, err := kind.EncodeStored(t.Context(), obj)
	if err != nil {
		t.Fatalf("encode %s for storage: %v", kind.Hub.GVK, err)
	}
	back, err := kind.DecodeStored(value, revision)
	if err != nil {
		t.Fatalf("decode the stored %s: %v", kind.Hub.GVK, err)
	}
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	// Records of objects that are not stored always encode the object.
	want := codec.RecordOf(kind, back, nil, revision)
	read := codec.NewRecord(kind, name, value, revision)
	written := codec.RecordOf(kind, obj, value, revision)
	for _, media := range []codec.Media{codec.JSON, codec.Protobuf} {
		expected, err := want.Append(nil, kind.Hub, media)
		if err != nil {
			t.Fatalf("encode %s as %s: %v", kind.Hub.GVK, media, err)
		}
		for what, r := range map[string]*codec.Record{"written": written, "read": read, "moved": codec.RecordOf(kind, obj, value, revision).WithRevision(revision)} {
			for range 2 { // the second call may use a result that the first call cached
				got, err := r.Append(nil, kind.Hub, media)
				if err != nil {
					t.Fatalf("encode the %s record of %s as %s: %v", what, kind.Hub.GVK, media, err)
				}
				if !bytes.Equal(got, expected) && !(media == codec.Protobuf && bytes.Equal(again(t, kind, got), expected)) {
					t.Fatalf("%s %s %s:\n got %q\nwant %q", what, kind.Hub.GVK, media, got, expected)
				}
			}
		}
	}
	checkSelectors(t, kind.Hub.GVK, written, read, back)
}

// again decodes and re-encodes a protobuf body. In the whole API, this changes only nil values in maps of
// bytes, which become empty; readers treat nil and empty values as equal.
func again(t *testing.T, kind *codec.Kind, body []byte) []byte {
	t.Helper()
	obj, err := kind.Hub.Decode(body, codec.Protobuf, false)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(body, []byte("ConfigMap")) && !bytes.Contains(body, []byte("Secret")) {
		return nil
	}
	out, err := codec.AppendObject(nil, obj, codec.Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func checkSelectors(t *testing.T, gvk schema.GroupVersionKind, written, read *codec.Record, obj codec.Object) {
	t.Helper()
	for _, r := range []*codec.Record{written, read} {
		if uid, err := r.UID(); err != nil || uid != obj.GetUID() {
			t.Errorf("%s: uid %q, %v; want %q", gvk, uid, err, obj.GetUID())
		}
	}
	selectors := []labels.Selector{labels.SelectorFromSet(labels.Set{"absent": ""})}
	for key, value := range obj.GetLabels() {
		selectors = append(selectors, labels.SelectorFromSet(labels.Set{key: value}), labels.SelectorFromSet(labels.Set{key: value + "x"}))
	}
	for _, selector := range selectors {
		want := selector.Matches(labels.Set(obj.GetLabels()))
		for _, r := range []*codec.Record{written, read} {
			if got, err := r.Matches(selector, nil); err != nil || got != want {
				t.Errorf("%s: %q matches: %v, %v; want %v of %q", gvk, selector, got, err, want, obj.GetLabels())
			}
		}
	}
}

func fill(kind *codec.Kind, seed uint64) codec.Object {
	obj := kind.Hub.New()
	codectest.Fill(rand.New(rand.NewPCG(seed, 5)), reflect.ValueOf(obj).Elem())
	return obj
}

func TestStoredBytesEqualEncoding(t *testing.T) {
	t.Parallel()
	for _, kind := range storedKinds() {
		for seed := range uint64(20) {
			checkStored(t, kind, fill(kind, seed), int64(seed*seed*seed*seed*12345))
		}
	}
}

func TestForeignStoredValuesEqualEncoding(t *testing.T) {
	t.Parallel()
	kind := podKind()
	value, err := kind.EncodeStored(t.Context(), testPod())
	if err != nil {
		t.Fatal(err)
	}
	unknown := append(bytes.Clone(value[:len(value)-4]), 0x1a, 0, 0x22, 0)
	name := types.NamespacedName{Namespace: "a", Name: "p"}
	for what, stored := range map[string][]byte{
		"as written":         value,
		"envelope shortened": value[:len(value)-4],
		"tail twice":         unknown,
	} {
		for range 2 {
			want, err := storedPod(t).Append(nil, podVersion(), codec.Protobuf)
			if err != nil {
				t.Fatal(err)
			}
			got, err := codec.NewRecord(kind, name, stored, 7).Append(nil, podVersion(), codec.Protobuf)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v\n got %q\nwant %q", what, err, got, want)
			}
		}
	}
}

// FuzzStored is like TestStoredBytesEqualEncoding, for arbitrary kinds and contents.
func FuzzStored(f *testing.F) {
	kinds := storedKinds()
	f.Add(uint64(1), 3, "7")
	f.Fuzz(func(t *testing.T, seed uint64, kind int, revision string) {
		n, err := strconv.ParseInt(revision, 10, 64)
		if err != nil || n < 0 {
			t.Skip()
		}
		k := kinds[uint(kind)%uint(len(kinds))]
		checkStored(t, k, fill(k, seed), n)
	})
}

// FuzzStoredValue checks that Append returns an error for an invalid stored value, and otherwise the result
// of decoding and re-encoding the value.
func FuzzStoredValue(f *testing.F) {
	f.Add(storedPod(f).Stored())
	f.Fuzz(func(t *testing.T, value []byte) {
		kind := podKind()
		obj, err := kind.DecodeStored(value, 9)
		r := codec.NewRecord(kind, types.NamespacedName{Namespace: "a", Name: "p"}, value, 9)
		for range 2 {
			got, appendErr := r.Append(nil, podVersion(), codec.Protobuf)
			if (err == nil) != (appendErr == nil) {
				t.Fatalf("decode: %v, append: %v", err, appendErr)
			}
			if err != nil {
				continue
			}
			want, err := codec.RecordOf(kind, obj, nil, 9).Append(nil, podVersion(), codec.Protobuf)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v\n got %q\nwant %q", err, got, want)
			}
		}
		_, _ = r.Matches(labels.SelectorFromSet(labels.Set{"a": "b"}), nil)
	})
}
