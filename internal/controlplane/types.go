package controlplane

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/cel/typed"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
)

// typeResolver provides the types of kinds for the expressions of policies. It derives them from
// the OpenAPI documents of the control plane. It implements builtin.TypeResolver and is safe for
// concurrent use.
type typeResolver struct {
	resources *resourceFinder
	documents *openapi.Documents

	mu    sync.Mutex
	cache map[schema.GroupVersionKind]cachedType
}

// cachedType is a type and the document that it was derived from. A change of the kind creates a
// new document.
type cachedType struct {
	document *openapi.Document
	typ      *typed.Type
}

// maxTypes is the maximum number of cached types. The type of a pod uses 200 KiB.
const maxTypes = 32

// KindOf implements builtin.TypeResolver.
func (t *typeResolver) KindOf(gvr schema.GroupVersionResource) schema.GroupVersionKind {
	if r := t.resources.catalog.Find(gvr.GroupVersion(), gvr.Resource, ""); r != nil {
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
	document, found := t.documents.V3(path)
	if !found {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cached, ok := t.cache[gvk]; ok && cached.document == document {
		return cached.typ
	}
	props, err := document.KindSchema(gvk)
	if err != nil || props == nil {
		return nil
	}
	if t.cache == nil || len(t.cache) == maxTypes {
		t.cache = map[schema.GroupVersionKind]cachedType{}
	}
	derived := new(typed.Builder).Build(props, true)
	t.cache[gvk] = cachedType{document: document, typ: derived}
	return derived
}
