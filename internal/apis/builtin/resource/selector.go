package resource

import (
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/feature"
)

// tooComplex is the error for expressions above the cost limit.
const tooComplex = "too complex, exceeds cost limit"

// selectors validates CEL expressions that select devices or derive attributes from them. It creates the CEL
// environments on first use. It is safe for concurrent use.
type selectors struct {
	mu   sync.Mutex
	made map[deviceFields]*cel.Env
}

// deviceFields contains the states of the feature gates that determine the fields of the variable "device".
type deviceFields struct {
	shared bool // DRAConsumableCapacity
	lists  bool // DRAListTypeAttributes
}

func (s *selectors) environment(f validation.Field) (*cel.Env, error) {
	of := deviceFields{shared: f.Enabled(feature.DRAConsumableCapacity), lists: f.Enabled(feature.DRAListTypeAttributes)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if env := s.made[of]; env != nil {
		return env, nil
	}
	env, err := of.environment()
	if err != nil {
		return nil, fmt.Errorf("declare a device: %w", err)
	}
	if s.made == nil {
		s.made = map[deviceFields]*cel.Env{}
	}
	s.made[of] = env
	return env, nil
}

// validateSelectors validates device selectors. It skips lists that are too long, because a +k8s marker rejects
// them.
func (s *selectors) validateSelectors(f validation.Field, list []resourcev1.DeviceSelector) {
	if len(list) > resourcev1.DeviceSelectorsMaxSize {
		return
	}
	for i := range list {
		at := f.Index(i).Child("cel")
		if list[i].CEL == nil {
			at.Required("")
			continue
		}
		cost, ok := s.compile(at.Child("expression"), list[i].CEL.Expression, checkBool)
		if ok && cost > resourcev1.CELSelectorExpressionMaxCost {
			at.Child("expression").Forbidden(tooComplex)
		}
	}
}

// compile compiles an expression and adds its errors to f. If the expression is valid, it returns the estimated
// maximum cost. refuse returns an error message if the result type of the expression is not accepted, or "".
func (s *selectors) compile(f validation.Field, expression string, refuse func(result, attribute *cel.Type) string) (cost uint64, ok bool) {
	if len(expression) > resourcev1.CELSelectorExpressionMaxLength {
		f.TooLong(resourcev1.CELSelectorExpressionMaxLength)
		return 0, false
	}
	if f.Context().Err() != nil {
		return 0, false // the request was canceled
	}
	env, err := s.environment(f)
	if err != nil {
		f.Add(field.InternalError(f.Path(), err))
		return 0, false
	}
	ast, _, issues := environment.Compile(env, expression, nil)
	if issues.Err() != nil {
		f.Invalid(expression, "compilation failed: "+issues.String())
		return 0, false
	}
	attribute := types.AnyType
	if f.Enabled(feature.DRAListTypeAttributes) {
		attribute = types.DynType
	}
	if problem := refuse(ast.OutputType(), attribute); problem != "" {
		f.Invalid(expression, problem)
		return 0, false
	}
	estimate, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: deviceSizes{}})
	if err != nil {
		f.Add(field.InternalError(f.Path(), fmt.Errorf("cost estimation failed: %w", err)))
		return 0, false
	}
	return estimate.Max, true
}

// checkBool returns an error message unless the type of a result is valid for selectors. Attributes are
// accepted, because the type of an attribute is known only at run time.
func checkBool(result, attribute *cel.Type) string {
	if result.IsExactType(types.BoolType) || result.IsExactType(attribute) {
		return ""
	}
	return fmt.Sprintf("must evaluate to %s or the unknown type, not %s", types.BoolType, result)
}

// checkAttribute returns an error message unless the type of a result is valid for device attributes.
func checkAttribute(result, attribute *cel.Type) string {
	value := result
	if result.Kind() == types.ListKind {
		value = result.Parameters()[0]
	}
	switch value.Kind() {
	case types.BoolKind, types.IntKind, types.StringKind, types.AnyKind, types.DynKind:
		return ""
	}
	if value.TypeName() == semverType {
		return ""
	}
	return fmt.Sprintf("must evaluate to a string, an int, a bool, a semver, a list of one of them or the unknown type, not %s", result)
}

// Names of types in the CEL environment.
const (
	deviceType   = "kubernetes.DRADevice"
	quantityType = "kubernetes.Quantity"
	semverType   = "kubernetes.Semver"
)

// environment returns the CEL environment of the Kubernetes API, extended with the variable "device", the
// bindings extension of CEL and, if d.lists is set, the function "includes".
func (d deviceFields) environment() (*cel.Env, error) {
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		ext.Bindings(ext.BindingsVersion(0)),
		cel.CustomTypeProvider(deviceProvider{base.CELTypeProvider(), d}),
		cel.Variable("device", cel.ObjectType(deviceType)),
	}
	if d.lists {
		options = append(options, cel.Function("includes", cel.MemberOverload("dra_includes_dyn_dyn",
			[]*cel.Type{cel.DynType, cel.DynType}, cel.BoolType, cel.BinaryBinding(includes))))
	}
	return base.Extend(options...)
}

// deviceProvider provides the type of the variable "device". It delegates all other types to the embedded
// provider.
type deviceProvider struct {
	types.Provider
	fields deviceFields
}

// FindStructType implements types.Provider.
func (p deviceProvider) FindStructType(name string) (*types.Type, bool) {
	if name == deviceType {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (p deviceProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != deviceType {
		return p.Provider.FindStructFieldType(name, field)
	}
	byName := func(value *types.Type) *types.Type {
		return types.NewMapType(types.StringType, types.NewMapType(types.StringType, value))
	}
	switch {
	case field == "driver":
		return &types.FieldType{Type: types.StringType}, true
	case field == "allowMultipleAllocations" && p.fields.shared:
		return &types.FieldType{Type: types.BoolType}, true
	case field == "attributes" && p.fields.lists:
		return &types.FieldType{Type: byName(types.DynType)}, true
	case field == "attributes":
		return &types.FieldType{Type: byName(types.AnyType)}, true
	case field == "capacity":
		return &types.FieldType{Type: byName(types.NewObjectType(quantityType))}, true
	}
	return nil, false
}

// includes implements TARGET.includes(VALUE). It reports whether target equals value or is a list that contains
// value. It returns an error for a list that is longer than any list in a device, because its cost exceeds the
// estimate.
func includes(target, value ref.Val) ref.Val {
	list, ok := target.(traits.Lister)
	if !ok {
		return types.Bool(target.Equal(value) == types.True)
	}
	n := 0
	for i := list.Iterator(); i.HasNext() == types.True; n++ {
		if n == resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
			return types.NewErr("'includes' function cannot be applied to lists longer than %d values", n)
		}
		if i.Next().Equal(value) == types.True {
			return types.True
		}
	}
	return types.False
}

// deviceSizes estimates the sizes of the fields of a device. CEL cost estimates depend on them.
type deviceSizes struct{}

var _ checker.CostEstimator = deviceSizes{}

// unbounded is the size estimate for unknown fields.
const unbounded = math.MaxUint64

// EstimateSize implements checker.CostEstimator.
func (deviceSizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	if len(path) == 0 || path[0] != "device" {
		return nil
	}
	if size := deviceSize(path[1:]); size != unbounded {
		return &checker.SizeEstimate{Max: size}
	}
	return nil
}

// deviceSize returns the maximum size of a field of a device. As in kube-apiserver, the size of the device
// itself and of quantities is 0.
func deviceSize(path []string) uint64 {
	switch {
	case len(path) == 0:
		return 0
	case len(path) == 1 && path[0] == "driver":
		return resourcev1.DriverNameMaxLength
	case len(path) == 1 && path[0] == "allowMultipleAllocations":
		return 1
	case path[0] == "attributes", path[0] == "capacity":
		return mapSize(path[0], path[1:])
	}
	return unbounded
}

// mapSize returns the maximum size of a field in attributes or capacity. Both are maps from domains to maps,
// whose keys are names.
func mapSize(of string, path []string) uint64 {
	value := func(step string) bool { return step == "@items" || step == "@values" }
	switch {
	case len(path) == 0, len(path) == 1 && value(path[0]):
		return resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	case len(path) == 1 && path[0] == "@keys":
		return resourcev1.DeviceMaxDomainLength
	case len(path) != 2 || !value(path[0]):
		return unbounded
	case path[1] == "@keys":
		return resourcev1.DeviceMaxIDLength
	case of == "attributes": // an attribute of any name
		return max(resourcev1.DeviceAttributeMaxValueLength, resourcev1.ResourceSliceMaxAttributeValuesPerDevice)
	case value(path[1]):
		return 0 // a quantity
	}
	return unbounded
}

// EstimateCallCost implements checker.CostEstimator.
func (deviceSizes) EstimateCallCost(function, _ string, target *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	if function != "includes" || target == nil {
		return nil
	}
	return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Max: resourcev1.ResourceSliceMaxAttributeValuesPerDevice}}
}
