package core_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// fill sets all fields of a value to nonzero values.
func fill(v reflect.Value) {
	switch value := v.Addr().Interface().(type) {
	case *metav1.Time:
		*value = metav1.Unix(1700000000, 0)
		return
	case *metav1.MicroTime:
		*value = metav1.NewMicroTime(time.Unix(1700000000, 123000))
		return
	case *metav1.FieldsV1:
		value.Raw = []byte("{}")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x" + v.Type().Name())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	}
}

// roundTrip converts an event to version v and back.
func roundTrip(t *testing.T, v *codec.Version, event *corev1.Event) *corev1.Event {
	t.Helper()
	other, err := v.ConvertFromHub(event.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	back, err := v.ConvertToHub(other)
	if err != nil {
		t.Fatal(err)
	}
	return back.(*corev1.Event)
}

func TestEventConversion(t *testing.T) {
	t.Parallel()
	v := declared(t).resource("events.k8s.io/v1 events").Version
	var event corev1.Event
	fill(reflect.ValueOf(&event).Elem())
	event.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(&event, roundTrip(t, v, &event)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other, err := v.ConvertFromHub(&event)
	if err != nil {
		t.Fatal(err)
	}
	for i, value := 0, reflect.ValueOf(other).Elem(); i < value.NumField(); i++ {
		if name := value.Type().Field(i).Name; name != "TypeMeta" && value.Field(i).IsZero() {
			t.Errorf("the field %s is not set by the conversion", name)
		}
	}
}

func TestEventsInBothVersions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("events.k8s.io/v1 events", &eventsv1.Event{
		ObjectMeta: named("ns", "e"), Note: "text", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p"},
	})
	event := a.get("v1 events", in("ns", "e")).(*corev1.Event)
	if event.Message != "text" || event.InvolvedObject.Name != "p" {
		t.Errorf("event is %+v", event)
	}
	if a, b := a.resource("v1 events"), a.resource("events.k8s.io/v1 events"); a.StorageVersionHash != b.StorageVersionHash {
		t.Errorf("hashes are %s and %s", a.StorageVersionHash, b.StorageVersionHash)
	}
}

func FuzzEventConversion(f *testing.F) {
	var event corev1.Event
	fill(reflect.ValueOf(&event).Elem())
	for _, seed := range []*corev1.Event{{}, &event} {
		b, err := seed.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	v := declared(f).resource("events.k8s.io/v1 events").Version
	f.Fuzz(func(t *testing.T, b []byte) {
		var event corev1.Event
		if event.Unmarshal(b) != nil {
			return
		}
		if diff := cmp.Diff(&event, roundTrip(t, v, &event)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
