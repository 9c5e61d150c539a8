package apply

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/rest"
)

// deployments is a kind with two versions. The second one has a default.
func deployments() *codec.Kind {
	hub := &codec.Version{GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), New: func() codec.Object { return new(appsv1.Deployment) }}
	second := &codec.Version{
		GVK: appsv1beta1.SchemeGroupVersion.WithKind("Deployment"), New: func() codec.Object { return new(appsv1beta1.Deployment) },
		ToHub: func(obj codec.Object) (codec.Object, error) { return reread(obj, new(appsv1.Deployment)) },
		FromHub: func(obj codec.Object) (codec.Object, error) {
			out := new(appsv1beta1.Deployment)
			if out.Spec.RevisionHistoryLimit == nil {
				out.Spec.RevisionHistoryLimit = new(int32)
			}
			return reread(obj, out)
		},
	}
	return &codec.Kind{Hub: hub, Versions: []*codec.Version{hub, second}}
}

func reread(from, to codec.Object) (codec.Object, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	to.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return to, json.Unmarshal(text, to)
}

// TestUpdatesOfVersionsAsUpstream writes objects in two versions and compares the results with those of
// apimachinery's field manager.
func TestUpdatesOfVersionsAsUpstream(t *testing.T) {
	t.Parallel()
	kind := deployments()
	managers := NewManagers(openapi.NewTypeConverter(), nil)
	var paths []*Manager
	for _, v := range kind.Versions {
		for _, subresource := range []string{"", "status"} {
			r := &rest.Resource{GroupVersion: v.GVK.GroupVersion(), Name: "deployments", Subresource: subresource, Kind: kind, Version: v}
			r.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(v.GVK.GroupVersion().String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
			paths = append(paths, managers.For(r))
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	own := 0
	var live codec.Object
	for i := range 240 {
		if i%12 == 0 {
			live = kind.Hub.New()
			live.GetObjectKind().SetGroupVersionKind(kind.Hub.GVK)
		}
		m := paths[random.IntN(len(paths))]
		if i%24 < 12 {
			m = paths[2+random.IntN(2)] // use a single version for some writes
		}
		obj := live.DeepCopyObject().(codec.Object)
		changeDeployment(random, obj.(*appsv1.Deployment))
		want := obj.DeepCopyObject().(codec.Object)
		mine := obj.DeepCopyObject().(codec.Object)
		manager := fmt.Sprint("manager-", random.IntN(3))
		if m.updateFast(live.DeepCopyObject().(codec.Object), mine, manager) {
			own++
		}
		have := m.Update(live, obj, manager)
		updated, err := m.updateWithFallback(live.DeepCopyObject().(codec.Object), want, manager)
		if err != nil {
			// Lists with duplicate items cannot be converted.
			want.SetManagedFields(live.GetManagedFields())
			updated = want
		}
		if diff := cmp.Diff(timeless(updated.(codec.Object)), timeless(have)); diff != "" {
			t.Fatalf("seed %d, step %d: -apimachinery +ours: %s", seed, i, diff)
		}
		live = have
		live.SetUID("x")
	}
	if own < 80 {
		t.Errorf("%d of 240 writes are covered", own)
	}
}

// timeless returns a copy without times. It sorts the entries, because the order of entries from the same
// second is not deterministic.
func timeless(obj codec.Object) codec.Object {
	obj = obj.DeepCopyObject().(codec.Object)
	fields := obj.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	slices.SortFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+a.APIVersion+a.Subresource, b.Manager+b.APIVersion+b.Subresource)
	})
	return obj
}

func changeDeployment(random *rand.Rand, d *appsv1.Deployment) {
	replicas := int32(random.IntN(3))
	switch random.IntN(6) {
	case 0:
		d.Spec.Replicas = &replicas
	case 1:
		d.Status.Replicas = replicas
	case 2:
		d.Labels = map[string]string{fmt.Sprint(replicas): "x"}
	case 3:
		d.Spec.RevisionHistoryLimit = nil
	case 4:
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", random.IntN(9)), Image: "a"})
	default:
		d.Spec.RevisionHistoryLimit = &replicas
	}
}
