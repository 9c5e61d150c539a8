package definition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

// defaultFaults validates the default values in a structural schema. Default values must be valid, and pruning
// must not change them.
func defaultFaults(ctx context.Context, root *props, at *field.Path) field.ErrorList {
	if !hasDefaults(root) {
		return nil
	}
	compiled, err := schema.Compile(root)
	if err != nil {
		return field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	w := defaults{ctx: ctx, resource: compiled, budget: rules.Budget}
	w.node(root, compiled.AsResource(), at, nil, false)
	if ctx.Err() != nil {
		w.errs = append(w.errs, field.InternalError(at, fmt.Errorf("validate defaults: %w", context.Cause(ctx))))
	}
	return w.errs
}

func hasDefaults(root *props) bool {
	found := false
	schema.Walk(root, func(s *props) { found = found || s.Default != nil && *s.Default != nil })
	return found
}

// defaults validates default values. It traverses a schema together with its compiled form.
type defaults struct {
	ctx  context.Context
	errs field.ErrorList
	// compiler compiles the rules. All defaults share one cost budget.
	compiler rules.Compiler
	budget   int64
	// resource is the schema of the innermost resource that contains the current node.
	resource *schema.Schema
}

// node validates the default of a node and its descendants. steps is the path to the node from the enclosing
// resource; an empty step is a list element.
func (w *defaults) node(s *props, compiled *schema.Schema, at *field.Path, steps []string, inMeta bool) {
	if w.ctx.Err() != nil || w.budget < 0 || len(w.errs) >= maxErrors {
		return
	}
	if compiled.Embedded {
		outer := w.resource
		w.resource, steps, inMeta = compiled, nil, false
		defer func() { w.resource = outer }()
	}
	if s.Default != nil && *s.Default != nil {
		value := runtime.DeepCopyJSONValue(any(*s.Default))
		if inMeta {
			w.inMetadata(s, compiled, value, at.Child("default"), steps)
		} else {
			w.value(s, compiled, value, at.Child("default"))
		}
	}
	if items := itemsOf(s); items != nil {
		w.node(items, compiled.Items, at.Child("items"), append(slices.Clip(steps), ""), inMeta)
	}
	propertiesAt := at.Child("properties")
	for name, member := range schema.Members(s) {
		isMeta := compiled.Embedded && (name == "metadata" || name == "apiVersion" || name == "kind")
		w.node(member, compiled.Properties[name], propertiesAt.Key(name), append(slices.Clip(steps), name), inMeta || isMeta)
	}
}

// valid validates a default against the schema and its rules, both as an unchanged value and as a new value.
func (w *defaults) valid(s *props, compiled *schema.Schema, value any, at *field.Path) {
	if errs := compiled.Validate(w.ctx, at, value); len(errs) > 0 {
		w.errs = append(w.errs, errs...)
		return
	}
	if !reachesRules(s, value) {
		return // compiling the rules of each default would take quadratic time for nested defaults
	}
	r := w.compiler.Rules(s, compiled == w.resource)
	errs, left := r.Validate(w.ctx, at, value, rules.Options{Old: value, Budget: w.budget})
	if len(errs) == 0 {
		var leftOfNew int64
		errs, leftOfNew = r.Validate(w.ctx, at, value, rules.Options{Budget: w.budget})
		left = min(left, leftOfNew)
	}
	w.errs, w.budget = append(w.errs, errs...), left
}

// reachesRules reports whether the rules of a schema apply to a value or to values in it.
func reachesRules(s *props, value any) bool {
	if value == nil {
		return false
	}
	if len(s.XValidations) > 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if member, found := s.Properties[name]; found && reachesRules(&member, inner) {
				return true
			}
			if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && reachesRules(s.AdditionalProperties.Schema, inner) {
				return true
			}
		}
	case []any:
		items := itemsOf(s)
		return items != nil && slices.ContainsFunc(value, func(inner any) bool { return reachesRules(items, inner) })
	}
	return false
}

func (w *defaults) value(s *props, compiled *schema.Schema, value any, at *field.Path) {
	if compiled.PruneValue(runtime.DeepCopyJSONValue(value)) {
		w.errs = append(w.errs, field.Invalid(at, value, "must not have unknown fields"))
	}
	if doc, ok := value.(map[string]any); ok {
		if _, err := compiled.CoerceEmbedded(at, doc, false, false); err != nil {
			var fault *field.Error
			if errors.As(err, &fault) {
				w.errs = append(w.errs, fault)
			}
			return
		}
	}
	if errs := compiled.ValidateEmbedded(at, value); len(errs) > 0 {
		w.errs = append(w.errs, errs...)
		return
	}
	w.valid(s, compiled, value, at)
}

// inMetadata validates a default in the metadata, apiVersion or kind of a resource, by validating a resource
// that contains the value.
func (w *defaults) inMetadata(s *props, compiled *schema.Schema, value any, at *field.Path, steps []string) {
	around := value
	for _, step := range slices.Backward(steps) {
		if step == "" {
			around = []any{around}
		} else {
			around = map[string]any{step: around}
		}
	}
	doc, ok := around.(map[string]any)
	if !ok {
		return
	}
	for name, word := range map[string]string{"apiVersion": "validation/v1", "kind": "Validation"} {
		if _, said := doc[name]; !said {
			doc[name] = word
		}
	}
	_, err := schema.CoerceMetadata(doc, false, false) // PruneDefaults drops unknown members
	if err == nil {
		err = schema.ValidateResource(nil, doc).ToAggregate()
	}
	if err != nil {
		w.errs = append(w.errs, field.Invalid(at, value, fmt.Sprintf("must result in valid metadata: %v", err)))
		return
	}
	w.valid(s, compiled, value, at)
}
