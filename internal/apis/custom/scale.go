package custom

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
)

// scalable returns the mapping between objects of the version and Scale.
func (h *handler) scalable(ctx context.Context) (*registry.Scalable, error) {
	o, err := h.open(ctx)
	if err != nil {
		return nil, err
	}
	return &registry.Scalable{
		Objects: &registry.SubresourceStore{Store: o.store, Subresource: "scale", Strategy: o.store.Strategy},
		Version: h.gvk.GroupVersion(), ReplicasPaths: o.replicasPaths,
		Read: o.scaleValues,
		Write: func(obj codec.Object, replicas int32) error {
			return unstructured.SetNestedField(content(obj), int64(replicas), steps(o.scale.SpecReplicasPath)...)
		},
	}, nil
}

func (o *openHandler) scaleValues(obj codec.Object) (registry.ScaleValues, error) {
	if o.scale == nil {
		return registry.ScaleValues{}, apierrors.NewNotFound(schema.GroupResource{Resource: "scale"}, obj.GetName())
	}
	doc := content(obj)
	wanted, found, err := unstructured.NestedInt64(doc, steps(o.scale.SpecReplicasPath)...)
	if err != nil {
		return registry.ScaleValues{}, apierrors.NewInternalError(err)
	}
	observed, _, err := unstructured.NestedInt64(doc, steps(o.scale.StatusReplicasPath)...)
	if err != nil {
		return registry.ScaleValues{}, apierrors.NewInternalError(err)
	}
	values := registry.ScaleValues{SpecReplicas: int32(wanted), StatusReplicas: int32(observed)}
	if path := o.scale.LabelSelectorPath; path != nil && *path != "" {
		if values.Selector, _, err = unstructured.NestedString(doc, steps(*path)...); err != nil {
			return registry.ScaleValues{}, apierrors.NewInternalError(err)
		}
	}
	if !found {
		values.MissingError = apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", o.scale.SpecReplicasPath))
	}
	return values, nil
}

// replicasPaths returns the path of the replicas field in the spec for each version with the scale subresource,
// keyed by apiVersion.
func replicasPaths(crd *apiextensionsv1.CustomResourceDefinition) map[string]fieldpath.Path {
	paths := map[string]fieldpath.Path{}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		var path fieldpath.Path
		for _, step := range steps(v.Subresources.Scale.SpecReplicasPath) {
			path = append(path, fieldpath.FieldNameElement(step))
		}
		paths[schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}.String()] = path
	}
	return paths
}
