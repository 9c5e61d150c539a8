package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/metrics"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/codec"
)

// maxDecodeAllocation is the maximum memory, in bytes, that may be allocated while decoding a body of 3
// MiB. Lists are copied when they grow, so it is a multiple of the limit for the decoded object.
const maxDecodeAllocation = 200 << 20

func versionOf(kind string, create func() codec.Object) *codec.Version {
	return &codec.Version{GVK: schema.GroupVersionKind{Group: "test", Version: "v1", Kind: kind}, New: create}
}

// TestDecodeMemory checks that bodies with empty elements that would become large Go values are rejected.
// It is not parallel, because it counts the allocations of the process.
func TestDecodeMemory(t *testing.T) {
	pod := podVersion()
	role := versionOf("Role", func() codec.Object { return &rbacv1.Role{} })
	definition := versionOf("CustomResourceDefinition", func() codec.Object { return &apiextensionsv1.CustomResourceDefinition{} })
	fill := func(before, element, after string) []byte {
		n := (3<<20 - len(before) - len(after)) / (len(element) + 1)
		return []byte(before + strings.Repeat(element+",", n) + element + after)
	}
	const schemaBefore, schemaAfter = `{"spec":{"versions":[{"schema":{"openAPIV3Schema":`, `}}]}}`
	for _, tt := range []struct {
		name  string
		v     *codec.Version
		media codec.Media
		body  []byte
	}{
		{"empty containers", pod, codec.JSON, fill(`{"spec":{"containers":[`, `{}`, `]}}`)},
		{"null containers", pod, codec.JSON, fill(`{"spec":{"containers":[`, `null`, `]}}`)},
		{"empty containers and an unknown field", pod, codec.JSON, fill(`{"unknown":1,"spec":{"containers":[`, `{}`, `]}}`)},
		{"empty mounts of many containers", pod, codec.JSON, fill(`{"spec":{"containers":[`, `{"volumeMounts":[{},{},{},{},{},{},{},{},{},{},{},{}]}`, `]}}`)},
		{"empty managed fields", pod, codec.JSON, fill(`{"metadata":{"managedFields":[`, `{}`, `]}}`)},
		{"empty rules", role, codec.JSON, fill(`{"rules":[`, `{}`, `]}`)},
		{"empty alternatives", definition, codec.JSON, fill(schemaBefore+`{"allOf":[`, `{}`, `]}`+schemaAfter)},
		{"pointers", definition, codec.JSON, fill(schemaBefore+`{"allOf":[`, `{"not":{"not":{"not":{"not":{"not":{}}}}}}`, `]}`+schemaAfter)},
		{"a list of items", definition, codec.JSON, fill(schemaBefore+`{"items":[`, `{}`, `]}`+schemaAfter)},
		{"properties", definition, codec.JSON, []byte(schemaBefore + `{"properties":{` + members(65_000, `{}`) + `}}` + schemaAfter)},
		{"YAML", pod, codec.YAML, []byte("spec:\n  containers:\n" + strings.Repeat("  - {}\n", 90_000))},
		{"protobuf", pod, codec.Protobuf, emptyContainers(t, 3<<19)},
	} {
		var err error
		got := allocated(func() { _, err = tt.v.Decode(tt.body, tt.media, false) })
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusRequestEntityTooLarge || !strings.Contains(err.Error(), "33554432") {
			t.Errorf("%s: error %.200v, want 413 with the limit", tt.name, err)
		}
		if got > maxDecodeAllocation {
			t.Errorf("%s: %d MiB were allocated for a body of %d bytes", tt.name, got>>20, len(tt.body))
		}
		if tt.media != codec.JSON {
			continue
		}
		// An apply or a strategic merge patch decodes a document.
		document := map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(tt.body, &document); err != nil {
			t.Fatal(err)
		}
		got = allocated(func() { _, _, err = tt.v.FromDocument(document, false) })
		if !errors.As(err, &status) || status.Status().Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: error %.200v for a document, want 413", tt.name, err)
		}
		if got > maxDecodeAllocation {
			t.Errorf("%s: %d MiB were allocated for a document", tt.name, got>>20)
		}
	}
}

// members returns n members of a JSON object with the same value.
func members(n int, value string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"m%d":%s`, i, value))
	}
	return strings.Join(list, ",")
}

// TestDecodeLargeObjects checks that large but realistic objects are decoded, in all encodings.
func TestDecodeLargeObjects(t *testing.T) {
	t.Parallel()
	list := func(n int, element string) string { return strings.Repeat(element+",", n-1) + element }
	for _, tt := range []struct {
		name, body string
		obj        codec.Object
	}{
		{"a long value", `{"data":{"a":"` + strings.Repeat("x,{}[]", 512<<10) + `"}}`, &corev1.ConfigMap{}},
		{"many keys", `{"data":{` + members(60_000, `"value"`) + `}}`, &corev1.ConfigMap{}},
		{"many containers", `{"spec":{"containers":[` + list(3000, `{"name":"c","image":"i","env":[{"name":"a","value":"b"}],"livenessProbe":{"exec":{"command":["a"]}},"securityContext":{"privileged":false}}`) + `]}}`, &corev1.Pod{}},
		{"many endpoints", `{"endpoints":[` + list(10_000, `{"addresses":["10.0.0.1"],"conditions":{"ready":true},"nodeName":"n","targetRef":{"kind":"Pod","name":"p"}}`) + `]}`, &discoveryv1.EndpointSlice{}},
		{"many addresses", `{"subsets":[{"addresses":[` + list(40_000, `{"ip":"10.0.0.1","targetRef":{"kind":"Pod","name":"p"}}`) + `]}]}`, &corev1.Endpoints{}},
		{"many rules", `{"rules":[` + list(40_000, `{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}`) + `]}`, &rbacv1.ClusterRole{}},
		{"many properties", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{` + members(30_000, `{"type":"string","description":"A text."}`) + `}}}}]}}`,
			&apiextensionsv1.CustomResourceDefinition{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := versionOf(reflect.TypeOf(tt.obj).Elem().Name(), func() codec.Object { return reflect.New(reflect.TypeOf(tt.obj).Elem()).Interface().(codec.Object) })
			obj, err := v.Decode([]byte(tt.body), codec.JSON, true)
			if err != nil {
				t.Fatalf("JSON: %.200v", err)
			}
			encoded, err := codec.AppendObject(nil, obj, codec.Protobuf)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Decode(encoded, codec.Protobuf, true); err != nil {
				t.Errorf("protobuf: %.200v", err)
			}
			if _, err := v.Decode([]byte(strings.Replace(tt.body, "{", `{"unknown":1,`, 1)), codec.JSON, false); err != nil {
				t.Errorf("JSON with an unknown field: %.200v", err)
			}
			document := map[string]any{}
			if _, err := codec.UnmarshalDocument([]byte(tt.body), &document); err != nil {
				t.Fatal(err)
			}
			if _, _, err := v.FromDocument(document, true); err != nil {
				t.Errorf("a document: %.200v", err)
			}
		})
	}
}

// TestStoredObjectsHaveNoMemoryLimit checks that stored objects beyond the limit, for example from another
// server, can be read.
func TestStoredObjectsHaveNoMemoryLimit(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 100_000)}}
	for _, kind := range []*codec.Kind{podKind(), {Hub: podVersion(), StoredAsJSON: true}} {
		value, err := kind.EncodeStored(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := kind.DecodeStored(value, 1)
		if err != nil || len(obj.(*corev1.Pod).Spec.Containers) != len(pod.Spec.Containers) {
			t.Errorf("stored as JSON: %t: %.200v", kind.StoredAsJSON, err)
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	total := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := total()
	f()
	return total() - before
}

// emptyContainers returns the protobuf encoding of a pod with n empty containers, each of which takes two
// bytes.
func emptyContainers(t *testing.T, n int) []byte {
	t.Helper()
	message := func(number byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
	}
	spec := bytes.Repeat([]byte{2<<3 | 2, 0}, n)
	body := codec.AppendEnvelope(nil, podVersion().GVK, len(message(2, spec)))
	return codec.CloseEnvelope(append(body, message(2, spec)...))
}
