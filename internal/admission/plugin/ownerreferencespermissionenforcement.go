package plugin

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/rest"
)

// OwnerReferencesPermissionEnforcement rejects changes to owner references by users who may not delete the
// object. It also rejects a reference that blocks the deletion of its owner if the user may not update the
// finalizers of the owner.
type OwnerReferencesPermissionEnforcement struct {
	onCreateOrUpdate
	Authorizer authorizer.Authorizer
	// ResourcesOf returns the resources of a kind, or nil if the kind is not served.
	ResourcesOf func(schema.GroupVersionKind) []*rest.Resource
}

var _ admission.Validator = OwnerReferencesPermissionEnforcement{}

func ownerReferencesPermissionEnforcementPlugin() Registration {
	return Registration{
		Name: OwnerReferencesPermissionEnforcement{}.Name(), Description: "rejects changes of owner references without the permission to delete the object or to update the finalizers of the owner",
		New: func(d Dependencies) admission.Plugin {
			return OwnerReferencesPermissionEnforcement{Authorizer: d.Authorizer, ResourcesOf: d.ResourcesOf}
		},
	}
}

// Name implements admission.Plugin.
func (OwnerReferencesPermissionEnforcement) Name() string {
	return "OwnerReferencesPermissionEnforcement"
}

// Validate implements admission.Validator. It ignores the status subresource of pods, which cannot
// change owner references.
func (p OwnerReferencesPermissionEnforcement) Validate(ctx context.Context, a *admission.Attributes) error {
	obj, ok := a.Object.(metav1.Object)
	if !ok || isFor(a, "", "pods", "status") {
		return nil
	}
	var had []metav1.OwnerReference
	if a.Old != nil {
		had = a.Old.GetOwnerReferences()
	}
	owners := obj.GetOwnerReferences()
	if equality.Semantic.DeepEqual(owners, had) {
		return nil
	}
	if a.Operation != admission.Create {
		if err := p.authorizeDelete(ctx, a); err != nil {
			return err
		}
	}
	blocked := map[types.UID]bool{}
	for i := range had {
		blocked[had[i].UID] = blocked[had[i].UID] || blocks(&had[i])
	}
	for i := range owners {
		if blocks(&owners[i]) && !blocked[owners[i].UID] {
			if err := p.authorizeBlocking(ctx, a, &owners[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func blocks(owner *metav1.OwnerReference) bool {
	return owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion
}

// authorizeDelete returns an error if the user is not allowed to delete the request's object.
func (p OwnerReferencesPermissionEnforcement) authorizeDelete(ctx context.Context, a *admission.Attributes) error {
	decision, reason, err := p.Authorizer.Authorize(ctx, &authorizer.Attributes{
		User: a.User, Verb: "delete", ResourceRequest: true, Namespace: a.Namespace, Name: a.Name,
		APIGroup: a.Resource.GroupVersion.Group, APIVersion: a.Resource.GroupVersion.Version, Resource: a.Resource.Name, Subresource: a.Resource.Subresource,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	return reject(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err))
}

// authorizeBlocking returns an error if the user is not allowed to change the finalizers of an
// owner.
func (p OwnerReferencesPermissionEnforcement) authorizeBlocking(ctx context.Context, a *admission.Attributes, owner *metav1.OwnerReference) error {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	resources := p.ResourcesOf(gvk)
	if len(resources) == 0 {
		return reject(a, fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: no matches for kind %q in version %q",
			owner.APIVersion, owner.Kind, owner.Kind, owner.APIVersion))
	}
	for _, resource := range resources {
		attributes := authorizer.Attributes{
			User: a.User, Verb: "update", ResourceRequest: true, Name: owner.Name,
			APIGroup: gvk.Group, APIVersion: gvk.Version, Resource: resource.Name, Subresource: "finalizers",
		}
		if resource.Namespaced {
			attributes.Namespace = a.Namespace // an owner is in the namespace of its dependents
		}
		if decision, reason, err := p.Authorizer.Authorize(ctx, &attributes); decision != authorizer.DecisionAllow {
			return reject(a, fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err))
		}
	}
	return nil
}
