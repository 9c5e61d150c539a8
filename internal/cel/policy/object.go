package policy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"mainstay.dev/mainstay/internal/cel/environment"
)

// object is a value of a type that expressions can create, such as Object{}, Object.spec{} or JSONPatch{}.
type object struct {
	name   string
	fields map[string]ref.Val
}

var _ interface {
	ref.Val
	traits.Indexer
	traits.FieldTester
	traits.Zeroer
} = (*object)(nil)

// Get implements traits.Indexer.
func (o *object) Get(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(field)
	}
	if value, set := o.fields[string(name)]; set {
		return value
	}
	if o.name == patchName && name != "value" {
		return types.String("")
	}
	return types.NewErr("no such key: %v", name)
}

// IsSet implements traits.FieldTester.
func (o *object) IsSet(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(field)
	}
	_, set := o.fields[string(name)]
	return types.Bool(set)
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return len(o.fields) == 0 }

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(to reflect.Type) (any, error) {
	if to != reflect.TypeFor[map[string]any]() {
		return nil, fmt.Errorf("unable to convert to %v", to)
	}
	return Document(o)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(to ref.Type) ref.Val {
	switch {
	case to.TypeName() == o.name:
		return o
	case to == types.TypeType:
		return types.NewTypeTypeWithParam(types.NewObjectType(o.name))
	}
	return types.NewErr("unsupported conversion into %v", to)
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	theirs, ok := other.(*object)
	if !ok || o.name != theirs.name || len(o.fields) != len(theirs.fields) {
		return types.False
	}
	for name, value := range o.fields {
		their, set := theirs.fields[name]
		if !set || value.Equal(their) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.NewObjectType(o.name) }

// Value implements ref.Val.
func (o *object) Value() any { return o.fields }

// checkNames returns an error if the type name of an object differs from the path of the field that contains
// it. An example is Object.spec.wrong{} in the field selector of Object.spec{}. Lists and maps do not add to
// the path.
func (c *conversion) checkNames(value ref.Val, path string) error {
	if c.visits--; c.visits < 0 {
		return errDocumentSize
	}
	var errs []error
	add := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return c.visits >= 0
	}
	switch value := value.(type) {
	case *object:
		if value.name != path {
			add(fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", value.name, path))
		}
		for _, name := range slices.Sorted(maps.Keys(value.fields)) {
			if !add(c.checkNames(value.fields[name], path+"."+name)) {
				break
			}
		}
	case traits.Lister:
		for it := value.Iterator(); it.HasNext() == types.True && add(c.checkNames(it.Next(), path)); {
		}
	case traits.Mapper:
		for it := value.Iterator(); it.HasNext() == types.True && add(c.checkNames(value.Get(it.Next()), path)); {
		}
	}
	return errors.Join(errs...)
}

// Document converts a CEL value to a JSON document, which may share memory with the documents that the value
// refers to. A small value can contain another value many times, so Document returns an error if the size of
// the JSON would exceed the maximum size of a request.
func Document(value ref.Val) (any, error) {
	c := newConversion()
	return c.convert(value)
}

var errDocumentSize = fmt.Errorf("the value has more than %d bytes", environment.MaxRequestSize)

// conversion is the remaining budget of a conversion. left is the number of bytes that may still be added to
// the document, and visits is the number of values whose names may still be checked.
type conversion struct{ left, visits int }

func newConversion() *conversion {
	return &conversion{left: environment.MaxRequestSize, visits: environment.MaxRequestSize}
}

func (c *conversion) spend(bytes int) error {
	if c.left -= bytes; c.left < 0 {
		return errDocumentSize
	}
	return nil
}

func (c *conversion) convert(value ref.Val) (any, error) {
	if err := c.spend(1); err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case *object:
		return c.object(value)
	case traits.Lister:
		return c.list(value)
	case traits.Mapper:
		return c.mapping(value)
	case types.String:
		return string(value), c.spend(len(value))
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(value), c.spend(len(value))
	}
	return scalar(value)
}

func scalar(value ref.Val) (any, error) {
	switch value := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(value), nil
	case types.Int:
		return int64(value), nil
	case types.Uint:
		if value > math.MaxInt64 {
			return nil, fmt.Errorf("%d is out of range", value)
		}
		return int64(value), nil
	case types.Double:
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			return nil, fmt.Errorf("%v is no value of JSON", value)
		}
		return float64(value), nil
	case types.Timestamp:
		return value.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return fmt.Sprint(value.ConvertToType(types.StringType).Value()), nil
	case *types.Err:
		return nil, value
	}
	return nil, fmt.Errorf("a %s is no value of JSON", value.Type().TypeName())
}

func (c *conversion) object(o *object) (map[string]any, error) {
	document := make(map[string]any, len(o.fields))
	for name, value := range o.fields {
		if err := c.member(document, name, value); err != nil {
			return nil, err
		}
	}
	return document, nil
}

func (c *conversion) member(document map[string]any, name string, value ref.Val) error {
	if err := c.spend(len(name)); err != nil {
		return err
	}
	converted, err := c.convert(value)
	if err != nil {
		return fmt.Errorf("fail to convert field %q: %w", name, err)
	}
	document[name] = converted
	return nil
}

func (c *conversion) mapping(m traits.Mapper) (map[string]any, error) {
	document := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("map key %v is of type %s, not string", key.Value(), key.Type().TypeName())
		}
		if err := c.member(document, string(name), m.Get(key)); err != nil {
			return nil, err
		}
	}
	return document, nil
}

func (c *conversion) list(l traits.Lister) ([]any, error) {
	document := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		converted, err := c.convert(it.Next())
		if err != nil {
			return nil, err
		}
		document = append(document, converted)
	}
	return document, nil
}
