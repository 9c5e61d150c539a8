package e2e

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1apply "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
)

var patchingObjects = []clientBehavior{
	{"merge patches", patchMerge},
	{"strategic merge patches", patchStrategic},
	{"JSON patches", patchJSON},
	{"apply typed configurations", applyTyped},
	{"apply from two managers to one list", applySharedList},
	{"apply extracted configurations", applyExtracted},
	{"apply to status changes only the status", applyStatus},
	{"conflicts name the managers", applyConflicts},
	{"patches with a resourceVersion", patchRevision},
}

func patchMerge(t *testing.T, c *clients) {
	c.create(t, "m", "a", "1", "b", "2")
	got := must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "m", types.MergePatchType,
		[]byte(`{"data":{"a":null,"c":"3"},"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}))
	if len(got.Data) != 2 || got.Data["b"] != "2" || got.Data["c"] != "3" || got.Labels["x"] != "y" || got.Labels["app"] != "test" {
		t.Errorf("got %v, labels %v", got.Data, got.Labels)
	}
	same := must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "m", types.MergePatchType, []byte(`{"data":{"c":"3"}}`), metav1.PatchOptions{}))
	if same.ResourceVersion != got.ResourceVersion {
		t.Error("a patch without a change created a new revision")
	}
	_, err := c.maps.Patch(t.Context(), "nope", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
	_, err = c.maps.Patch(t.Context(), "m", types.MergePatchType, []byte(`{"data":`), metav1.PatchOptions{})
	wantError(t, err, apierrors.IsBadRequest, "BadRequest")
}

func patchStrategic(t *testing.T, c *clients) {
	deployments := c.kube.AppsV1().Deployments(c.namespace)
	must[*appsv1.Deployment](t)(deployments.Create(t.Context(), newDeployment("web"), metav1.CreateOptions{}))
	got := must[*appsv1.Deployment](t)(deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(
		`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"},{"name":"c","env":[{"name":"A","value":"b"}]}]}}}}`), metav1.PatchOptions{}))
	containers := got.Spec.Template.Spec.Containers
	if len(containers) != 2 || containers[0].Name != "side" || containers[1].Image != "nginx:1" || len(containers[1].Env) != 1 {
		t.Errorf("got %v", containers)
	}
	got = must[*appsv1.Deployment](t)(deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(
		`{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}`), metav1.PatchOptions{}))
	if containers := got.Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Name != "c" {
		t.Errorf("got %v", containers)
	}
}

func patchJSON(t *testing.T, c *clients) {
	c.create(t, "j", "a", "1")
	got := must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "j", types.JSONPatchType, []byte(
		`[{"op":"test","path":"/data/a","value":"1"},{"op":"copy","from":"/data/a","path":"/data/b"},{"op":"move","from":"/data/a","path":"/data/c"},{"op":"add","path":"/metadata/labels/x~1y","value":"z"}]`),
		metav1.PatchOptions{}))
	if len(got.Data) != 2 || got.Data["b"] != "1" || got.Data["c"] != "1" || got.Labels["x/y"] != "z" {
		t.Errorf("got %v, labels %v", got.Data, got.Labels)
	}
	_, err := c.maps.Patch(t.Context(), "j", types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/nope"}]`), metav1.PatchOptions{})
	wantError(t, err, apierrors.IsInvalid, "Invalid for a path that is not there")
}

// byManager returns the options for a typed apply by the given field manager.
func byManager(name string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: name} }

func applyTyped(t *testing.T, c *clients) {
	deployments := c.kube.AppsV1().Deployments(c.namespace)
	labels := map[string]string{"app": "web"}
	want := func(image string) *appsv1apply.DeploymentApplyConfiguration {
		return appsv1apply.Deployment("web", c.namespace).WithLabels(labels).WithSpec(appsv1apply.DeploymentSpec().
			WithSelector(metav1apply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1apply.PodTemplateSpec().WithLabels(labels).WithSpec(corev1apply.PodSpec().
				WithContainers(corev1apply.Container().WithName("c").WithImage(image)))))
	}
	first := must[*appsv1.Deployment](t)(deployments.Apply(t.Context(), want("nginx:1"), byManager("ctl")))
	again := must[*appsv1.Deployment](t)(deployments.Apply(t.Context(), want("nginx:1"), byManager("ctl")))
	if first.ResourceVersion != again.ResourceVersion {
		t.Error("a repeated apply created a new revision")
	}
	changed := must[*appsv1.Deployment](t)(deployments.Apply(t.Context(), want("nginx:2"), byManager("ctl")))
	if changed.Generation != 2 || changed.Spec.Template.Spec.Containers[0].Image != "nginx:2" || len(changed.ManagedFields) != 1 {
		t.Errorf("generation %d, %v, %d managers", changed.Generation, changed.Spec.Template.Spec.Containers, len(changed.ManagedFields))
	}
	_, err := deployments.Apply(t.Context(), want("nginx:1"), metav1.ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "fieldManager") {
		t.Errorf("apply without a manager: %v", err)
	}
}

func applySharedList(t *testing.T, c *clients) {
	services := c.kube.CoreV1().Services(c.namespace)
	port := func(name string, number int32) *corev1apply.ServiceApplyConfiguration {
		return corev1apply.Service("s", c.namespace).WithSpec(corev1apply.ServiceSpec().WithPorts(
			corev1apply.ServicePort().WithName(name).WithPort(number).WithProtocol(corev1.ProtocolTCP)))
	}
	must[*corev1.Service](t)(services.Apply(t.Context(), port("http", 80), byManager("one")))
	both := must[*corev1.Service](t)(services.Apply(t.Context(), port("https", 443), byManager("two")))
	if len(both.Spec.Ports) != 2 || both.Spec.Ports[0].Name != "http" || both.Spec.Ports[1].Name != "https" {
		t.Errorf("got ports %v", both.Spec.Ports)
	}
	left := must[*corev1.Service](t)(services.Apply(t.Context(), port("web", 8080), byManager("one")))
	if len(left.Spec.Ports) != 2 {
		t.Errorf("got ports %v", left.Spec.Ports)
	}
}

func applyExtracted(t *testing.T, c *clients) {
	mine := corev1apply.ConfigMap("x", c.namespace).WithData(map[string]string{"a": "1"})
	must[*corev1.ConfigMap](t)(c.maps.Apply(t.Context(), mine, byManager("me")))
	m := must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"data":{"b":"2"}}`), metav1.PatchOptions{}))
	extracted := must[*corev1apply.ConfigMapApplyConfiguration](t)(corev1apply.ExtractConfigMap(m, "me"))
	if len(extracted.Data) != 1 || extracted.Data["a"] != "1" {
		t.Errorf("extracted %v", extracted.Data)
	}
	got := must[*corev1.ConfigMap](t)(c.maps.Apply(t.Context(), extracted.WithData(map[string]string{"c": "3"}), byManager("me")))
	if len(got.Data) != 3 {
		t.Errorf("got %v", got.Data)
	}
}

func applyStatus(t *testing.T, c *clients) {
	deployments := c.kube.AppsV1().Deployments(c.namespace)
	must[*appsv1.Deployment](t)(deployments.Create(t.Context(), newDeployment("web"), metav1.CreateOptions{}))
	status := appsv1apply.Deployment("web", c.namespace).
		WithSpec(appsv1apply.DeploymentSpec().WithReplicas(9)).
		WithStatus(appsv1apply.DeploymentStatus().WithReplicas(2).WithObservedGeneration(1))
	got := must[*appsv1.Deployment](t)(deployments.ApplyStatus(t.Context(), status, byManager("ctl")))
	if replicasOf(got) != 1 || got.Status.Replicas != 2 {
		t.Errorf("replicas %d, status %d", replicasOf(got), got.Status.Replicas)
	}
	for _, entry := range got.ManagedFields {
		if entry.Manager == "ctl" && (entry.Subresource != "status" || strings.Contains(string(entry.FieldsV1.Raw), "f:spec")) {
			t.Errorf("manager of the status: %s %s", entry.Subresource, entry.FieldsV1.Raw)
		}
	}
}

func applyConflicts(t *testing.T, c *clients) {
	config := func(value string) *corev1apply.ConfigMapApplyConfiguration {
		return corev1apply.ConfigMap("x", c.namespace).WithData(map[string]string{"a": value})
	}
	must[*corev1.ConfigMap](t)(c.maps.Apply(t.Context(), config("1"), byManager("one")))
	_, err := c.maps.Apply(t.Context(), config("2"), byManager("two"))
	wantError(t, err, apierrors.IsConflict, "Conflict")
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	if !found || cause.Field != ".data.a" || !strings.Contains(cause.Message, `conflict with "one"`) {
		t.Errorf("cause %+v", cause)
	}
	got := must[*corev1.ConfigMap](t)(c.maps.Apply(t.Context(), config("2"), metav1.ApplyOptions{FieldManager: "two", Force: true}))
	if got.Data["a"] != "2" {
		t.Errorf("got %v", got.Data)
	}
	// If two managers apply the same value, both own the field and there is no conflict.
	must[*corev1.ConfigMap](t)(c.maps.Apply(t.Context(), config("2"), byManager("one")))
}

func patchRevision(t *testing.T, c *clients) {
	m := c.create(t, "r", "a", "1")
	patch := []byte(`{"metadata":{"resourceVersion":"` + m.ResourceVersion + `"},"data":{"a":"2"}}`)
	must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "r", types.MergePatchType, patch, metav1.PatchOptions{}))
	_, err := c.maps.Patch(t.Context(), "r", types.MergePatchType, []byte(strings.Replace(string(patch), `"2"`, `"3"`, 1)), metav1.PatchOptions{})
	wantError(t, err, apierrors.IsConflict, "Conflict")
}
