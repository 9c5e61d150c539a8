package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"mainstay.dev/mainstay/internal/feature/emulation"
)

// optionsModels is the prefix of the names of the models that define query parameters.
const optionsModels = metaModels

// emulate hides the fields that an emulated version does not have. It must be called before the
// library is used.
func (l *library) emulate(release *emulation.Release) {
	if release == nil {
		return
	}
	l.release = release
	all := l.options
	l.options = sync.OnceValue(func() map[string][]parameter {
		options := all()
		for kind, parameters := range options {
			options[kind] = slices.DeleteFunc(parameters, func(p parameter) bool { return !release.HasField(optionsModels+kind, p.Name) })
		}
		return options
	})
	l.fewerUses = sync.OnceValue(l.readFewerUses)
}

// modelReference matches the reference to a model in a v3 schema.
var modelReference = regexp.MustCompile(`"#/components/schemas/([^"]+)"`)

// readFewerUses returns, for each model that has more fields than in the emulated version, the models to
// which the remaining fields refer. It panics if the embedded schemas are invalid.
func (l *library) readFewerUses() map[uint32][]uint32 {
	fewer := map[uint32][]uint32{}
	f := inflater{library: l}
	for i := range l.size {
		if !l.release.LacksFields(l.name(i)) {
			continue
		}
		schema, err := f.schema(i, v3)
		if err != nil {
			panic(fmt.Sprintf("openapi: embedded schemas: %v", err))
		}
		uses := map[uint32]bool{}
		for _, match := range modelReference.FindAllSubmatch(schema, -1) {
			if use, ok := l.find(string(match[1])); ok {
				uses[use] = true
			}
		}
		fewer[i] = slices.Sorted(maps.Keys(uses))
	}
	return fewer
}

// withoutNewFields removes from the schema of a model the properties that the emulated version does not
// have.
func (l *library) withoutNewFields(model string, schema []byte) ([]byte, error) {
	if !l.release.LacksFields(model) {
		return schema, nil
	}
	var members, properties map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, fmt.Errorf("decode the schema of %s: %w", model, err)
	}
	if err := json.Unmarshal(members["properties"], &properties); err != nil {
		return nil, fmt.Errorf("decode the properties of %s: %w", model, err)
	}
	maps.DeleteFunc(properties, func(name string, _ json.RawMessage) bool { return !l.release.HasField(model, name) })
	encoded, err := json.Marshal(properties)
	if err != nil {
		return nil, err
	}
	members["properties"] = encoded
	return json.Marshal(members)
}
