package codec_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/codec"
)

func configMapVersion() *codec.Version {
	return &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() codec.Object { return new(corev1.ConfigMap) }}
}

// TestDecodeErrors compares error messages with those recorded from kube-apiserver, because clients display
// them.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		media      codec.Media
		want       string
	}{
		{"empty", "", codec.JSON, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		{"list", "[]", codec.JSON, "cannot unmarshal array into Go value of type struct"},
		{"truncated", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t`, codec.JSON, `json parse error: unexpected end of JSON input ({"apiVersion":"v1","kind":"Con ...)`},
		{"text", "hello", codec.JSON, "invalid character 'h' looking for beginning of value (68656c6c6f)"},
		{"another kind", `{"apiVersion":"v1","kind":"Secret"}`, codec.JSON, `Secret in version "v1" cannot be handled as a ConfigMap`},
		{"another version", `{"apiVersion":"v9","kind":"ConfigMap"}`, codec.JSON, `ConfigMap in version "v9" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v9"`},
		{"wrong type", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}`, codec.JSON, `ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string`},
		{"bad version", `{"apiVersion":"a/b/c","kind":"ConfigMap"}`, codec.JSON, "unexpected GroupVersion string: a/b/c"},
		{"bad YAML", "apiVersion: v1\nkind: [ConfigMap\n", codec.YAML, "yaml: line 2: did not find expected ',' or ']'"},
		{"bad protobuf", "k8s\x00garbage", codec.Protobuf, "proto: illegal wireType 7 (6b38730067617262616765)"},
		{"protobuf map", "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x08\x12\x02\x12\x04xxxx", codec.Protobuf, "proto: an entry of a map extends beyond its length"},
		{"no protobuf", "hello", codec.Protobuf, "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := configMapVersion().Decode([]byte(test.body), test.media, true)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v\n want %s", err, test.want)
			}
		})
	}
}

func TestDecodeTakesTheTypeFromThePath(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `null`, `{"kind":"ConfigMap"}`, `{"apiVersion":"v1"}`, `{"apiVersion":"v1","kind":"ConfigMap"}`} {
		obj, err := configMapVersion().Decode([]byte(body), codec.JSON, true)
		if err != nil {
			t.Errorf("decode %s: %v", body, err)
			continue
		}
		if got := obj.GetObjectKind().GroupVersionKind(); got != configMapVersion().GVK {
			t.Errorf("%s: type %s", body, got)
		}
	}
}

func TestDecodeReportsUnknownAndDuplicateFields(t *testing.T) {
	t.Parallel()
	body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","nope":1,"data":{"a":"1","a":"2"}}`)
	obj, err := configMapVersion().Decode(body, codec.JSON, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok || len(strict.Errors()) != 2 {
		t.Fatalf("error %v; want a strict decoding error with two causes", err)
	}
	if got := obj.(*corev1.ConfigMap).Data["a"]; got != "2" {
		t.Errorf("data.a = %q; want the last value", got)
	}
	if _, err := configMapVersion().Decode(body, codec.JSON, false); err != nil {
		t.Errorf("not strict: %v", err)
	}
}

// FuzzDecode checks that decoding returns either an object of the requested version or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}`), uint8(0))
	f.Add([]byte("a: &x [*x]"), uint8(1))
	f.Add([]byte("k8s\x00\x0a\x04\x0a\x02v1"), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, media uint8) {
		for _, v := range []*codec.Version{configMapVersion(), widgetVersion()} {
			obj, err := v.Decode(body, codec.Media(media%3), true)
			if err != nil && !runtime.IsStrictDecodingError(err) {
				continue
			}
			if obj.GetObjectKind().GroupVersionKind() != v.GVK {
				t.Errorf("decoded %s as %s", obj.GetObjectKind().GroupVersionKind(), v.GVK)
			}
		}
	})
}

// FuzzDecodeStored checks that a corrupt value causes an error and not a panic.
func FuzzDecodeStored(f *testing.F) {
	f.Add(storedPod(f).Stored())
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v1"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		obj, err := podKind().DecodeStored(value, 3)
		if err == nil && obj.GetResourceVersion() != "3" {
			t.Errorf("resourceVersion %q", obj.GetResourceVersion())
		}
	})
}

// TestDecodeAbsurdQuantities checks that quantities with a billion digits are rejected before their values
// are computed, in all encodings, and that typical quantities are accepted.
func TestDecodeAbsurdQuantities(t *testing.T) {
	t.Parallel()
	const want = `Pod in version "v1" cannot be handled as a Pod: a quantity may have at most 128 characters and an exponent of at most 128`
	body := func(q string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":` + q + `}}}]}}`
	}
	for _, q := range []string{`"1e999999999"`, `"1e-999999999"`, `1e999999999`, `"\u0031e-999999999"`, `" 1e999999999 "`, `"0.` + strings.Repeat("1", 1<<20) + `"`} {
		for _, media := range []codec.Media{codec.JSON, codec.YAML} {
			for _, text := range []string{body(q), strings.Replace(body(q), "spec", `unknown":1,"spec`, 1)} {
				if _, err := podVersion().Decode([]byte(text), media, true); err == nil || err.Error() != want {
					t.Errorf("%.30s: %v", q, err)
				}
			}
		}
		if _, _, err := podVersion().FromDocument(map[string]any{"spec": map[string]any{"overhead": map[string]any{"cpu": "1e-999999999"}}}, true); err == nil {
			t.Error("FromDocument accepted an absurd quantity")
		}
	}
	pod := testPod()
	pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("98765432101")}
	encoded, err := codec.AppendObject(nil, pod, codec.Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	if obj, err := podVersion().Decode(encoded, codec.Protobuf, true); err != nil || obj.(*corev1.Pod).Spec.Overhead.Cpu().Value() != 98765432101 {
		t.Errorf("a valid quantity: %v", err)
	}
	hostile := strings.ReplaceAll(string(encoded), "98765432101", "1e-99999999")
	if _, err := podVersion().Decode([]byte(hostile), codec.Protobuf, true); err == nil || err.Error() != want {
		t.Errorf("protobuf: %v", err)
	}
}
