package controlplane

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/cel/typed"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
)

// typeResolver finds the types of kinds for the expressions of policies, in the OpenAPI
// documents of the control plane. It implements builtin.TypeResolver.
type typeResolver struct {
	instance *instance

	mu   sync.Mutex
	made map[schema.GroupVersionKind]describedType
}

// describedType is a type as a document describes it; a change makes another document.
type describedType struct {
	by  *openapi.Document
	typ *typed.Type
}

// maxTypes is the maximum number of cached types: that of a pod uses 200 KiB.
const maxTypes = 32

// KindOf implements builtin.TypeResolver.
func (t *typeResolver) KindOf(gvr schema.GroupVersionResource) schema.GroupVersionKind {
	if r := t.instance.catalog.Find(gvr.GroupVersion(), gvr.Resource, ""); r != nil {
		return r.Version.GVK
	}
	return schema.GroupVersionKind{}
}

// TypeOf implements builtin.TypeResolver.
func (t *typeResolver) TypeOf(gvk schema.GroupVersionKind) *typed.Type {
	path := "apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "api/" + gvk.Version
	}
	document, found := t.instance.documents.V3(path)
	if !found {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, kept := t.made[gvk]; kept && have.by == document {
		return have.typ
	}
	props, err := document.KindSchema(gvk)
	if err != nil || props == nil {
		return nil
	}
	if t.made == nil || len(t.made) == maxTypes {
		t.made = map[schema.GroupVersionKind]describedType{}
	}
	made := describedType{by: document, typ: new(typed.Maker).Make(props, true)}
	t.made[gvk] = made
	return made.typ
}
