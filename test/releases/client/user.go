package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

const namespace = "default"

// user sends requests like typical users of client-go.
type user struct {
	ctx     context.Context
	client  kubernetes.Interface
	generic dynamic.Interface
}

// discover checks that the client libraries contain all kinds that the server serves.
func (u *user) discover() error {
	_, lists, err := u.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		if gv.Group == "apiextensions.k8s.io" || gv.Group == "apiregistration.k8s.io" || strings.HasSuffix("."+gv.Group, ".mainstay.dev") {
			continue // client-go does not have these groups
		}
		for _, r := range list.APIResources {
			gvk := gv.WithKind(r.Kind)
			if r.Version != "" {
				gvk = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
			}
			if !scheme.Scheme.Recognizes(gvk) {
				return fmt.Errorf("%s of %s has the unknown kind %s", r.Name, gv, gvk)
			}
		}
	}
	return nil
}

func newPodSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
}

// writeObjects creates, reads, updates, lists and deletes objects.
func (u *user) writeObjects() error {
	labels := map[string]string{"app": "a"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPodSpec()},
		},
	}
	deployments := u.client.AppsV1().Deployments(namespace)
	created, err := deployments.Create(u.ctx, deployment, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return err
	}
	if created.Spec.Replicas == nil || *created.Spec.Replicas != 1 {
		return fmt.Errorf("the default of replicas is not set: %v", created.Spec.Replicas)
	}
	*created.Spec.Replicas = 3
	if _, err := deployments.Update(u.ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	list, err := deployments.List(u.ctx, metav1.ListOptions{FieldSelector: "metadata.name=a", Limit: 10})
	if err != nil || len(list.Items) != 1 || *list.Items[0].Spec.Replicas != 3 {
		return fmt.Errorf("list deployments: %+v, %w", list, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: newPodSpec()}
	if _, err := u.client.CoreV1().Pods(namespace).Create(u.ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := u.client.CoreV1().Pods(namespace).Delete(u.ctx, "a", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return deployments.Delete(u.ctx, "a", metav1.DeleteOptions{})
}

// patch applies and patches ConfigMaps.
func (u *user) patch() error {
	maps := u.client.CoreV1().ConfigMaps(namespace)
	applied := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"})
	if _, err := maps.Apply(u.ctx, applied, metav1.ApplyOptions{FieldManager: "first"}); err != nil {
		return err
	}
	_, err := maps.Apply(u.ctx, applied.WithData(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "second"})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("apply by another manager: error %v, want a conflict", err)
	}
	patched, err := maps.Patch(u.ctx, "applied", types.StrategicMergePatchType, []byte(`{"data":{"b":"3"}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if patched.Data["a"] != "1" || patched.Data["b"] != "3" {
		return fmt.Errorf("the patched data are %v", patched.Data)
	}
	return nil
}

// inform checks that an informer reports the creation, update and deletion of an object.
func (u *user) inform() error {
	ctx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	events := make(chan string, 10)
	report := func(event string, obj any) {
		if m, ok := obj.(*corev1.ConfigMap); ok && m.Name == "informed" {
			events <- event + m.Data["a"]
		}
	}
	factory := informers.NewSharedInformerFactory(u.client, 0)
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { report("add", obj) },
		UpdateFunc: func(_, obj any) { report("update", obj) },
		DeleteFunc: func(obj any) { report("delete", obj) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	maps := u.client.CoreV1().ConfigMaps(namespace)
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "informed"}, Data: map[string]string{"a": "1"}}
	for _, step := range []struct {
		event string
		write func() error
	}{
		{"add1", func() error { _, err := maps.Create(ctx, obj, metav1.CreateOptions{}); return err }},
		{"update2", func() error { obj.Data["a"] = "2"; _, err := maps.Update(ctx, obj, metav1.UpdateOptions{}); return err }},
		{"delete2", func() error { return maps.Delete(ctx, obj.Name, metav1.DeleteOptions{}) }},
	} {
		if err := step.write(); err != nil {
			return err
		}
		select {
		case event := <-events:
			if event != step.event {
				return fmt.Errorf("the informer reports %s, want %s", event, step.event)
			}
		case <-ctx.Done():
			return fmt.Errorf("the informer does not report %s: %w", step.event, ctx.Err())
		}
	}
	return nil
}

// sendNewerField checks that the server treats a field as unknown if the field is newer than the client
// libraries.
func (u *user) sendNewerField() error {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "newer"},
		"spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "image": "i"}},
			"volumes":    []any{map[string]any{"name": "v", "emptyDir": map[string]any{"mode": int64(7)}}}, // added in 1.37
		},
	}}
	pods := u.generic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	_, err := pods.Create(u.ctx, pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.volumes[0].emptyDir.mode"`) {
		return fmt.Errorf("create with strict validation: error %v, want an unknown field", err)
	}
	created, err := pods.Create(u.ctx, pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore})
	if err != nil {
		return err
	}
	volumes, _, _ := unstructured.NestedSlice(created.Object, "spec", "volumes")
	if len(volumes) == 0 || fmt.Sprint(volumes[0]) != "map[emptyDir:map[] name:v]" {
		return fmt.Errorf("the unknown field was not dropped: %v", volumes)
	}
	return nil
}
