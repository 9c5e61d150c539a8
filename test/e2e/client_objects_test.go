package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

var handlingObjects = []clientBehavior{
	{"are created, read, updated and deleted", objectLife},
	{"are encoded as protobuf", objectProtobuf},
	{"work with the dynamic client", objectDynamic},
	{"get generated names", objectGenerateName},
	{"cannot be created twice", objectAlreadyExists},
	{"are not updated from an old revision", objectConflict},
	{"lose no concurrent update", objectCounter},
	{"are deleted with preconditions", objectPreconditions},
	{"exist until their finalizers are removed", objectFinalizers},
	{"are deleted as a collection", objectDeleteCollection},
	{"are not stored by a dry run", objectDryRun},
	{"have separate spec and status updates", objectStatus},
	{"are scaled", objectScale},
	{"have an immutable UID and creation time", objectServerFields},
	{"are not created in a terminating namespace", objectTerminatingNamespace},
	{"have a maximum size", objectSize},
	{"are named in errors", objectErrors},
	{"are consistent after a canceled request", objectTimeout},
	{"can be created by an update if the kind permits it", objectCreateByUpdate},
}

func objectLife(t *testing.T, c *clients) {
	created := c.create(t, "life", "a", "1")
	if created.UID == "" || created.ResourceVersion == "" || created.CreationTimestamp.IsZero() || created.Namespace != c.namespace {
		t.Errorf("the server did not fill in %+v", created.ObjectMeta)
	}
	got := must[*corev1.ConfigMap](t)(c.maps.Get(t.Context(), "life", metav1.GetOptions{}))
	got.Data["b"] = "2"
	updated := must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), got, metav1.UpdateOptions{}))
	if updated.ResourceVersion == created.ResourceVersion || updated.UID != created.UID || updated.Data["a"] != "1" {
		t.Errorf("updated %+v", updated)
	}
	same := must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), updated.DeepCopy(), metav1.UpdateOptions{}))
	if same.ResourceVersion != updated.ResourceVersion {
		t.Error("an update without a change created a new revision")
	}
	if err := c.maps.Delete(t.Context(), "life", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.maps.Get(t.Context(), "life", metav1.GetOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
}

func objectProtobuf(t *testing.T, c *clients) {
	config := *c.config
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	kube := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(&config))
	secrets := kube.CoreV1().Secrets(c.namespace)
	sent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bytes"}, Data: map[string][]byte{"k": {0, 255, 1}}, Type: "example.com/kind"}
	must[*corev1.Secret](t)(secrets.Create(t.Context(), sent, metav1.CreateOptions{}))
	got := must[*corev1.Secret](t)(secrets.Get(t.Context(), "bytes", metav1.GetOptions{}))
	if string(got.Data["k"]) != "\x00\xff\x01" || got.Type != "example.com/kind" {
		t.Errorf("got %v", got)
	}
	list := must[*corev1.SecretList](t)(secrets.List(t.Context(), metav1.ListOptions{}))
	if len(list.Items) != 1 || list.ResourceVersion == "" {
		t.Errorf("got %d items at %q", len(list.Items), list.ResourceVersion)
	}
	w, err := secrets.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := secrets.Delete(t.Context(), "bytes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, w); e.Type != "DELETED" || e.Object.(*corev1.Secret).Name != "bytes" {
		t.Errorf("got %v", e)
	}
}

var deploymentsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

func objectDynamic(t *testing.T, c *clients) {
	deployments := c.dynamic.Resource(deploymentsResource).Namespace(c.namespace)
	sent := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx"}}},
			},
		},
	}}
	created := must[*unstructured.Unstructured](t)(deployments.Create(t.Context(), sent, metav1.CreateOptions{}))
	if replicas, _, _ := unstructured.NestedInt64(created.Object, "spec", "replicas"); replicas != 1 {
		t.Errorf("replicas were defaulted to %d", replicas)
	}
	list := must[*unstructured.UnstructuredList](t)(deployments.List(t.Context(), metav1.ListOptions{}))
	if len(list.Items) != 1 || list.Items[0].GetKind() != "Deployment" || list.GetKind() != "DeploymentList" {
		t.Errorf("got %v", list)
	}
}

func objectGenerateName(t *testing.T, c *clients) {
	names := map[string]bool{}
	for range 20 {
		m := newConfigMap("")
		m.GenerateName = "made-"
		created := must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), m, metav1.CreateOptions{}))
		if !strings.HasPrefix(created.Name, "made-") || len(created.Name) != len("made-xxxxx") || created.GenerateName != "made-" {
			t.Errorf("got name %q of %q", created.Name, created.GenerateName)
		}
		names[created.Name] = true
	}
	if len(names) != 20 {
		t.Errorf("20 objects have %d names", len(names))
	}
}

func objectAlreadyExists(t *testing.T, c *clients) {
	var created atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := c.maps.Create(t.Context(), newConfigMap("once"), metav1.CreateOptions{})
			if err == nil {
				created.Add(1)
			} else {
				wantError(t, err, apierrors.IsAlreadyExists, "AlreadyExists")
			}
		})
	}
	wg.Wait()
	if created.Load() != 1 {
		t.Errorf("%d of 8 creations succeeded", created.Load())
	}
}

func objectConflict(t *testing.T, c *clients) {
	old := c.create(t, "c", "a", "1")
	changed := old.DeepCopy()
	changed.Data["a"] = "2"
	must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), changed, metav1.UpdateOptions{}))
	old.Data["a"] = "3"
	_, err := c.maps.Update(t.Context(), old, metav1.UpdateOptions{})
	wantError(t, err, apierrors.IsConflict, "Conflict")
	old.ResourceVersion = "" // an empty resourceVersion matches any revision
	must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), old, metav1.UpdateOptions{}))
	old.UID = "00000000-0000-0000-0000-000000000000"
	_, err = c.maps.Update(t.Context(), old, metav1.UpdateOptions{})
	wantError(t, err, apierrors.IsConflict, "Conflict for another uid")
}

func objectCounter(t *testing.T, c *clients) {
	c.create(t, "counter", "n", "0")
	const writers, each = 8, 10
	backoff := retry.DefaultBackoff
	backoff.Steps, backoff.Duration = 1000, time.Millisecond
	backoff.Factor, backoff.Jitter = 1, 1
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				err := retry.RetryOnConflict(backoff, func() error {
					m, err := c.maps.Get(t.Context(), "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					var n int
					fmt.Sscan(m.Data["n"], &n)
					m.Data["n"] = fmt.Sprint(n + 1)
					_, err = c.maps.Update(t.Context(), m, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := must[*corev1.ConfigMap](t)(c.maps.Get(t.Context(), "counter", metav1.GetOptions{})); got.Data["n"] != fmt.Sprint(writers*each) {
		t.Errorf("counted to %s, want %d", got.Data["n"], writers*each)
	}
}

func objectPreconditions(t *testing.T, c *clients) {
	m := c.create(t, "p")
	other := m.DeepCopy()
	other.UID = "00000000-0000-0000-0000-000000000000"
	err := c.maps.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(other.UID))})
	wantError(t, err, apierrors.IsConflict, "Conflict for another uid")
	old := "1"
	err = c.maps.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}})
	wantError(t, err, apierrors.IsConflict, "Conflict for another revision")
	err = c.maps.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion}})
	if err != nil {
		t.Error(err)
	}
}

func objectFinalizers(t *testing.T, c *clients) {
	m := newConfigMap("held")
	m.Finalizers = []string{"example.com/one", "example.com/two"}
	must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), m, metav1.CreateOptions{}))
	if err := c.maps.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := must[*corev1.ConfigMap](t)(c.maps.Get(t.Context(), "held", metav1.GetOptions{}))
	if held.DeletionTimestamp == nil {
		t.Fatal("no deletion timestamp")
	}
	held.Finalizers = append(held.Finalizers, "example.com/three")
	_, err := c.maps.Update(t.Context(), held, metav1.UpdateOptions{})
	wantError(t, err, apierrors.IsInvalid, "Invalid for a finalizer that is added late")
	held.Finalizers = []string{"example.com/two"}
	held = must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), held, metav1.UpdateOptions{}))
	held.Finalizers = nil
	must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), held, metav1.UpdateOptions{}))
	_, err = c.maps.Get(t.Context(), "held", metav1.GetOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
}

func objectDeleteCollection(t *testing.T, c *clients) {
	for i := range 12 {
		m := newConfigMap(fmt.Sprintf("m%02d", i))
		m.Labels["odd"] = fmt.Sprint(i%2 == 1)
		must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), m, metav1.CreateOptions{}))
	}
	odd := metav1.ListOptions{LabelSelector: "odd=true"}
	if err := c.maps.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{"All"}}, odd); err != nil {
		t.Fatal(err)
	}
	if err := c.maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, odd); err != nil {
		t.Fatal(err)
	}
	left := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: "app=test"}))
	if len(left.Items) != 6 || left.Items[0].Name != "m00" || left.Items[5].Name != "m10" {
		t.Errorf("%d objects are left", len(left.Items))
	}
}

func objectDryRun(t *testing.T, c *clients) {
	all := []string{metav1.DryRunAll}
	dry := must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), newConfigMap("dry"), metav1.CreateOptions{DryRun: all}))
	if dry.UID == "" || dry.ResourceVersion != "" {
		t.Errorf("a dry run answers with uid %q, resourceVersion %q", dry.UID, dry.ResourceVersion)
	}
	_, err := c.maps.Get(t.Context(), "dry", metav1.GetOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
	m := c.create(t, "real", "a", "1")
	m.Data["a"] = "2"
	must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), m, metav1.UpdateOptions{DryRun: all}))
	if err := c.maps.Delete(t.Context(), "real", metav1.DeleteOptions{DryRun: all}); err != nil {
		t.Fatal(err)
	}
	if got := must[*corev1.ConfigMap](t)(c.maps.Get(t.Context(), "real", metav1.GetOptions{})); got.Data["a"] != "1" {
		t.Errorf("a dry run changed the data to %v", got.Data)
	}
	_, err = c.maps.Create(t.Context(), newConfigMap("dry"), metav1.CreateOptions{DryRun: []string{"Some"}})
	wantError(t, err, apierrors.IsInvalid, "Invalid for an unknown directive")
}

// newDeployment returns a small valid Deployment.
func newDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1"}}},
			},
		},
	}
}

// replicasOf returns spec.replicas, or -1 if the server has not defaulted it.
func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return -1
	}
	return *d.Spec.Replicas
}

func objectStatus(t *testing.T, c *clients) {
	deployments := c.kube.AppsV1().Deployments(c.namespace)
	d := newDeployment("web")
	d.Status.Replicas = 7
	d = must[*appsv1.Deployment](t)(deployments.Create(t.Context(), d, metav1.CreateOptions{}))
	if d.Status.Replicas != 0 || d.Generation != 1 {
		t.Errorf("created with status %+v, generation %d", d.Status, d.Generation)
	}
	five := int32(5)
	d.Spec.Replicas, d.Status.Replicas = &five, 3
	d = must[*appsv1.Deployment](t)(deployments.UpdateStatus(t.Context(), d, metav1.UpdateOptions{}))
	if replicasOf(d) != 1 || d.Status.Replicas != 3 || d.Generation != 1 {
		t.Errorf("a status update left replicas %d, status %d, generation %d", replicasOf(d), d.Status.Replicas, d.Generation)
	}
	d.Spec.Replicas, d.Status.Replicas = &five, 9
	d = must[*appsv1.Deployment](t)(deployments.Update(t.Context(), d, metav1.UpdateOptions{}))
	if replicasOf(d) != 5 || d.Status.Replicas != 3 || d.Generation != 2 {
		t.Errorf("an update left replicas %d, status %d, generation %d", replicasOf(d), d.Status.Replicas, d.Generation)
	}
	d.Labels = map[string]string{"only": "metadata"}
	if d = must[*appsv1.Deployment](t)(deployments.Update(t.Context(), d, metav1.UpdateOptions{})); d.Generation != 2 {
		t.Errorf("a new label changed the generation to %d", d.Generation)
	}
}

func objectScale(t *testing.T, c *clients) {
	deployments := c.kube.AppsV1().Deployments(c.namespace)
	must[*appsv1.Deployment](t)(deployments.Create(t.Context(), newDeployment("web"), metav1.CreateOptions{}))
	scale := must[*autoscalingv1.Scale](t)(deployments.GetScale(t.Context(), "web", metav1.GetOptions{}))
	if scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" || scale.ResourceVersion == "" {
		t.Errorf("got %+v", scale)
	}
	old := scale.ResourceVersion
	scale.Spec.Replicas = 4
	scale = must[*autoscalingv1.Scale](t)(deployments.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{}))
	d := must[*appsv1.Deployment](t)(deployments.Get(t.Context(), "web", metav1.GetOptions{}))
	if replicasOf(d) != 4 || d.Generation != 2 || d.ResourceVersion != scale.ResourceVersion {
		t.Errorf("replicas %d, generation %d, revision %s and %s", replicasOf(d), d.Generation, d.ResourceVersion, scale.ResourceVersion)
	}
	scale.ResourceVersion = old
	_, err := deployments.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{})
	wantError(t, err, apierrors.IsConflict, "Conflict")
}

func objectServerFields(t *testing.T, c *clients) {
	past := metav1.NewTime(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	m := newConfigMap("own")
	m.UID, m.CreationTimestamp, m.SelfLink = "mine", past, "/self"
	created := must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), m, metav1.CreateOptions{}))
	if created.UID == "mine" || created.CreationTimestamp.Equal(&past) || created.SelfLink != "" {
		t.Errorf("created %+v", created.ObjectMeta)
	}
	changed := created.DeepCopy()
	changed.CreationTimestamp = past
	changed = must[*corev1.ConfigMap](t)(c.maps.Update(t.Context(), changed, metav1.UpdateOptions{}))
	if !changed.CreationTimestamp.Equal(&created.CreationTimestamp) {
		t.Errorf("creation time became %s", changed.CreationTimestamp)
	}
	withVersion := newConfigMap("versioned")
	withVersion.ResourceVersion = "5"
	if _, err := c.maps.Create(t.Context(), withVersion, metav1.CreateOptions{}); err == nil {
		t.Error("an object with a resourceVersion was created")
	}
}

func objectTerminatingNamespace(t *testing.T, c *clients) {
	held := newConfigMap("held") // its finalizer keeps the namespace terminating during the test
	held.Finalizers = []string{"example.com/hold"}
	must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), held, metav1.CreateOptions{}))
	if err := c.kube.CoreV1().Namespaces().Delete(t.Context(), c.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns := must[*corev1.Namespace](t)(c.kube.CoreV1().Namespaces().Get(t.Context(), c.namespace, metav1.GetOptions{}))
	if ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
		t.Errorf("phase %s, deleted at %v", ns.Status.Phase, ns.DeletionTimestamp)
	}
	_, err := c.maps.Create(t.Context(), newConfigMap("late"), metav1.CreateOptions{})
	wantError(t, err, func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }, "the cause NamespaceTerminating")
	if _, err := c.maps.Patch(t.Context(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

func objectSize(t *testing.T, c *clients) {
	m := newConfigMap("large", "k", strings.Repeat("x", 1<<20-10))
	must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), m, metav1.CreateOptions{}))
	if got := must[*corev1.ConfigMap](t)(c.maps.Get(t.Context(), "large", metav1.GetOptions{})); len(got.Data["k"]) != 1<<20-10 {
		t.Errorf("received %d bytes", len(got.Data["k"]))
	}
	_, err := c.maps.Create(t.Context(), newConfigMap("largest", "k", strings.Repeat("x", 4<<20)), metav1.CreateOptions{})
	wantError(t, err, apierrors.IsRequestEntityTooLargeError, "RequestEntityTooLarge")
}

func objectErrors(t *testing.T, c *clients) {
	_, err := c.maps.Get(t.Context(), "nope", metav1.GetOptions{})
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || status.ErrStatus.Details.Name != "nope" ||
		status.ErrStatus.Details.Kind != "configmaps" || status.ErrStatus.Code != 404 || status.ErrStatus.Reason != metav1.StatusReasonNotFound {
		t.Errorf("got %#v", err)
	}
	_, err = c.kube.CoreV1().ConfigMaps("nowhere").Create(t.Context(), newConfigMap("c"), metav1.CreateOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound for the namespace")
	_, err = c.maps.Create(t.Context(), newConfigMap("Bad Name"), metav1.CreateOptions{})
	wantError(t, err, apierrors.IsInvalid, "Invalid")
	if errors.As(err, &status) && (len(status.ErrStatus.Details.Causes) != 1 || status.ErrStatus.Details.Causes[0].Field != "metadata.name") {
		t.Errorf("causes %v", status.ErrStatus.Details.Causes)
	}
	_, err = c.dynamic.Resource(schema.GroupVersionResource{Group: "nope.example.com", Version: "v1", Resource: "things"}).List(t.Context(), metav1.ListOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound for an unknown resource")
}

func objectTimeout(t *testing.T, c *clients) {
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		name := fmt.Sprintf("maybe-%d", i)
		_, err := c.maps.Create(ctx, newConfigMap(name), metav1.CreateOptions{})
		cancel()
		if err == nil {
			if _, err := c.maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				t.Errorf("an acknowledged write is missing: %v", err)
			}
		}
	}
	c.create(t, "after")
}

func objectCreateByUpdate(t *testing.T, c *clients) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease"}}
	if _, err := c.kube.CoordinationV1().Leases(c.namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Errorf("create a Lease by update: %v", err)
	}
	_, err := c.maps.Update(t.Context(), newConfigMap("c"), metav1.UpdateOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
}
