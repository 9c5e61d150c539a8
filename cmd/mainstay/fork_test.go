package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/apis/history"
)

// fork creates a fork of the root control plane and returns its client configuration.
func (h *historyTest) fork(name string) (*kubernetes.Clientset, *rest.Config) {
	h.Helper()
	file := filepath.Join(h.TempDir(), name+".kubeconfig")
	h.expect(h.run(0, "fork", "root", name, "--output", file), name+" is a copy of root at revision ")
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		h.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		h.Fatal(err)
	}
	return client, config
}

// TestForkCarryOver changes a fork and its source, and then applies the changes of the fork to the source.
func TestForkCarryOver(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	for _, name := range []string{"both", "merged", "kept"} {
		h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": "1", "y": "1", "gone": "1"}})
	}
	client, config := h.fork("try")
	h.expect(h.run(0, "diff", "control-plane/try"), "try since it was forked from root: 0 created, 0 changed, 0 deleted")
	maps := client.CoreV1().ConfigMaps("shop")
	set := func(name string, data map[string]string) {
		t.Helper()
		m, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			m.Data = data
			_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{FieldManager: "jane"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set("a", map[string]string{"x": "fork"})
	set("both", map[string]string{"x": "fork", "y": "1", "gone": "1"})
	set("merged", map[string]string{"x": "fork", "y": "1"})
	if err := maps.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Create a definition with an object, and an object with an owner, in a new namespace.
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
	createDefinition(t, dynamicClient, definition)
	widgets := dynamicClient.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("new")
	widget, err := widgets.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("new").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "dependent", OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "w", UID: widget.GetUID()}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	h.patch("both", `{"data":{"x":"root"}}`)
	h.patch("merged", `{"data":{"y":"root"}}`)
	h.expect(h.run(0, "diff", "control-plane/root", "control-plane/try", "-n", "shop"), "+  x: fork", "-  gone: \"1\"", "0 created, 3 changed, 1 deleted")
	h.expect(h.run(1, "apply-diff", "try", "--dry-run=server"), "namespaces/new created (dry run)", "widgets.example.com/w -n new not validated")
	if _, err := h.admin.CoreV1().Namespaces().Get(t.Context(), "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the dry run created the namespace: %v", err)
	}
	h.expect(h.run(1, "apply-diff", "try", "--yes"), "conflict: configmaps/both -n shop: changed in both: data.x")
	for name, want := range map[string]map[string]string{"a": {"x": "fork"}, "both": {"x": "root", "y": "1", "gone": "1"}, "merged": {"x": "fork", "y": "root"}} {
		if diff := cmp.Diff(want, h.get(name).Data); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if h.get("kept") != nil {
		t.Error("the deletion was not carried over")
	}
	for _, m := range h.get("a").ManagedFields {
		if m.Manager == "mainstay-apply-diff" {
			t.Errorf("the command owns fields: %s", m.FieldsV1)
		}
	}
	dependent, err := h.admin.CoreV1().ConfigMaps("new").Get(t.Context(), "dependent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rootClient, err := dynamic.NewForConfig(h.server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	owner, err := rootClient.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("new").Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil || dependent.OwnerReferences[0].UID != owner.GetUID() || owner.GetUID() == widget.GetUID() {
		t.Errorf("the owner is %s, and the object belongs to %+v, %v", owner.GetUID(), dependent.OwnerReferences, err)
	}
	h.expect(h.run(1, "apply-diff", "try", "--yes"), "1 of 1 objects were not written")
	set("both", map[string]string{"x": "root", "y": "1", "gone": "1"})
	h.expect(h.run(0, "apply-diff", "try", "--yes"), "root has all changes of try")
}

// TestServiceAddresses applies the creation of a service to the source of a fork, and undoes its deletion. The server
// creates the IPAddress of the service both times.
func TestServiceAddresses(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	client, _ := h.fork("try")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	created, err := client.CoreV1().Services("shop").Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	services := h.admin.CoreV1().Services("shop")
	expect := func() *corev1.Service {
		t.Helper()
		got, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || got.Spec.ClusterIP != created.Spec.ClusterIP {
			t.Fatalf("the service is %+v, %v, want the address %s", got, err, created.Spec.ClusterIP)
		}
		address, err := h.admin.NetworkingV1().IPAddresses().Get(t.Context(), got.Spec.ClusterIP, metav1.GetOptions{})
		if err != nil || address.Spec.ParentRef.Name != "web" {
			t.Errorf("the address of the service is %+v, %v", address, err)
		}
		return got
	}
	h.expect(h.run(0, "apply-diff", "try", "--yes"), "services/web -n shop created")
	before := expect()
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.expect(h.run(0, "undo", "-A", "--since=rv/"+before.ResourceVersion, "--yes"), "services/web -n shop created again")
	if restored := expect(); restored.UID != before.UID {
		t.Errorf("the UID is %s, want %s", restored.UID, before.UID)
	}
}

// TestForkOwners applies changes of objects whose owners have other UIDs in the target than in the fork. With
// the UIDs of the fork, the garbage collector of the target would delete the objects.
func TestForkOwners(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	updated := h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "updated"}})
	client, _ := h.fork("try")
	maps := client.CoreV1().ConfigMaps("shop")
	ownedBy := func(m *corev1.ConfigMap) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID}}
	}
	create := func(name string, data map[string]string, owners []metav1.OwnerReference) *corev1.ConfigMap {
		t.Helper()
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}, Data: data}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	same, different, only := create("same", nil, nil), create("different", map[string]string{"x": "fork"}, nil), create("only", nil, nil)
	create("of-same", nil, ownedBy(same))
	create("of-different", nil, ownedBy(different))
	updated.OwnerReferences = ownedBy(only)
	if _, err := maps.Update(t.Context(), updated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "same"}})
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "different"}, Data: map[string]string{"x": "root"}})
	h.expect(h.run(1, "apply-diff", "try", "--yes"), "conflict: configmaps/different -n shop: it was created in both", "1 of 5 objects were not written")

	// Another client creates an owner after the plan was made and before its writes.
	target, err := newAPIClient(strings.TrimPrefix(h.kubeconfig, "--kubeconfig="))
	if err != nil {
		t.Fatal(err)
	}
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	late := create("late", nil, nil)
	var out strings.Builder
	w := planWriter{target: target, out: &out}
	plan := &writePlan{}
	for _, m := range []*corev1.ConfigMap{late, create("of-late", nil, ownedBy(late))} {
		m.APIVersion, m.Kind = "v1", "ConfigMap"
		state, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
		if err != nil {
			t.Fatal(err)
		}
		c := &history.Change{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Object: history.ObjectReference{Resource: "configmaps", Name: m.Name, UID: m.UID}}
		plan.steps = append(plan.steps, &writeStep{change: c, want: state})
	}
	if failed := w.apply(t.Context(), plan); failed != 0 {
		t.Fatalf("%d writes failed: %s", failed, out.String())
	}

	for dependent, owner := range map[string]string{"of-same": "same", "of-different": "different", "updated": "only", "of-late": "late"} {
		if d, o := h.get(dependent), h.get(owner); d == nil || o == nil || len(d.OwnerReferences) != 1 || d.OwnerReferences[0].UID != o.UID {
			t.Errorf("%s: the object is %+v, and its owner %+v", dependent, d, o)
		}
	}
}

// TestLargeNumbers checks that undo and apply-diff preserve 64-bit integers that a float64 cannot represent.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gauges.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gauges", Kind: "Gauge"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
	const large = int64(9007199254740993)
	gauges := func(config *rest.Config) dynamic.ResourceInterface {
		t.Helper()
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gauges"}).Namespace("shop")
	}
	create := func(in dynamic.ResourceInterface, name string) *unstructured.Unstructured {
		t.Helper()
		created, err := in.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": map[string]any{"name": name}, "value": large,
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	admin, err := dynamic.NewForConfig(h.server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	createDefinition(t, admin, definition)
	root := gauges(h.server.RESTConfig())
	before := create(root, "changed")
	if _, err := root.Patch(t.Context(), "changed", types.MergePatchType, []byte(`{"value":9007199254740992}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.expect(h.run(0, "undo", "-n", "shop", "--since=rv/"+before.GetResourceVersion(), "--yes"), "+value: 9007199254740993\n", "gauges.example.com/changed -n shop restored")
	_, config := h.fork("try")
	create(gauges(config), "new")
	h.expect(h.run(0, "apply-diff", "try", "--yes"), "gauges.example.com/new -n shop created")
	for _, name := range []string{"changed", "new"} {
		got, err := root.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || got.Object["value"] != large {
			t.Errorf("%s: %v, %v, want the value %d", name, got, err, large)
		}
	}
}

func createDefinition(t *testing.T, client dynamic.Interface, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	definition.APIVersion, definition.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	text, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Create(t.Context(), &object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestForkUsage checks the errors for invalid arguments, and the permissions of the kubeconfig file.
func TestForkUsage(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	h.fork("try")
	// A kubeconfig of an administrator must not keep the permissions of a file that other users can read.
	file := filepath.Join(t.TempDir(), "readable.kubeconfig")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.run(0, "fork", "root", "private", "--output", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
	spaced := filepath.Join(t.TempDir(), "a b")
	h.expect(h.run(0, "fork", "root", "spaced", "--output", spaced), "kubectl --kubeconfig='"+spaced+"' get namespaces")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"fork", "root"}, 2, "fork requires SOURCE and NAME"},
		{[]string{"fork", "root", strings.TrimSuffix(file, ".kubeconfig")}, 2, "readable.kubeconfig: the file already exists"},
		{[]string{"fork", "root", "x", "--at=soon"}, 2, "--at is \"soon\""},
		{[]string{"fork", "none", "x"}, 1, "there is no control plane \"none\""},
		{[]string{"fork", "root", "try"}, 1, "already exists"},
		{[]string{"fork", "root", "y", "--at=2020-01-01T00:00:00Z"}, 1, "spec.from"},
		{[]string{"fork", "root", "z", "--at=rv/999999999"}, 1, "in the future"},
		{[]string{"fork", "root", "unwritten", "--output", t.TempDir()}, 1, "it is a directory; delete the copy with \"kubectl delete controlplane unwritten\""},
		{[]string{"diff", "control-plane/none"}, 1, "not found"},
		{[]string{"diff", "control-plane/x"}, 1, "not found"}, // the failed fork was deleted
		{[]string{"fork", "root", "x", "--at=rv/1000000000"}, 1, "in the future"},
		{[]string{"diff", "control-plane/other", "control-plane/try"}, 1, "not found"},
		{[]string{"diff", "control-plane/try", "control-plane/none"}, 1, "not found"},
		{[]string{"diff", "control-plane/root"}, 1, "not found"},
		{[]string{"apply-diff", "try", "--dry-run=client"}, 2, "--dry-run"},
		{[]string{"apply-diff", "try", "none"}, 1, "\"none\" not found"},
		{[]string{"apply-diff", "try", "root?"}, 1, "\"root?\" not found"},
		{[]string{"apply-diff", "try", "try/api"}, 1, "controlplanes/try%2Fapi"},
		{[]string{"diff", "control-plane/root#", "control-plane/try"}, 1, "\"root#\" not found"},
		{[]string{"diff", "control-plane/a b%"}, 1, "Name parameter invalid: \"a b%\""},
	} {
		h.expect(h.run(tt.code, tt.args...), tt.want)
	}
	// A fork has neither control planes nor a history.
	for command, want := range map[string]string{
		"diff control-plane/try": "404 Not Found: this API has no control planes", "fork root other": "this API has no control planes", "history": "404 Not Found: the server has no history for this API",
	} {
		if _, text := output(t, exitFailure, append(strings.Fields(command), "--kubeconfig="+file)...); !strings.Contains(text, want) {
			t.Errorf("%s with the kubeconfig of a fork: %s", command, text)
		}
	}
}

// TestCompareControlPlanes compares the current objects of control planes that are not forks of each other.
func TestCompareControlPlanes(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	first, _ := h.fork("first")
	second, _ := h.fork("second")
	same := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "same"}, Data: map[string]string{"x": "1"}}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}
	for i, client := range []*kubernetes.Clientset{first, second} {
		owner, err := client.CoreV1().ConfigMaps("shop").Create(t.Context(), same, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "same", UID: owner.UID}}
		different := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "different"}, Data: map[string]string{"x": []string{"one", "two"}[i]}}
		only := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: []string{"only-first", "only-second"}[i]}}
		for _, m := range []*corev1.ConfigMap{owned, different, only} {
			if _, err := client.CoreV1().ConfigMaps("shop").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := second.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	printed := h.run(0, "diff", "control-plane/first", "control-plane/second")
	h.expect(printed, "second compared with first: 2 created, 1 changed, 1 deleted", "-  x: one", "+  x: two", "+++ b/shop/configmaps/only-second", "--- a/shop/configmaps/only-first", "+++ b/namespaces/new")
	h.expect(h.run(0, "diff", "control-plane/first", "control-plane/second", "-n", "new"), "1 created, 0 changed, 0 deleted")
	h.expect(h.run(0, "diff", "control-plane/root", "control-plane/second"), "second since it was forked from root: 5 created, 0 changed, 0 deleted")
	h.expect(h.run(0, "diff", "control-plane/second", "control-plane/root"), "root compared with second: 0 created, 0 changed, 5 deleted")
}

// TestForkDuringRestart checks that the command waits for a server that restarts after it has created the control
// plane.
func TestForkDuringRestart(t *testing.T) {
	t.Parallel()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests++; {
		case strings.Contains(r.URL.Path, "/secrets/"):
			_, _ = io.WriteString(w, `{"data":{"kubeconfig":"eA=="}}`)
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"metadata":{"name":"a","uid":"u"}}`)
		case requests == 2:
			panic(http.ErrAbortHandler)
		case requests == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, `{"status":{"conditions":[{"type":"Ready","status":"True"}],"kubeconfigSecretRef":{"namespace":"n","name":"s"}}}`)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	runCommand(t, 0, "a is a copy of root", "fork", "root", "a", "--kubeconfig="+writeTestKubeconfig(t, server.URL), "--output="+file)
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("the kubeconfig contains %q, %v", text, err)
	}
}
