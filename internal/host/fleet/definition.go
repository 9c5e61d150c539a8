package fleet

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/controlplane"
)

// Definition returns the definition of ControlPlane objects for the root control plane.
func Definition() *controlplane.Definition {
	return &controlplane.Definition{
		Resource: controlplanes.Resource().GroupResource(), JSON: controlplanes.Definition(),
		Plugin: func(a authorizer.Authorizer) admission.Plugin { return creation{a} },
	}
}

// creation is the admission plugin for new ControlPlane objects. It adds the finalizer, so that reconcile need
// not write it. It rejects forks by users who do not have access to the source, because the administrator of a
// fork can read all objects of the source, including Secrets.
type creation struct{ authorizer authorizer.Authorizer }

var (
	_ admission.Mutator   = creation{}
	_ admission.Validator = creation{}
)

// Name implements admission.Plugin.
func (creation) Name() string { return "ControlPlaneCreation" }

// Handles implements admission.Plugin. The source of an existing control plane is immutable.
func (creation) Handles(op admission.Operation) bool { return op == admission.Create }

// objectOf returns the ControlPlane object of a request, or nil if the request is for another resource or for
// a subresource.
func objectOf(a *admission.Attributes) *unstructured.Unstructured {
	resource := controlplanes.Resource()
	obj, ok := a.Object.(*unstructured.Unstructured)
	if !ok || a.Resource.GroupVersion.Group != resource.Group || a.Resource.Name != resource.Resource || a.Resource.Subresource != "" {
		return nil
	}
	return obj
}

// Mutate implements admission.Mutator.
func (creation) Mutate(_ context.Context, a *admission.Attributes) error {
	if obj := objectOf(a); obj != nil {
		addFinalizer(obj)
	}
	return nil
}

// addFinalizer adds the finalizer of the fleet to an object that does not have it.
func addFinalizer(obj *unstructured.Unstructured) {
	if finalizers := obj.GetFinalizers(); !slices.Contains(finalizers, controlplanes.Finalizer) {
		obj.SetFinalizers(append(finalizers, controlplanes.Finalizer))
	}
}

// Validate implements admission.Validator.
func (p creation) Validate(ctx context.Context, a *admission.Attributes) error {
	obj := objectOf(a)
	if obj == nil {
		return nil
	}
	object, err := controlplanes.FromUnstructured(obj)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	from := object.Spec.From
	if from == nil {
		return nil
	}
	resource := controlplanes.Resource()
	required := authorizer.Attributes{User: a.User, ResourceRequest: true, Verb: "*", APIGroup: "*", APIVersion: "*", Resource: "*"}
	permission := "all permissions in all namespaces"
	if from.ControlPlane != "" {
		required.Verb, required.APIGroup, required.APIVersion, required.Resource = controlplanes.AccessVerb, resource.Group, resource.Version, resource.Resource
		required.Name = from.ControlPlane
		permission = fmt.Sprintf("the verb %q for the control plane %q", controlplanes.AccessVerb, from.ControlPlane)
	}
	decision, _, err := p.authorizer.Authorize(ctx, &required)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return a.Forbidden(fmt.Errorf("spec.from requires %s", permission))
}
