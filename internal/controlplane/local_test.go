package controlplane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	inDefault  = types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "c"}
)

// openAccess opens a control plane and returns access to its objects.
func openAccess(t *testing.T) *loopback.Access {
	t.Helper()
	c := newPlane(t, newEnv(t), "/local")
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := c.opened.Load()
	return &loopback.Access{API: i.resources.access.API, Find: i.resources.access.Find, Manager: "tester", User: &request.User{Name: "someone"}}
}

func newConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: inDefault.Namespace, Name: inDefault.Name}, Data: map[string]string{"a": "1"},
	}
}

func TestLocalWrites(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), loopback.For[*corev1.ConfigMap](openAccess(t), configMaps)
	if _, err := client.Get(ctx, inDefault); !apierrors.IsNotFound(err) {
		t.Fatalf("got %v, want a 404", err)
	}
	if _, err := client.Update(ctx, inDefault, func(*corev1.ConfigMap) error { return nil }); !apierrors.IsNotFound(err) {
		t.Fatalf("got %v, want a 404", err)
	}
	created, err := client.Create(ctx, newConfigMap())
	if err != nil || created.UID == "" || created.ResourceVersion == "" {
		t.Fatalf("created %+v, %v", created, err)
	}
	if got := created.ManagedFields; len(got) != 1 || got[0].Manager != "tester" || got[0].Operation != metav1.ManagedFieldsOperationUpdate {
		t.Errorf("managed fields %v", got)
	}
	if _, err := client.Create(ctx, newConfigMap()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v, want AlreadyExists", err)
	}
	same, err := client.Update(ctx, inDefault, func(*corev1.ConfigMap) error { return nil })
	if err != nil || same.ResourceVersion != created.ResourceVersion {
		t.Errorf("an update without a change was written: %v, %v", same, err)
	}
	stop := errors.New("stop")
	if _, err := client.Update(ctx, inDefault, func(*corev1.ConfigMap) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of the change function", err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": inDefault.Namespace, "name": inDefault.Name},
		"data": map[string]any{"a": "2"},
	}}
	if _, err := client.Apply(ctx, applied, false); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict with the field manager of the update", err)
	}
	if got, err := client.Apply(ctx, applied, true); err != nil || got.Data["a"] != "2" || len(got.ManagedFields) == 0 {
		t.Errorf("applied %v, %v", got, err)
	}
	if err := client.Delete(ctx, inDefault, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if got, err := client.Apply(ctx, applied, false); err != nil || got.Data["a"] != "2" {
		t.Errorf("apply does not create: %v, %v", got, err)
	}
}

// TestLocalConcurrentUpdates checks that concurrent updates do not overwrite each other.
func TestLocalConcurrentUpdates(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), loopback.For[*corev1.ConfigMap](openAccess(t), configMaps)
	if _, err := client.Create(ctx, newConfigMap()); err != nil {
		t.Fatal(err)
	}
	const writers = 20
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			_, err := client.Update(ctx, inDefault, func(c *corev1.ConfigMap) error {
				c.Data["a"] += "x"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if got, err := client.Get(ctx, inDefault); err != nil || len(got.Data["a"]) != writers+1 {
		t.Errorf("%d changes: %v, %v", writers, got, err)
	}
}

// TestLocalRules checks that the server's own writes are validated like the writes of clients.
func TestLocalRules(t *testing.T) {
	t.Parallel()
	ctx, access := t.Context(), openAccess(t)
	deployments := loopback.For[*appsv1.Deployment](access, appsv1.SchemeGroupVersion.WithResource("deployments"))
	labels := map[string]string{"app": "a"}
	wanted := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		},
	}
	created, err := deployments.Create(ctx, wanted)
	if err != nil || created.Spec.Replicas == nil || *created.Spec.Replicas != 1 {
		t.Fatalf("without defaults: %+v, %v", created, err)
	}
	name := types.NamespacedName{Namespace: "default", Name: "d"}
	negative := int32(-1)
	if _, err := deployments.Update(ctx, name, func(d *appsv1.Deployment) error { d.Spec.Replicas = &negative; return nil }); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want a 422", err)
	}
	nowhere := newConfigMap()
	nowhere.Namespace = "nowhere"
	if _, err := loopback.For[*corev1.ConfigMap](access, configMaps).Create(ctx, nowhere); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want admission's 404", err)
	}
	scales := loopback.For[*autoscalingv1.Scale](access, appsv1.SchemeGroupVersion.WithResource("deployments")).Subresource("scale")
	scaled, err := scales.Update(ctx, name, func(s *autoscalingv1.Scale) error { s.Spec.Replicas = 3; return nil })
	if err != nil || scaled.Spec.Replicas != 3 {
		t.Errorf("scaled %v, %v", scaled, err)
	}
	if _, err := scales.Get(ctx, name); err != nil {
		t.Error(err)
	}
}

func TestLocalReads(t *testing.T) {
	t.Parallel()
	ctx, access := t.Context(), openAccess(t)
	namespaces := loopback.For[*corev1.Namespace](access, corev1.SchemeGroupVersion.WithResource("namespaces"))
	var names []string
	for namespace, err := range namespaces.List(ctx, "", rest.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, namespace.Name)
	}
	if want := []string{"default", "kube-node-lease", "kube-public", "kube-system"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if _, err := namespaces.Collection(); err != nil {
		t.Error(err)
	}
	wrong := loopback.For[*corev1.Pod](access, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if _, err := wrong.Get(ctx, types.NamespacedName{Name: "default"}); err == nil {
		t.Error("a namespace was read as a pod")
	}
	unknown := loopback.For[*corev1.Pod](access, corev1.SchemeGroupVersion.WithResource("nothings"))
	if _, err := unknown.Get(context.Background(), inDefault); err == nil || err.Error() != "nothings is not served" {
		t.Errorf("got %v", err)
	}
}

// TestLocalWritesComplete checks that a write completes even if its context is canceled meanwhile, and that no
// other write starts afterwards. For example, the context of a controller is canceled when a
// kube-controller-manager starts.
func TestLocalWritesComplete(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	client := loopback.For[*corev1.ConfigMap](openAccess(t), configMaps)
	if _, err := client.Create(ctx, newConfigMap()); err != nil {
		t.Fatal(err)
	}
	written, err := client.Update(ctx, inDefault, func(c *corev1.ConfigMap) error {
		stop()
		c.Data["a"] = "2"
		return nil
	})
	if err != nil || written.Data["a"] != "2" {
		t.Errorf("the interrupted write: %v, %v", written, err)
	}
	remove, err := client.NewDeleter(ctx, inDefault.Namespace, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": inDefault.Namespace, "name": inDefault.Name}}}
	for name, write := range map[string]func() error{
		"create": func() error { _, err := client.Create(ctx, newConfigMap()); return err },
		"update": func() error {
			_, err := client.Update(ctx, inDefault, func(*corev1.ConfigMap) error { return nil })
			return err
		},
		"apply":       func() error { _, err := client.Apply(ctx, applied, true); return err },
		"delete":      func() error { return client.Delete(ctx, inDefault, metav1.DeleteOptions{}) },
		"delete some": func() error { _, err := remove(inDefault); return err },
	} {
		if err := write(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a canceled context: %v", name, err)
		}
	}
	if got, err := client.Get(t.Context(), inDefault); err != nil || got.Data["a"] != "2" {
		t.Errorf("stored %v, %v", got, err)
	}
}
