package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Definition is a custom resource that a control plane serves without a stored
// CustomResourceDefinition. It is immutable.
type Definition struct {
	Resource schema.GroupResource
	// JSON is the CustomResourceDefinition in apiextensions.k8s.io/v1, with the conditions of an
	// established definition.
	JSON []byte
	// Plugin returns an admission plugin for requests to the resource. The plugin cannot be disabled. If
	// Plugin is nil, the resource has no plugin.
	Plugin func(authorizer.Authorizer) admission.Plugin
}

// definitionPaths returns the storage paths of the custom resources that the definitions define.
func definitionPaths(definitions []*Definition) map[string]bool {
	paths := map[string]bool{}
	for _, d := range definitions {
		paths[d.Resource.Group+"/"+d.Resource.Resource] = true
	}
	return paths
}

// ownDefinitions is a storage that adds Options.Definitions, the own definitions of the control plane, to the
// stored definitions.
type ownDefinitions struct {
	storage.Interface
	records map[string]*codec.Record // by name
}

// ownRevision is the revision of own definitions. Stored objects have no lower revision.
const ownRevision = 1

// newOwnDefinitions returns a storage that adds the own definitions to stored. It returns stored itself if
// there are no own definitions, or if kind is nil.
func newOwnDefinitions(s *settings, stored storage.Interface, kind *codec.Kind) storage.Interface {
	if len(s.options.Definitions) == 0 || kind == nil {
		return stored
	}
	own := &ownDefinitions{Interface: stored, records: map[string]*codec.Record{}}
	for _, d := range s.options.Definitions {
		name := types.NamespacedName{Name: d.Resource.String()}
		own.records[name.Name] = codec.NewRecord(kind, name, d.JSON, ownRevision)
	}
	return own
}

// Get implements storage.Interface.
func (o *ownDefinitions) Get(ctx context.Context, name types.NamespacedName, options storage.ReadOptions) (*codec.Record, error) {
	if record := o.records[name.Name]; record != nil {
		return record, nil
	}
	return o.Interface.Get(ctx, name, options)
}

// List implements storage.Interface. The first page contains the own definitions.
func (o *ownDefinitions) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	list, err := o.Interface.List(ctx, namespace, options)
	if err != nil || options.Continue != "" {
		return list, err
	}
	stored := list.Items
	list.Items = func(yield func(*codec.Record, error) bool) {
		for _, record := range o.records {
			if !yield(record, nil) {
				return
			}
		}
		for record, err := range stored {
			if record != nil && o.records[record.Name().Name] != nil {
				continue // stored by an earlier version, or by another server
			}
			if !yield(record, err) {
				return
			}
		}
	}
	return list, nil
}

// Update implements storage.Interface.
func (o *ownDefinitions) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	if o.records[name.Name] != nil {
		return nil, fmt.Errorf("the definition %s belongs to the server and cannot be changed", name.Name)
	}
	return o.Interface.Update(ctx, name, update, options)
}

// Prepare implements storage.Interface. If the request requires that an own definition is unchanged, Prepare
// returns a nil Op, because own definitions never change.
func (o *ownDefinitions) Prepare(ctx context.Context, req storage.OpRequest) (*storage.Op, error) {
	if unchanged := req.Unchanged; unchanged != nil && o.records[unchanged.Name.Name] != nil {
		return nil, nil
	}
	return o.Interface.Prepare(ctx, req)
}
