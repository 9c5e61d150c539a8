package custom

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
)

// strategy returns the strategy of the objects of a version.
func (h *handler) strategy(o *openHandler) *registry.Strategy {
	return &registry.Strategy{
		Namespaced: h.namespaced, RequireResourceVersion: true, Generation: true, Finalizers: registry.WarnUnqualifiedFinalizers,
		SpecChanged: func(obj, old codec.Object) bool { return !sameButMetadata(content(obj), content(old)) },
		PrepareForCreate: func(_ context.Context, obj codec.Object) {
			if !h.version.status {
				return
			}
			delete(content(obj), "status")
			c, err := h.schemaOf(h.version.name)
			if err != nil {
				return // Validate reports it
			}
			if status := c.Properties["status"]; status != nil && status.Default != nil {
				c.complete(content(obj)) // validation uses the object with its defaults, as reads do
			}
		},
		PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
			if h.version.status {
				restoreMember(content(obj), content(old), "status")
			}
		},
		Validate: func(ctx context.Context, obj codec.Object) field.ErrorList {
			c, err := h.schemaOf(h.version.name)
			if err != nil {
				return schemaError(err)
			}
			doc := content(obj)
			errs := c.Validate(ctx, nil, doc)
			errs = append(errs, o.scaleFaults(doc)...)
			errs = append(errs, c.ValidateEmbedded(nil, doc)...)
			errs = append(errs, c.ValidateLists(nil, doc, nil)...)
			return c.applyRules(ctx, errs, doc, nil)
		},
		ValidateUpdate: func(ctx context.Context, obj, old codec.Object) field.ErrorList {
			c, err := h.schemaOf(h.version.name)
			if err != nil {
				return schemaError(err)
			}
			doc, was := content(obj), content(old)
			errs := c.ValidateUpdate(ctx, nil, doc, was)
			errs = append(errs, o.scaleFaults(doc)...)
			errs = append(errs, c.ValidateEmbedded(nil, doc)...)
			errs = append(errs, c.ValidateLists(nil, doc, was)...)
			return c.applyRules(ctx, errs, doc, was)
		},
	}
}

// statusStrategy returns the strategy of /status, which writes only the status.
func (h *handler) statusStrategy(o *openHandler) *registry.Strategy {
	return &registry.Strategy{
		Namespaced: h.namespaced, RequireResourceVersion: true, Generation: true, Finalizers: registry.WarnUnqualifiedFinalizers,
		PrepareForUpdate: func(_ context.Context, obj, old codec.Object) { restoreAllButStatus(obj, old) },
		ValidateUpdate: func(ctx context.Context, obj, old codec.Object) field.ErrorList {
			c, err := h.schemaOf(h.version.name)
			if err != nil {
				return schemaError(err)
			}
			doc, was := content(obj), content(old)
			var errs field.ErrorList
			if status, found := doc["status"]; found {
				if s := c.Properties["status"]; s != nil {
					errs = s.ValidateUpdate(ctx, field.NewPath("status"), status, was["status"])
				}
			}
			errs = append(errs, o.scaleStatusFaults(doc)...)
			errs = append(errs, c.ValidateEmbedded(nil, doc)...)
			errs = append(errs, c.ValidateLists(nil, doc, was)...)
			return c.applyRules(ctx, errs, doc, was)
		},
	}
}

// schemaError returns the validation error for a schema that could not be loaded.
func schemaError(err error) field.ErrorList { return field.ErrorList{field.InternalError(nil, err)} }

// applyRules evaluates the rules of the schema and adds their violations to errs. If errs contains an error
// that prevents the evaluation, applyRules adds an error that some rules were not checked. was is the old
// object, or nil on creation.
func (c *compiled) applyRules(ctx context.Context, errs field.ErrorList, doc, was map[string]any) field.ErrorList {
	if c.rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	options := rules.Options{Budget: rules.Budget}
	if was != nil {
		options.Old, options.Ratchet, options.Schema = was, true, c.Schema
	}
	found, _ := c.rules.Validate(ctx, nil, doc, options)
	return append(errs, found...)
}

func sameButMetadata(a, b map[string]any) bool {
	for name, value := range a {
		if name != "metadata" && !reflect.DeepEqual(value, b[name]) {
			return false
		}
	}
	for name := range b {
		if _, found := a[name]; !found && name != "metadata" {
			return false
		}
	}
	return true
}

// restoreMember copies a member from the old document, or deletes it if the old document does not have it.
func restoreMember(doc, old map[string]any, name string) {
	value, found := old[name]
	if !found {
		delete(doc, name)
		return
	}
	doc[name] = runtime.DeepCopyJSONValue(value)
}

// restoreAllButStatus copies everything from the old object, except the status, the managed fields and the
// resource version.
func restoreAllButStatus(obj, old codec.Object) {
	doc := content(obj)
	status, found := doc["status"]
	entries, revision := obj.GetManagedFields(), obj.GetResourceVersion()
	restored := runtime.DeepCopyJSON(content(old))
	delete(restored, "status")
	if found {
		restored["status"] = status
	}
	obj.(*unstructured.Unstructured).Object = restored
	obj.SetManagedFields(entries)
	obj.SetResourceVersion(revision)
}

// scaleFaults validates the fields of an object that its scale subresource returns.
func (o *openHandler) scaleFaults(doc map[string]any) field.ErrorList {
	if o.scale == nil {
		return nil
	}
	return append(replicaFaults(doc, o.scale.SpecReplicasPath), o.scaleStatusFaults(doc)...)
}

func (o *openHandler) scaleStatusFaults(doc map[string]any) field.ErrorList {
	if o.scale == nil {
		return nil
	}
	errs := replicaFaults(doc, o.scale.StatusReplicasPath)
	if path := o.scale.LabelSelectorPath; path != nil && *path != "" {
		if text, _, err := unstructured.NestedString(doc, steps(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), text, err.Error()))
		}
	}
	return errs
}

func replicaFaults(doc map[string]any, path string) field.ErrorList {
	at := field.NewPath(path)
	replicas, _, err := unstructured.NestedInt64(doc, steps(path)...)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, replicas, err.Error())}
	case replicas < 0:
		return field.ErrorList{field.Invalid(at, replicas, "should be a non-negative integer")}
	case replicas > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, replicas, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

// steps returns the names in a dotted path.
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// selectable is a field that field selectors can use. label is the name of the field in selectors.
type selectable struct {
	label string
	path  []string
}

func newSelectable(v *apiextensionsv1.CustomResourceDefinitionVersion) []selectable {
	var fields []selectable
	for _, f := range v.SelectableFields {
		// Records retain the label, which must not retain the definition.
		fields = append(fields, selectable{strings.Clone(strings.TrimPrefix(f.JSONPath, ".")), steps(f.JSONPath)})
	}
	return fields
}

// selectableLabels returns the names of the selectable fields.
func (o *openHandler) selectableLabels() []string {
	labels := make([]string, len(o.selectable))
	for i, s := range o.selectable {
		labels[i] = s.label
	}
	return labels
}

func (s selectable) value(doc map[string]any) string {
	value, _, err := unstructured.NestedFieldNoCopy(doc, s.path...)
	if err != nil {
		return ""
	}
	return selectorText(value)
}
