package policies

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// param is a parameter of a policy. The zero value is used for a binding without a parameter.
type param struct {
	name     types.NamespacedName
	document *policy.LazyDocument
}

// params returns the current parameters of a binding. If the binding has no parameter reference, it returns one
// zero param. If it returns no params, the policy is not evaluated for the binding. The error is a
// configuration error.
func (c *Config) params(ctx context.Context, r *admission.Request, kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef) ([]param, error) {
	if kind == nil || ref == nil {
		return []param{{}}, nil
	}
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	resource := c.ResourceOf(gvk)
	if resource == nil {
		return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	}
	namespace, err := paramNamespace(r, resource, ref)
	if err != nil {
		return nil, err
	}
	found, err := findParams(ctx, resource, namespace, ref)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	params := make([]param, len(found))
	for i, record := range found {
		params[i] = param{record.Name(), policy.NewLazyDocument(func() (map[string]any, error) { return paramDocument(ctx, resource, record) })}
	}
	return params, nil
}

// paramNamespace returns the namespace of the parameters, which is that of the reference or, by default, that
// of the request. It returns "" for cluster-scoped parameters.
func paramNamespace(r *admission.Request, resource *rest.Resource, ref *admissionregistrationv1.ParamRef) (string, error) {
	switch {
	case !resource.Namespaced && ref.Namespace != "":
		return "", errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !resource.Namespaced:
		return "", nil
	case ref.Namespace != "":
		return ref.Namespace, nil
	case r.Namespace == "":
		return "", errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	return r.Namespace, nil
}

// findParams reads the parameters of a binding by name or by selector. It returns none if the named object does
// not exist.
func findParams(ctx context.Context, resource *rest.Resource, namespace string, ref *admissionregistrationv1.ParamRef) ([]*codec.Record, error) {
	if ref.Name != "" {
		getter, ok := resource.Storage.(rest.Getter)
		if !ok {
			return nil, fmt.Errorf("paramKind kind `%v` cannot be read", resource.Version.GVK)
		}
		record, err := getter.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*codec.Record{record}, nil
	}
	lister, ok := resource.Storage.(rest.Lister)
	if !ok {
		return nil, fmt.Errorf("paramKind kind `%v` cannot be listed", resource.Version.GVK)
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	list, err := lister.List(ctx, namespace, rest.ListOptions{Labels: selector})
	if err != nil {
		return nil, err
	}
	var found []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		found = append(found, record)
	}
	return found, nil
}

// paramDocument converts a stored object to the version of the resource and returns it as a document.
func paramDocument(ctx context.Context, resource *rest.Resource, record *codec.Record) (map[string]any, error) {
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	versioned, err := admission.Convert(ctx, resource, obj, resource.Version.GVK)
	if err != nil {
		return nil, err
	}
	return documentOf(versioned)
}
