package codec_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// encodedPod is a pod with its stored encoding.
type encodedPod struct {
	*corev1.Pod
	value []byte
}

func (p encodedPod) StoredEncoding() []byte { return p.value }

func podsAsJSON() *codec.Kind {
	kind := podKind()
	kind.StoredAsJSON = true
	return kind
}

// want returns the JSON of a pod at a revision, as it is sent to clients.
func want(t *testing.T, pod *corev1.Pod, revision string) string {
	t.Helper()
	pod = pod.DeepCopy()
	pod.ResourceVersion = revision
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	b, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func appended(t *testing.T, r *codec.Record) string {
	t.Helper()
	b, err := r.Append(nil, r.Kind().Hub, codec.JSON)
	if err != nil {
		t.Fatal(err)
	}
	tail, err := r.JSONTail(r.Kind().Hub)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := r.AppendJSONTail([]byte("x"), r.Kind().Hub)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := r.AppendSharedJSONTail([]byte("x"), r.Kind().Hub)
	if err != nil {
		t.Fatal(err)
	}
	if whole := string(codec.JSONHead(r.Kind().Hub.GVK)) + string(tail) + "\n"; whole != string(b) || "x"+string(tail) != string(listed) || string(listed) != string(shared) {
		t.Errorf("the tails differ:\n%s%s\n%s\n%s", b, tail, listed, shared)
	}
	return string(b)
}

func TestStoredAsJSON(t *testing.T) {
	t.Parallel()
	pods := map[string]*corev1.Pod{"test": testPod(), "empty": {}, "name": {ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		"uid":    {ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: map[string]string{"a": "b"}}},
		"all":    {ObjectMeta: metav1.ObjectMeta{Name: "n", GenerateName: "g", Namespace: "a", SelfLink: "s", UID: "u", Generation: 3}},
		"escape": {ObjectMeta: metav1.ObjectMeta{Name: `n"\`, UID: "<u>"}},
		"labels": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"uid": "b"}}}}
	for name, pod := range pods {
		kind := podsAsJSON()
		value, err := kind.EncodeStored(t.Context(), pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(value), "resourceVersion") || value[0] != '{' {
			t.Errorf("%s: stored %s", name, value)
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		for from, record := range map[string]*codec.Record{
			"written": codec.RecordOf(kind, pod.DeepCopy(), value, 42), "read": codec.NewRecord(kind, key, value, 42),
		} {
			for range 2 { // the second call uses the result of compareStored
				if got := appended(t, record); got != want(t, pod, "42") {
					t.Errorf("%s, %s:\n got %swant %s", name, from, got, want(t, pod, "42"))
				}
			}
			obj, err := record.Object()
			if err != nil || obj.GetResourceVersion() != "42" || obj.GetName() != pod.Name {
				t.Errorf("%s, %s: read back %v, %v", name, from, obj, err)
			}
			if b, err := record.Append(nil, kind.Hub, codec.Protobuf); err != nil || !strings.HasPrefix(string(b), "k8s\x00") {
				t.Errorf("%s, %s: protobuf %q, %v", name, from, b, err)
			}
		}
		if got := appended(t, codec.RecordOf(kind, pod.DeepCopy(), value, 42).WithRevision(43)); got != want(t, pod, "43") {
			t.Errorf("%s with another revision: %s", name, got)
		}
	}
}

// TestStoredAsJSONByOthers checks that values written by other programs are decoded and re-encoded before
// they are sent.
func TestStoredAsJSONByOthers(t *testing.T) {
	t.Parallel()
	kind := podsAsJSON()
	for _, value := range []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a","unknown":1},"spec":{"nodeName":"n"}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"},"spec":{"nodeName":"n","more":[]}}` + "\n",
		` {"kind":"Pod", "apiVersion":"v1", "metadata":{"name":"p","namespace":"a","resourceVersion":"3"},"spec":{"nodeName":"n"}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a","resourceVersion":"3"},"spec":{"nodeName":"n"}}`,
	} {
		record := codec.NewRecord(kind, types.NamespacedName{Namespace: "a", Name: "p"}, []byte(value), 42)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}
		for range 2 {
			if got := appended(t, record); got != want(t, pod, "42") {
				t.Errorf("%s: sent as %s", value, got)
			}
		}
	}
	// Values stored as protobuf can still be read.
	value, err := podKind().EncodeStored(t.Context(), testPod())
	if err != nil {
		t.Fatal(err)
	}
	record := codec.NewRecord(kind, types.NamespacedName{Namespace: "a", Name: "p"}, value, 42)
	for range 2 {
		if got := appended(t, record); got != want(t, testPod(), "42") {
			t.Errorf("protobuf: sent as %s", got)
		}
	}
}

func TestEncoded(t *testing.T) {
	t.Parallel()
	kind := podsAsJSON()
	value, err := kind.EncodeStored(t.Context(), testPod())
	if err != nil {
		t.Fatal(err)
	}
	brought := encodedPod{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}, value}
	stored, err := kind.EncodeStored(t.Context(), brought)
	if err != nil || string(stored) != string(value) {
		t.Fatalf("encode for storage: %s, error %v; want %s", stored, err, value)
	}
	if got := appended(t, codec.RecordOf(kind, brought, stored, 9)); got != want(t, testPod(), "9") {
		t.Error(got)
	}
}

// TestStoredDocument checks that no encoding of an untyped object is cached if the stored bytes can be sent
// with an inserted revision, and that the second response equals the first.
func TestStoredDocument(t *testing.T) {
	t.Parallel()
	head := `{"apiVersion":"example.com/v1","kind":"Widget",`
	tests := []struct {
		name, value string
		want        string // the tail; empty means the tail of the stored value with revision 7
		cached      bool
	}{
		{name: "as the server writes", value: head + `"metadata":{"annotations":{"uid":"x"},"managedFields":[{"manager":"uid"}],"name":"w","uid":"u"},"spec":{"a":1}}`},
		{name: "resourceVersion comes first", value: head + `"metadata":{"uid":"u"},"spec":{}}`,
			want: `"metadata":{"resourceVersion":"7","uid":"u"},"spec":{}}`},
		{name: "before selfLink", value: head + `"metadata":{"name":"w","selfLink":"s","uid":"u"}}`,
			want: `"metadata":{"name":"w","resourceVersion":"7","selfLink":"s","uid":"u"}}`},
		{name: "an escaped text", value: head + `"metadata":{"name":"w","uid":"u"},"spec":{"a":"\"uid\""}}`},
		{name: "resourceVersion comes last", value: head + `"metadata":{"name":"w"}}`, cached: true,
			want: `"metadata":{"name":"w","resourceVersion":"7"}}`},
		{name: "written with spaces", value: head + ` "metadata":{"name":"w","uid":"u"}}`, cached: true,
			want: `"metadata":{"name":"w","resourceVersion":"7","uid":"u"}}`},
		{name: "another order", value: head + `"spec":{},"metadata":{"name":"w","uid":"u"}}`, cached: true,
			want: `"metadata":{"name":"w","resourceVersion":"7","uid":"u"},"spec":{}}`},
		{name: "a member before the type", value: `{"a":1,"apiVersion":"example.com/v1","kind":"Widget","metadata":{"uid":"u"}}`, cached: true,
			want: `"a":1,"metadata":{"resourceVersion":"7","uid":"u"}}`},
		{name: "a revision in the store", value: head + `"metadata":{"name":"w","resourceVersion":"3","uid":"u"}}`, cached: true,
			want: `"metadata":{"name":"w","resourceVersion":"7","uid":"u"}}`},
	}
	for _, tt := range tests {
		kind := &codec.Kind{Hub: widgetVersion()}
		record := codec.NewRecord(kind, types.NamespacedName{Name: "w"}, []byte(tt.value), 7)
		want := tt.want
		if want == "" {
			want = strings.Replace(strings.TrimPrefix(tt.value, head), `"name":"w",`, `"name":"w","resourceVersion":"7",`, 1)
		}
		for range 2 {
			if got := appended(t, record); got != string(codec.JSONHead(kind.Hub.GVK))+want+"\n" {
				t.Errorf("%s: sent as %s", tt.name, got)
			}
		}
		if got := codec.CachedBytes(record) > 0; got != tt.cached {
			t.Errorf("%s: cached %t", tt.name, got)
		}
		moved := appended(t, record.WithRevision(123))
		if got := strings.Replace(want, `"resourceVersion":"7"`, `"resourceVersion":"123"`, 1); moved != string(codec.JSONHead(kind.Hub.GVK))+got+"\n" {
			t.Errorf("%s: with another revision: %s", tt.name, moved)
		}
	}
}
