package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// as returns a client for another user who has all permissions.
func (h *historyTest) as(user string) *kubernetes.Clientset {
	h.Helper()
	config := h.server.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		h.Fatal(err)
	}
	return client
}

// TestUndoDeployment undoes some of the three changes that two users made to a Deployment.
func TestUndoDeployment(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	labels := map[string]string{"app": "web"}
	created, err := h.admin.AppsV1().Deployments("shop").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(user, patch string, subresources ...string) *appsv1.Deployment {
		t.Helper()
		d, err := h.as(user).AppsV1().Deployments("shop").Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	patch("jane", `{"spec":{"replicas":5}}`)
	patch("joe", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"web:2"}]}}}}`)
	before := patch("jane", `{"spec":{"paused":true}}`)
	// Joe's change is between Jane's changes.
	h.expect(h.run(1, "undo", "-n", "shop", "--since=rv/"+created.ResourceVersion, "--user=jane", "--yes"), "conflict: ", "joe", "1 of 1 objects were not written")
	h.expect(h.run(0, "undo", "-n", "shop", "--since=rv/"+before.ResourceVersion, "--user=jane", "--yes"), "nothing to undo")

	// The status is restored only with --status.
	patch("controller", `{"status":{"observedGeneration":4,"replicas":5}}`, "status")
	h.expect(h.run(0, "undo", "deploy/web", "-n", "shop", "--to=rv/"+created.ResourceVersion, "--yes"), "deployments.apps/web -n shop restored")
	got, err := h.admin.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || *got.Spec.Replicas != 1 || got.Spec.Paused || got.Spec.Template.Spec.Containers[0].Image != "web:1" || got.UID != created.UID {
		t.Errorf("restored: %+v, %v", got.Spec, err)
	}
	for _, m := range got.ManagedFields {
		if m.Manager == "mainstay-undo" {
			t.Errorf("the command owns fields: %s", m.FieldsV1)
		}
	}
	if got.Status.Replicas != 5 {
		t.Errorf("the status has changed: %+v", got.Status)
	}
	h.run(0, "undo", "deploy/web", "-n", "shop", "--to=rv/"+created.ResourceVersion, "--yes", "--status")
	got, err = h.admin.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || got.Status.Replicas != 0 {
		t.Errorf("the status is not restored: %+v, %v", got.Status, err)
	}
}

// TestConfirmation checks which answers confirm a write, and that a signal stops the command while it waits for
// an answer.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"y\n": true, " YES \nn\n": true, "n\n": false, "\n": false, "": false, "y": true} {
		if ok, err := readConfirmation(t.Context(), strings.NewReader(text)); ok != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", text, ok, err, want)
		}
	}
	silent, typing := io.Pipe()
	defer typing.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := readConfirmation(ctx, silent); ok || !errors.Is(err, errNotConfirmed) {
		t.Errorf("after a signal: %v, %v", ok, err)
	}
}

// TestUndoDefinition restores a deleted definition together with its objects.
func TestUndoDefinition(t *testing.T) {
	t.Parallel()
	objects := 1000
	if testing.Short() {
		objects = 50
	}
	h := newHistoryTest(t)
	client := h.admin.RESTClient()
	const definitions, toys = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/shop.example.com/v1/namespaces/shop/toys"
	definition := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"toys.shop.example.com"},"spec":{"group":"shop.example.com","scope":"Namespaced",
		"names":{"plural":"toys","kind":"Toy"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	if err := client.Post().AbsPath(definitions).Body([]byte(definition)).SetHeader("Content-Type", "application/json").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	var list metav1.PartialObjectMetadataList
	for n := range objects {
		testserver.Eventually(t, time.Minute, func() error { // retried until the definition is established
			object := fmt.Appendf(nil, `{"apiVersion":"shop.example.com/v1","kind":"Toy","metadata":{"name":"toy-%d"},"spec":{"n":%d}}`, n, n)
			err := client.Post().AbsPath(toys).Body(object).SetHeader("Content-Type", "application/json").Do(t.Context()).Error()
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	if err := client.Get().AbsPath(toys).Do(t.Context()).Into(&list); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for i := range list.Items {
		uids[list.Items[i].Name] = list.Items[i].UID
	}
	at := "rv/" + list.ResourceVersion
	if err := client.Delete().AbsPath(definitions, "toys.shop.example.com").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error {
		err := client.Get().AbsPath(definitions, "toys.shop.example.com").Do(t.Context()).Error()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errExists
	})
	out := h.run(0, "undo", "-A", "--since="+at, "--yes")
	if n := strings.Count(out, "created again"); n != objects+1 {
		t.Errorf("%d objects were created again, want %d", n, objects+1)
	}
	list = metav1.PartialObjectMetadataList{}
	if err := client.Get().AbsPath(toys).Do(t.Context()).Into(&list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if uid := uids[list.Items[i].Name]; uid != list.Items[i].UID {
			t.Errorf("%s has the UID %s, want %s", list.Items[i].Name, list.Items[i].UID, uid)
		}
	}
	if len(list.Items) != objects {
		t.Errorf("%d objects, want %d", len(list.Items), objects)
	}
}
