package policy

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// ApplyConfigurationOf converts a value of the type ObjectType to an apply configuration, which is a new JSON
// document. The error messages are the same as in kube-apiserver.
func ApplyConfigurationOf(value ref.Val) (map[string]any, error) {
	o, ok := value.(*object)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	c := newConversion()
	if err := c.checkNames(o, objectName); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	return c.object(o)
}

// PatchOperation is an operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	// Value is nil if the operation has no value. For the value null, it points to a nil interface.
	Value *any `json:"value,omitempty"`
}

// PatchOf converts a value of the type PatchesType to the operations of a JSON patch. The error messages are
// the same as in kube-apiserver. It returns an error if the total size of the values exceeds the maximum size
// of a request.
func PatchOf(value ref.Val) ([]PatchOperation, error) {
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	c := newConversion() // one budget for all operations
	var patch []PatchOperation
	for it := list.Iterator(); it.HasNext() == types.True; {
		element := it.Next()
		o, ok := element.(*object)
		if !ok || o.name != patchName {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %s", element.Type().TypeName())
		}
		operation, err := c.operation(o)
		if err != nil {
			return nil, err
		}
		patch = append(patch, operation)
	}
	return patch, nil
}

func (c *conversion) operation(o *object) (PatchOperation, error) {
	text := func(name string) string { s, _ := o.fields[name].(types.String); return string(s) }
	operation := PatchOperation{Op: text("op"), Path: text("path"), From: text("from")}
	value, set := o.fields["value"]
	if !set {
		return operation, nil
	}
	if made, ok := value.(*object); ok {
		if err := c.checkNames(made, made.name); err != nil {
			return operation, fmt.Errorf("type mismatch: %w", err)
		}
	}
	converted, err := c.convert(value)
	if err != nil {
		return operation, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	operation.Value = &converted
	return operation, nil
}
