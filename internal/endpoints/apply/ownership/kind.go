package ownership

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/simulation"
)

// Config configures a Kind. Version and Converter are required.
type Config struct {
	Version *codec.Version
	// Subresource is the subresource in the entries of managed fields; empty for the main resource.
	Subresource string
	// ResetFields are the fields that writes ignore, by API version.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set
	// Converter contains the merge schema of the version.
	Converter managedfields.TypeConverter
	// Cache may be shared by many kinds; nil creates a cache for this kind.
	Cache *Cache
	// Simulation is the clock for the times of entries; nil means the real clock.
	Simulation *simulation.Simulation
}

// A Kind maintains the managed fields of a resource in one version. It is safe for concurrent use.
type Kind struct {
	version     *codec.Version
	gvk         schema.GroupVersionKind
	apiVersion  string
	subresource string
	schema      kindSchema
	root        smd.TypeRef
	plan        *plan // nil for objects without a Go type
	// documents reports whether some values are stored as their original JSON text, which each apply
	// encodes again.
	documents bool
	goType    reflect.Type
	// reset contains the reset fields, which their writers do not own.
	reset      []node
	cache      *Cache
	simulation *simulation.Simulation
	workspaces sync.Pool // of *workspace
}

// A workspace contains the reusable memory of one operation. It is not safe for concurrent use.
type workspace struct {
	differ
	encoder
	chunk []node
}

// New returns a Kind, or nil if the version is unsupported because it has no merge schema, its Go type is
// unsupported, or its reset fields cannot be represented.
func New(config Config) *Kind {
	v := config.Version
	sample := v.New()
	sample.GetObjectKind().SetGroupVersionKind(v.GVK)
	typed, err := config.Converter.ObjectToTyped(sample)
	if err != nil || typed.TypeRef().NamedType == nil {
		return nil
	}
	of := kindSchema{typed.Schema(), *typed.TypeRef().NamedType}
	k := &Kind{
		version: v, gvk: v.GVK, apiVersion: v.GVK.GroupVersion().String(), subresource: config.Subresource,
		schema: of, root: of.root(), goType: reflect.TypeOf(sample), cache: config.Cache, simulation: config.Simulation,
	}
	if k.cache == nil {
		k.cache = &Cache{}
	}
	if set := config.ResetFields[fieldpath.APIVersion(k.apiVersion)]; set != nil {
		var b builder
		if k.reset, err = b.fromSet(set); err != nil {
			return nil
		}
	}
	if !v.Untyped {
		if k.plan, k.documents = k.cache.compile(k.schema, k.goType); k.plan.kind != planStruct {
			return nil
		}
	}
	k.workspaces.New = func() any {
		return &workspace{differ: differ{schema: k.schema.schema}, chunk: make([]node, 4*nodesPerChunk)}
	}
	return k
}

func (k *Kind) workspace() *workspace {
	w := k.workspaces.Get().(*workspace)
	w.free, w.err = w.chunk, nil
	return w
}

// releaseWorkspace releases the memory of a workspace and all nodes that were created with it. Remaining
// references are released when the pool drops the workspace.
func (k *Kind) releaseWorkspace(w *workspace) {
	w.items, w.names, w.stack, w.free = w.items[:0], w.names[:0], w.stack[:0], nil
	k.workspaces.Put(w)
}

// supports reports whether an object is of the Go type and version of the kind.
func (k *Kind) supports(obj codec.Object) bool {
	return reflect.TypeOf(obj) == k.goType && obj.GetObjectKind().GroupVersionKind() == k.gvk
}

// strippedRoot and strippedMeta report whether a field of the object or of its metadata never has an owner.
func strippedRoot(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}

func strippedMeta(name string) bool {
	switch name {
	case "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion":
		return true
	}
	return false
}

// strip returns a set without the fields that no manager owns.
func (b *builder) strip(set []node) []node {
	n := len(b.stack)
	for i := range set {
		s := set[i]
		if strippedRoot(s.element) {
			s.mark &^= member
		}
		if s.element == "metadata" {
			m := len(b.stack)
			for _, below := range s.children {
				if strippedMeta(below.element) {
					below.mark &^= member
				}
				b.push(below.element, below.mark, below.children)
			}
			s.children = b.popList(m)
		}
		b.push(s.element, s.mark, s.children)
	}
	return b.popList(n)
}
