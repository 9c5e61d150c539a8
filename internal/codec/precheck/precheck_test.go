package precheck

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/codec/quantity"
)

// TestShapes checks that an absurd quantity is found wherever a type may contain one, in JSON, in documents
// and in protobuf, and that other texts are accepted.
func TestShapes(t *testing.T) {
	t.Parallel()
	const pod = `{"metadata":{"name":"1e999999999","annotations":{"a":"1e999999999"}},"spec":{"containers":[{"name":"c","args":["1e999999999"],"resources":{"limits":{"cpu":"1"},"requests":{"1e999999999":Q}}}]}}`
	for _, tt := range []struct {
		name, text string
		into       func() runtime.Object
	}{
		{"requests", pod, func() runtime.Object { return &corev1.Pod{} }},
		{"overhead", `{"spec":{"overhead":{"cpu":Q}}}`, func() runtime.Object { return &corev1.Pod{} }},
		{"an embedded struct", `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":Q}}]}}`, func() runtime.Object { return &corev1.Pod{} }},
		{"pod level", `{"spec":{"resources":{"limits":{"cpu":Q}}}}`, func() runtime.Object { return &corev1.Pod{} }},
		{"a divisor", `{"spec":{"initContainers":[{"env":[{"valueFrom":{"resourceFieldRef":{"divisor":Q}}}]}]}}`, func() runtime.Object { return &corev1.Pod{} }},
		{"quota", `{"spec":{"hard":{"cpu":Q}}}`, func() runtime.Object { return &corev1.ResourceQuota{} }},
		{"limits", `{"spec":{"limits":[{"maxLimitRequestRatio":{"cpu":Q}}]}}`, func() runtime.Object { return &corev1.LimitRange{} }},
		{"node", `{"status":{"capacity":{"cpu":Q}}}`, func() runtime.Object { return &corev1.Node{} }},
		{"metrics", `{"spec":{"metrics":[{"pods":{"target":{"averageValue":Q}}}]}}`, func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{} }},
		{"tolerance", `{"spec":{"behavior":{"scaleUp":{"tolerance":Q}}}}`, func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{} }},
		{"slice", `{"spec":{"devices":[{"capacity":{"x":{"value":Q,"requestPolicy":{"validValues":["1",Q]}}}}]}}`, func() runtime.Object { return &resourcev1.ResourceSlice{} }},
	} {
		for _, q := range []string{"1e999999999", "1E999999999", "1e-999999999", "1e+999999999", "-1e-2147483647", "1e4294967296"} {
			text := strings.ReplaceAll(tt.text, "Q", `"`+q+`"`)
			if err := ShapeOf(tt.into()).CheckJSON([]byte(text), nil); !errors.Is(err, quantity.ErrOutOfRange) {
				t.Errorf("%s: %s passed", tt.name, text)
			}
			var document any
			if err := json.Unmarshal([]byte(text), &document); err != nil {
				t.Fatal(err)
			}
			if err := ShapeOf(tt.into()).CheckDocument(document, nil); !errors.Is(err, quantity.ErrOutOfRange) {
				t.Errorf("%s: %s passed as a document", tt.name, text)
			}
		}
		// In the protobuf encoding, the quantity is replaced with a text of equal length.
		obj := tt.into()
		if err := json.Unmarshal([]byte(strings.ReplaceAll(tt.text, "Q", `"98765432101"`)), obj); err != nil {
			t.Fatal(err)
		}
		encoded := envelope(t, obj)
		if err := ShapeOf(obj).CheckProtobuf(encoded, nil); err != nil {
			t.Errorf("%s: a legal amount: %v", tt.name, err)
		}
		hostile := strings.ReplaceAll(string(encoded), "98765432101", "1e-99999999")
		if err := ShapeOf(obj).CheckProtobuf([]byte(hostile), nil); !errors.Is(err, quantity.ErrOutOfRange) {
			t.Errorf("%s passed in protobuf", tt.name)
		}
		if err := ShapeOf(obj).CheckJSON([]byte(strings.ReplaceAll(tt.text, "Q", `"1e3"`)), nil); err != nil {
			t.Errorf("%s: a legal amount: %v", tt.name, err)
		}
	}
	number := strings.ReplaceAll(pod, "Q", "1e999999999")
	if err := ShapeOf(&corev1.Pod{}).CheckJSON([]byte(number), nil); !errors.Is(err, quantity.ErrOutOfRange) {
		t.Error("a quantity that is a JSON number was accepted")
	}
	if err := ShapeOf(&corev1.Pod{}).CheckJSON([]byte(strings.ReplaceAll(number, "requests", "unknown")), nil); err != nil {
		t.Errorf("a field that is not a quantity: %v", err)
	}
	if ShapeOf(&corev1.ConfigMap{}).containsQuantity {
		t.Error("the shape of a ConfigMap contains quantities")
	}
	if ShapeOf(&corev1.ObjectReference{}) != nil {
		t.Error("the shape of an ObjectReference is not empty")
	}
	if err := ShapeOf(&corev1.Pod{}).CheckJSON([]byte(`{"spec":{"overhead":{"cpu":"1e999999999","cpu":"1"}}}`), nil); !errors.Is(err, quantity.ErrOutOfRange) {
		t.Error("a duplicate member hides a quantity")
	}
	if err := ShapeOf(&corev1.Pod{}).CheckJSON([]byte(strings.Repeat("[", 3<<20)), nil); err != nil {
		t.Error(err)
	}
}

func envelope(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	raw, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := (&runtime.Unknown{Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// TestShapeOfList checks types that are not structs, such as those encoded in the values of annotations.
func TestShapeOfList(t *testing.T) {
	t.Parallel()
	if err := ShapeOf(&[]autoscalingv2.MetricStatus{}).CheckJSON([]byte(`[{"resource":{"current":{"averageValue":"1e999999999"}}}]`), nil); !errors.Is(err, quantity.ErrOutOfRange) {
		t.Errorf("a list: error %v, want quantity.ErrOutOfRange", err)
	}
	if err := ShapeOf(&map[string]resource.Quantity{}).CheckJSON([]byte(`{"cpu":"1e999999999"}`), nil); !errors.Is(err, quantity.ErrOutOfRange) {
		t.Errorf("a map: error %v, want quantity.ErrOutOfRange", err)
	}
}

// TestProtobufAsGeneratedCodeReadsIt checks that quantities are found in valid encodings that no
// encoder produces.
func TestProtobufAsGeneratedCodeReadsIt(t *testing.T) {
	t.Parallel()
	hostile := append([]byte{1<<3 | wireBytes, 6}, "1e-999"...)
	for name, limits := range map[string][]byte{
		"a plain entry":                   {1<<3 | wireBytes, byte(2 + len(hostile)), 2<<3 | wireBytes, byte(len(hostile))},
		"a value of another wire type":    {1<<3 | wireBytes, byte(2 + len(hostile)), 2 << 3 /* a number */, byte(len(hostile))},
		"a group before it":               {7<<3 | wireStartGroup, 1 << 3 /* a number */, 1, 7<<3 | wireEndGroup, 1<<3 | wireBytes, byte(2 + len(hostile)), 2<<3 | wireBytes, byte(len(hostile))},
		"a number that has been cut off":  {1<<3 | wireBytes | 0x80, 0x80, 0x80, 0x80, 0x80, 0x08, byte(2 + len(hostile)), 2<<3 | wireBytes, byte(len(hostile))},
		"a length of more bytes than due": {1<<3 | wireBytes, byte(2+len(hostile)) | 0x80, 0, 2<<3 | wireBytes, byte(len(hostile))},
	} {
		message := append(limits, hostile...)
		var resources corev1.ResourceRequirements
		if err := resources.Unmarshal(message); len(resources.Limits) != 1 {
			t.Errorf("%s: generated code reads nothing: %v", name, err)
		}
		if err := new(Meter).checkMessage(ShapeOf(&resources), message, maxDepth); !errors.Is(err, quantity.ErrOutOfRange) {
			t.Errorf("%s: passed", name)
		}
	}
}

// TestHostileProtobuf checks that messages are rejected if the generated code would need much more memory
// or time for them than for other messages of the same size.
func TestHostileProtobuf(t *testing.T) {
	t.Parallel()
	// Each entry of data claims to have two bytes, but its value extends to the end of the message.
	overlapping := bytes.Repeat([]byte("x"), 60)
	for range 3 {
		overlapping = append([]byte{2<<3 | wireBytes, 2, 2<<3 | wireBytes, byte(len(overlapping))}, overlapping...)
	}
	// The properties of a schema are read twice at each level: as a value, and as fields of the schema.
	doubled := []byte{}
	for range 10 {
		head := binary.AppendUvarint(nil, 29<<3|wireBytes) // properties
		doubled = append(append(head, 2, 2<<3|wireBytes, byte(len(doubled))), doubled...)
	}
	deep := []byte{}
	for range maxDepth {
		head := binary.AppendUvarint(binary.AppendUvarint(nil, 28<<3|wireBytes), uint64(len(deep))) // not
		deep = append(head, deep...)
	}
	for _, tt := range []struct {
		name    string
		into    interface{ Unmarshal([]byte) error }
		message []byte
		want    error
	}{
		{"values that overlap", &corev1.ConfigMap{}, overlapping, errEntry},
		{"properties that are read twice", &apiextensionsv1.JSONSchemaProps{}, doubled, errEntry},
		{"a deep schema", &apiextensionsv1.JSONSchemaProps{}, deep, errDepth},
	} {
		if err := tt.into.Unmarshal(tt.message); err != nil {
			t.Errorf("%s: the generated code rejects it: %v", tt.name, err)
		}
		if err := new(Meter).checkMessage(ShapeOf(tt.into), tt.message, maxDepth); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}
}

// TestProtobufWithoutJSONEncoding checks that values that the generated code accepts, but that have no
// valid JSON encoding, are rejected.
func TestProtobufWithoutJSONEncoding(t *testing.T) {
	t.Parallel()
	revision := func(data string) runtime.Object {
		return &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	managed := func(fields string) runtime.Object {
		d := &appsv1.Deployment{}
		d.Spec.Template.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}}
		return d
	}
	schema := func(value string) runtime.Object {
		return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Default: &apiextensionsv1.JSON{Raw: []byte(value)}},
			}}},
		}}
	}
	event := func(year int) runtime.Object {
		return &eventsv1.Event{EventTime: metav1.NewMicroTime(time.Date(year, 12, 31, 23, 59, 59, 999999000, time.UTC))}
	}
	deleted := func(seconds int64) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(seconds, 0)}}
	}
	budget := func(limit intstr.IntOrString) runtime.Object {
		return &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &limit}}
	}
	for _, tt := range []struct {
		name string
		obj  runtime.Object
		want error
	}{
		{"an object", revision(`{"a":[1]}`), nil},
		{"no data", &appsv1.ControllerRevision{}, nil},
		{"empty data", revision(""), errJSON},
		{"an incomplete object", revision(`{"a":`), errJSON},
		{"two objects", revision(`{}{}`), errJSON},
		{"managed fields of a template", managed(`{"f:metadata":{}}`), nil},
		{"invalid managed fields of a template", managed("\x00"), errJSON},
		{"invalid managed fields of the object", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			{FieldsV1: metav1.NewFieldsV1("\x00")},
		}}}, nil},
		{"a default", schema("1"), nil},
		{"an invalid default", schema("tru"), errJSON},
		{"no time", event(1), nil},
		{"the last year", event(9999), nil},
		{"year 10000", event(10000), errTime},
		{"a negative year", event(-1), errTime},
		{"the largest time", deleted(math.MaxInt64), errTime},
		{"the smallest time", deleted(math.MinInt64), errTime},
		{"a number", budget(intstr.FromInt32(1)), nil},
		{"a string", budget(intstr.FromString("1%")), nil},
		{"neither", budget(intstr.IntOrString{Type: 2}), errType},
		{"a negative type", budget(intstr.IntOrString{Type: -1}), errType},
	} {
		if err := ShapeOf(tt.obj).CheckProtobuf(envelope(t, tt.obj), nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}
}
