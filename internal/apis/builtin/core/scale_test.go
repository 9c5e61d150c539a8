package core_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

const (
	controllers = "v1 replicationcontrollers"
	scales      = controllers + "/scale"
)

func newController(replicas int32) *corev1.ReplicationController {
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rc", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "creator", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{},"f:selector":{}}}`)},
		}}},
		Spec: corev1.ReplicationControllerSpec{Replicas: &replicas, Selector: map[string]string{"app": "web"}, Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}},
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	rc := a.create(controllers, newController(3)).(*corev1.ReplicationController)
	scale := a.get(scales, in("ns", "rc")).(*autoscalingv1.Scale)
	want := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rc", UID: rc.UID, ResourceVersion: rc.ResourceVersion,
			CreationTimestamp: rc.CreationTimestamp},
		Spec: autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Selector: "app=web"},
	}
	if diff := cmp.Diff(want, scale); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	scale = mustUpdate(a, scales, in("ns", "rc"), func(scale *autoscalingv1.Scale) { scale.Spec.Replicas = 7 })
	rc = a.get(controllers, in("ns", "rc")).(*corev1.ReplicationController)
	if scale.Spec.Replicas != 7 || *rc.Spec.Replicas != 7 || rc.Generation != 2 || scale.ResourceVersion != rc.ResourceVersion {
		t.Errorf("scale %+v of controller %+v", scale, rc)
	}
	stale := want.ResourceVersion
	_, err := update(a, scales, in("ns", "rc"), func(scale *autoscalingv1.Scale) { scale.ResourceVersion = stale })
	wantMessage(t, err, `Operation cannot be fulfilled on replicationcontrollers "rc": the object has been modified; please apply your changes to the latest version and try again`)
	_, err = update(a, scales, in("ns", "rc"), func(scale *autoscalingv1.Scale) { scale.Spec.Replicas = -1 })
	wantMessage(t, err, `Scale.autoscaling "rc" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
	mustUpdate(a, scales, in("ns", "rc"), func(scale *autoscalingv1.Scale) { scale.ResourceVersion, scale.UID = "", "" })
	if _, err := update(a, scales, in("ns", "rc"), func(scale *autoscalingv1.Scale) { scale.UID = "other" }); err == nil {
		t.Error("the scale of another object was written")
	}
	if _, err := a.tryGet(scales, in("ns", "none")); !apierrors.IsNotFound(err) {
		t.Errorf("scale of a missing object: %v", err)
	}
	r := a.resource(scales)
	cells, _, err := r.Table.Cells(scale, scale.CreationTimestamp.Add(time.Minute))
	if diff := cmp.Diff([]any{"rc", int64(7), int64(0), "60s"}, cells); diff != "" || err != nil {
		t.Errorf("%v, cells (-want +got):\n%s", err, diff)
	}
}

// TestScaleManagers checks that a client that sets the replicas through /scale becomes their field manager,
// both in the Scale and in the main object.
func TestScaleManagers(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create(controllers, newController(3))
	mustUpdate(a, scales, in("ns", "rc"), func(scale *autoscalingv1.Scale) {
		if len(scale.ManagedFields) != 1 || string(scale.ManagedFields[0].FieldsV1.Raw) != `{"f:spec":{"f:replicas":{}}}` {
			t.Errorf("managers of the scale are %v", scale.ManagedFields)
		}
		scale.ManagedFields[0].Manager, scale.ManagedFields[0].Subresource = "scaler", "scale"
	})
	got := map[string]string{}
	for _, entry := range a.get(controllers, in("ns", "rc")).GetManagedFields() {
		got[entry.Manager+" "+entry.Subresource+" "+entry.APIVersion] = string(entry.FieldsV1.Raw)
	}
	want := map[string]string{"creator  v1": `{"f:spec":{"f:selector":{}}}`, "scaler scale v1": `{"f:spec":{"f:replicas":{}}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScaleValidation(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create(controllers, newController(3))
	var seen []any
	_, _, err := a.resource(scales).Storage.(rest.Updater).Update(t.Context(), in("ns", "rc"), func(_ context.Context, current codec.Object) (codec.Object, error) {
		scale := current.DeepCopyObject().(*autoscalingv1.Scale)
		scale.Spec.Replicas = 4
		return scale, nil
	}, rest.UpdateOptions{Validate: func(_ context.Context, obj, old codec.Object) error {
		seen = append(seen, obj.(*autoscalingv1.Scale).Spec, old.(*autoscalingv1.Scale).Spec)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(seen)
	if err != nil || string(b) != `[{"replicas":4},{"replicas":3}]` {
		t.Errorf("admission received %s, error %v", b, err)
	}
}
