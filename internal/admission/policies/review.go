package policies

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// review is a request with the variables of expressions, which are created at first use. It is not safe for
// concurrent use.
type review struct {
	*match.Subject
	ctx         context.Context
	permissions *library.Permissions
	namespace   *policy.LazyDocument
	views       []view
}

// view contains the variables of a request, converted to one resource version.
type view struct {
	resource                   *rest.Resource
	object, oldObject, request *policy.LazyDocument
}

func (c *Config) review(ctx context.Context, s *match.Subject) *review {
	return &review{Subject: s, ctx: ctx, permissions: library.NewPermissions(ctx, c.Authorizer, s.User)}
}

func (c *Config) subject(a *admission.Attributes) *match.Subject {
	return &match.Subject{Attributes: a, Namespaces: c.Namespaces}
}

// input returns the variables of a policy's expressions, for the request converted to the resource matched.
func (r *review) input(matched *rest.Resource, params *policy.LazyDocument, variables []policy.Variable) (*policy.Input, error) {
	if err := r.readNamespace(); err != nil {
		return nil, err
	}
	v := r.viewOf(matched)
	at := r.Resource
	return &policy.Input{
		Object: v.object, OldObject: v.oldObject, Request: v.request, Params: params, Namespace: r.namespace,
		Permissions: r.permissions,
		Resource:    r.permissions.Resource(at.GroupVersion.Group, at.Name, at.Subresource, r.Request.Namespace, r.Name),
		Variables:   variables,
	}, nil
}

// readNamespace reads the namespace of the request. If the request is for a Namespace, it reads nothing,
// because the variable namespaceObject is null.
func (r *review) readNamespace() error {
	if r.namespace != nil || r.Request.Namespace == "" || r.Kind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil
	}
	namespace, err := r.Subject.Namespace(r.ctx)
	if err != nil {
		return err
	}
	r.namespace = policy.NewLazyDocument(func() (map[string]any, error) { return namespaceDocument(namespace) })
	return nil
}

func (r *review) viewOf(matched *rest.Resource) *view {
	for i := range r.views {
		if r.views[i].resource == matched {
			return &r.views[i]
		}
	}
	gvk := matched.Version.GVK
	r.views = append(r.views, view{
		resource: matched,
		object: policy.NewLazyDocument(func() (map[string]any, error) {
			obj, err := r.ObjectIn(r.ctx, gvk)
			if err != nil {
				return nil, err
			}
			return documentOf(obj)
		}),
		oldObject: policy.NewLazyDocument(func() (map[string]any, error) {
			obj, err := r.OldIn(r.ctx, gvk)
			if err != nil {
				return nil, err
			}
			return documentOf(obj)
		}),
		request: policy.NewLazyDocument(func() (map[string]any, error) { return requestDocument(&r.Request, matched) }),
	})
	return &r.views[len(r.views)-1]
}

// invalidate discards the variables after the object has been modified.
func (r *review) invalidate() {
	r.InvalidateConversions()
	r.views = nil
}

// documentOf returns an object as a document, which may share memory with the object. It returns nil if obj is
// nil.
func documentOf(obj runtime.Object) (map[string]any, error) {
	switch obj := obj.(type) {
	case nil:
		return nil, nil
	case *unstructured.Unstructured:
		return obj.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// namespaceDocument returns the value of the variable namespaceObject. Timestamps in it are time.Time values.
func namespaceDocument(namespace *corev1.Namespace) (map[string]any, error) {
	seen := &corev1.Namespace{ObjectMeta: namespace.ObjectMeta, Spec: namespace.Spec, Status: namespace.Status}
	seen.ManagedFields, seen.OwnerReferences, seen.SelfLink = nil, nil, ""
	document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(seen)
	if err != nil {
		return nil, err
	}
	metadata := document["metadata"].(map[string]any)
	metadata["UID"] = string(seen.UID) // the field name in the type of the variable
	metadata["creationTimestamp"] = seen.CreationTimestamp.Time
	if seen.DeletionTimestamp != nil {
		metadata["deletionTimestamp"] = seen.DeletionTimestamp.Time
	}
	status := document["status"].(map[string]any)
	if conditions, ok := status["conditions"].([]any); ok {
		for i := range conditions {
			conditions[i].(map[string]any)["lastTransitionTime"] = seen.Status.Conditions[i].LastTransitionTime.Time
		}
	}
	return document, nil
}

// requestDocument returns the value of the variable request. As in an AdmissionReview, empty members are
// omitted.
func requestDocument(r *admission.Request, matched *rest.Resource) (map[string]any, error) {
	options, err := optionsOf(r.Options)
	if err != nil {
		return nil, err
	}
	document := map[string]any{
		"kind": kindDocument(matched.Version.GVK), "requestKind": kindDocument(r.Kind()),
		"resource": resourceDocument(matched.GVR()), "requestResource": resourceDocument(r.Resource.GVR()),
		"operation": string(r.Operation), "userInfo": userDocument(r.User), "dryRun": r.DryRun, "options": options,
	}
	for name, text := range map[string]string{
		"subResource": r.Resource.Subresource, "requestSubResource": r.Resource.Subresource, "name": r.Name, "namespace": r.Namespace,
	} {
		if text != "" {
			document[name] = text
		}
	}
	return document, nil
}

func optionsOf(options runtime.Object) (any, error) {
	if options == nil {
		return nil, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(options)
}

func kindDocument(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

func resourceDocument(gvr schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": gvr.Group, "version": gvr.Version, "resource": gvr.Resource}
}

func userDocument(user *request.User) map[string]any {
	document := map[string]any{}
	if user == nil {
		return document
	}
	if user.Name != "" {
		document["username"] = user.Name
	}
	if user.UID != "" {
		document["uid"] = user.UID
	}
	if len(user.Groups) > 0 {
		document["groups"] = user.Groups
	}
	if len(user.Extra) > 0 {
		document["extra"] = user.Extra
	}
	return document
}
