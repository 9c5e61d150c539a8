package controlplanes_test

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// TestDefinition checks that the definition is valid and that its conditions are set, so that it is served
// without a write of its status.
func TestDefinition(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(controlplanes.Definition(), crd); err != nil {
		t.Fatal(err)
	}
	if errs := definition.Validate(t.Context(), crd); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	if name := controlplanes.Resource().GroupResource().String(); crd.Name != name || crd.Spec.Names.Kind != controlplanes.Kind {
		t.Errorf("definition %s of the kind %s, want %s of the kind %s", crd.Name, crd.Spec.Names.Kind, name, controlplanes.Kind)
	}
	if !definition.IsTrue(crd, apiextensionsv1.NamesAccepted) || !definition.IsTrue(crd, apiextensionsv1.Established) {
		t.Error("the definition is not established")
	}
	if warnings := definition.Warnings(crd); len(warnings) > 0 {
		t.Error(warnings)
	}
}

func TestUnstructured(t *testing.T) {
	t.Parallel()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a", "uid": "u"},
		"spec":     map[string]any{"paused": true, "limits": map[string]any{"objects": int64(5), "bytes": "10Mi", "watches": int64(3)}},
	}}
	c, err := controlplanes.FromUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Spec.Limits; !c.Spec.Paused || l.Objects != 5 || l.Watches != 3 || l.Bytes.Cmp(resource.MustParse("10Mi")) != 0 || c.UID != "u" {
		t.Errorf("control plane from the unstructured object: %+v", c)
	}
	objects := int64(7)
	now := metav1.Unix(1000, 0)
	c.Status = controlplanes.Status{Phase: controlplanes.Ready, Objects: &objects, LastRequestTime: &now}
	if err := controlplanes.SetStatus(obj, &c.Status); err != nil {
		t.Fatal(err)
	}
	again, err := controlplanes.FromUnstructured(obj)
	if err != nil || *again.Status.Objects != 7 || !again.Status.LastRequestTime.Equal(&now) || again.Status.Bytes != nil {
		t.Errorf("control plane after SetStatus: %+v, error %v", again, err)
	}
}
