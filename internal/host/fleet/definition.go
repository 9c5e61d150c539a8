package fleet

import (
	"context"
	"fmt"

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
		Plugin: func(a authorizer.Authorizer) admission.Plugin { return sourcePermission{a} },
	}
}

// sourcePermission rejects forks by users who may not read their source: the administrator of a fork can read all objects
// of its source, including Secrets.
type sourcePermission struct{ authorizer authorizer.Authorizer }

var _ admission.Validator = sourcePermission{}

// Name implements admission.Plugin.
func (sourcePermission) Name() string { return "ControlPlaneSource" }

// Handles implements admission.Plugin. The source of an existing control plane is immutable.
func (sourcePermission) Handles(op admission.Operation) bool { return op == admission.Create }

// Validate implements admission.Validator.
func (p sourcePermission) Validate(ctx context.Context, a *admission.Attributes) error {
	resource := controlplanes.Resource()
	obj, ok := a.Object.(*unstructured.Unstructured)
	if !ok || a.Resource.GroupVersion.Group != resource.Group || a.Resource.Name != resource.Resource || a.Resource.Subresource != "" {
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
