package apitest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/apitest"
	"mainstay.dev/mainstay/internal/feature/tsv"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// addedResources returns, keyed by the minor version that added them, resources that are served by default.
func addedResources() map[int][]string {
	return map[int][]string{
		33: {"networking.k8s.io/v1 servicecidrs"},
		34: {"resource.k8s.io/v1 resourceclaims", "storage.k8s.io/v1 volumeattributesclasses"},
		36: {"admissionregistration.k8s.io/v1 mutatingadmissionpolicies"},
		37: {"certificates.k8s.io/v1 clustertrustbundles", "certificates.k8s.io/v1 podcertificaterequests", "storagemigration.k8s.io/v1 storageversionmigrations"},
	}
}

// TestKubernetesVersions checks which version and resources a server reports if it emulates an earlier version.
func TestKubernetesVersions(t *testing.T) {
	t.Parallel()
	for minor := 33; minor <= 37; minor++ {
		t.Run(fmt.Sprintf("1.%d", minor), func(t *testing.T) {
			t.Parallel()
			client := client(t, apitest.Options{KubernetesVersion: fmt.Sprintf("v1.%d.4", minor)}.Start(t).Config())
			version, err := client.Discovery().ServerVersion()
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("v1.%d.0+mainstay", minor); version.Minor != fmt.Sprint(minor) || version.EmulationMinor != fmt.Sprint(minor) || !strings.HasPrefix(version.GitVersion, want) {
				t.Errorf("version: %+v", version)
			}
			_, lists, err := client.Discovery().ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			var served []string
			for _, list := range lists {
				for _, r := range list.APIResources {
					served = append(served, list.GroupVersion+" "+r.Name)
				}
			}
			for added, resources := range addedResources() {
				for _, resource := range resources {
					if slices.Contains(served, resource) != (added <= minor) {
						t.Errorf("%s, which 1.%d added: served is %t", resource, added, added > minor)
					}
				}
			}
		})
	}
}

// TestDiscoveryAsRecorded compares the resources of a server that emulates 1.36 with the resources of a real
// kube-apiserver 1.36.
func TestDiscoveryAsRecorded(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile(filepath.Join("testdata", "resources-1.36.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for row := range tsv.Rows(string(recorded)) {
		want = append(want, strings.Join(row, "\t"))
	}
	_, lists, err := client(t, apitest.Options{KubernetesVersion: "1.36"}.Start(t).Config()).Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, list := range lists {
		if strings.HasPrefix(list.GroupVersion, "mainstay.dev/") {
			continue
		}
		for _, r := range list.APIResources {
			slices.Sort(r.Verbs)
			got = append(got, strings.Join([]string{list.GroupVersion, r.Name, r.Kind, strings.Join(r.Verbs, ",")}, "\t"))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-recorded +got):\n%s", diff)
	}
}

// warnings collects warnings of the server.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// TestFieldsOfVersion checks that writes of fields that the emulated version does not have are rejected, or
// drop the fields with a warning, depending on the field validation.
func TestFieldsOfVersion(t *testing.T) {
	t.Parallel()
	config := apitest.Options{KubernetesVersion: "1.33"}.Start(t).Config()
	var warned warnings
	config.WarningHandler = &warned
	c := podClient(t, config)
	newPod := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"hostnameOverride": "a",
				"containers":       []any{map[string]any{"name": "c", "image": "i"}},
			},
		}}
	}
	const unknown = `unknown field "spec.hostnameOverride"`
	_, err := c.Create(t.Context(), newPod("strict"), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), unknown) {
		t.Errorf("create with strict validation: %v", err)
	}
	_, err = c.Apply(t.Context(), "applied", newPod("applied"), metav1.ApplyOptions{FieldManager: "test"})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), ".spec.hostnameOverride: field not declared in schema") {
		t.Errorf("apply: %v", err)
	}
	created, err := c.Create(t.Context(), newPod("warned"), metav1.CreateOptions{FieldValidation: metav1.FieldValidationWarn})
	if err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedString(created.Object, "spec", "hostnameOverride"); found || !slices.Contains(warned.list, unknown) {
		t.Errorf("created: %v; warnings %q", created.Object["spec"], warned.list)
	}
	for name, patch := range map[string]struct {
		kind, body string
	}{
		"merge":     {"application/merge-patch+json", `{"spec":{"hostnameOverride":"a"}}`},
		"json":      {"application/json-patch+json", `[{"op":"add","path":"/spec/hostnameOverride","value":"a"}]`},
		"strategic": {"application/strategic-merge-patch+json", `{"spec":{"hostnameOverride":"a"}}`},
	} {
		_, err := c.Patch(t.Context(), "warned", types.PatchType(patch.kind), []byte(patch.body), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		if err == nil || !strings.Contains(err.Error(), unknown) {
			t.Errorf("%s patch: %v", name, err)
		}
	}
}

// TestFieldsOfSubresource checks that a write to a subresource does not store fields that the emulated version
// lacks.
func TestFieldsOfSubresource(t *testing.T) {
	t.Parallel()
	c := podClient(t, apitest.Options{KubernetesVersion: "1.33"}.Start(t).Config())
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}, "volumes": []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}}},
	}}
	if _, err := c.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const patch = `{"spec":{"ephemeralContainers":[{"name":"e","image":"i","env":[{"name":"E","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k"}}}]}]}}`
	_, err := c.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldValidation: metav1.FieldValidationIgnore}, "ephemeralcontainers")
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.ephemeralContainers[0].env[0].valueFrom") {
		t.Errorf("a variable from a file: %v", err)
	}
}

func podClient(t *testing.T, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(pods).Namespace("default")
}
