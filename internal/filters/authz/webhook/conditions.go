package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	authorizationv1 "k8s.io/api/authorization/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/cel/environment"
)

// maxConditions is the maximum number of conditions of a webhook.
const maxConditions = 64

// Conditions are CEL expressions with the variable request, a SubjectAccessReviewSpec. A nil
// *Conditions matches all requests. They are safe for concurrent use.
type Conditions struct{ expressions []expression }

type expression struct {
	text    string
	program cel.Program
}

// NewConditions compiles CEL expressions. It returns nil without errors if texts is empty. The
// errors of all expressions are reported below the path at.
func NewConditions(texts []string, at *field.Path) (*Conditions, field.ErrorList) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) > maxConditions {
		return nil, field.ErrorList{field.TooMany(at, len(texts), maxConditions)}
	}
	env, err := newEnvironment()
	if err != nil {
		return nil, field.ErrorList{field.InternalError(at, err)}
	}
	var errs field.ErrorList
	c, seen := &Conditions{}, map[string]bool{}
	for i, text := range texts {
		at := at.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(text) == "":
			errs = append(errs, field.Required(at, ""))
			continue
		case seen[text]:
			errs = append(errs, field.Duplicate(at, text))
			continue
		}
		seen[text] = true
		program, err := compile(env, text)
		if err != nil {
			errs = append(errs, field.Invalid(at, text, err.Error()))
			continue
		}
		c.expressions = append(c.expressions, expression{text, program})
	}
	return c, errs
}

func newEnvironment() (*cel.Env, error) {
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	return base.Extend(cel.CustomTypeProvider(typeProvider{base.CELTypeProvider()}), cel.Variable("request", cel.ObjectType(specName)))
}

func compile(env *cel.Env, text string) (cel.Program, error) {
	compiled, _, issues := environment.Compile(env, text, nil)
	if issues.Err() != nil {
		return nil, errors.New("compilation failed: " + issues.String())
	}
	if out := compiled.OutputType(); !out.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("must evaluate to bool but got %v", out)
	}
	program, err := env.Program(compiled, environment.ProgramOptions()...)
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return program, nil
}

// match reports whether all conditions are true. It returns an error if an evaluation fails and no
// other condition is false.
func (c *Conditions) match(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec, metrics *Metrics, name string) (bool, error) {
	if c == nil {
		return true, nil
	}
	began := time.Now()
	matches, err := c.evaluate(ctx, spec)
	metrics.observeMatch(name, matches, err, time.Since(began))
	return matches, err
}

func (c *Conditions) evaluate(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	var errs []error
	variables := map[string]any{"request": valueOf(spec)}
	for _, e := range c.expressions {
		out, _, err := e.program.ContextEval(ctx, variables)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("cel evaluation error: expression '%s' resulted in error: %w", e.text, err))
		case out != types.True:
			return false, nil
		}
	}
	return len(errs) == 0, utilerrors.NewAggregate(errs)
}

// Names of the CEL types of the variable request.
const (
	specName          = "kubernetes.SubjectAccessReviewSpec"
	resourceName      = "kubernetes.ResourceAttributes"
	pathName          = "kubernetes.NonResourceAttributes"
	fieldSelectorName = "kubernetes.FieldSelectorAttributes"
	labelSelectorName = "kubernetes.LabelSelectorAttributes"
	requirementName   = "kubernetes.SelectorRequirement"
)

// typeProvider resolves the types of the variable request, and other types with the embedded
// Provider.
type typeProvider struct{ types.Provider }

// FindStructType implements types.Provider.
func (p typeProvider) FindStructType(name string) (*types.Type, bool) {
	switch name {
	case specName, resourceName, pathName, fieldSelectorName, labelSelectorName, requirementName:
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (p typeProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if t := fieldOf(name, field); t != nil {
		return &types.FieldType{Type: t}, true
	}
	return p.Provider.FindStructFieldType(name, field)
}

// fieldOf returns the CEL type of a field, or nil if the field does not exist.
func fieldOf(name, field string) *cel.Type {
	texts := cel.ListType(cel.StringType)
	switch name + "." + field {
	case specName + ".resourceAttributes":
		return cel.ObjectType(resourceName)
	case specName + ".nonResourceAttributes":
		return cel.ObjectType(pathName)
	case specName + ".groups", requirementName + ".values":
		return texts
	case specName + ".extra":
		return cel.MapType(cel.StringType, texts)
	case resourceName + ".fieldSelector":
		return cel.ObjectType(fieldSelectorName)
	case resourceName + ".labelSelector":
		return cel.ObjectType(labelSelectorName)
	case fieldSelectorName + ".requirements", labelSelectorName + ".requirements":
		return cel.ListType(cel.ObjectType(requirementName))
	case specName + ".user", specName + ".uid", pathName + ".path", pathName + ".verb",
		resourceName + ".namespace", resourceName + ".verb", resourceName + ".group", resourceName + ".version", resourceName + ".resource",
		resourceName + ".subresource", resourceName + ".name", fieldSelectorName + ".rawSelector", labelSelectorName + ".rawSelector",
		requirementName + ".key", requirementName + ".operator":
		return cel.StringType
	}
	return nil
}

// valueOf returns the value of the variable request. It contains all string fields, including empty
// ones, but other fields only if they are set.
func valueOf(spec *authorizationv1.SubjectAccessReviewSpec) map[string]any {
	extra := make(map[string][]string, len(spec.Extra))
	for key, values := range spec.Extra {
		extra[key] = values
	}
	value := map[string]any{"user": spec.User, "groups": spec.Groups, "uid": spec.UID, "extra": extra}
	if a := spec.NonResourceAttributes; a != nil {
		value["nonResourceAttributes"] = map[string]string{"verb": a.Verb, "path": a.Path}
	}
	if a := spec.ResourceAttributes; a != nil {
		value["resourceAttributes"] = resourceValue(a)
	}
	return value
}

func resourceValue(a *authorizationv1.ResourceAttributes) map[string]any {
	value := map[string]any{
		"namespace": a.Namespace, "verb": a.Verb, "group": a.Group, "version": a.Version,
		"resource": a.Resource, "subresource": a.Subresource, "name": a.Name,
	}
	if s := a.FieldSelector; s != nil {
		var list []map[string]any
		for _, r := range s.Requirements {
			list = append(list, map[string]any{"key": r.Key, "operator": string(r.Operator), "values": r.Values})
		}
		value["fieldSelector"] = map[string]any{"requirements": list}
	}
	if s := a.LabelSelector; s != nil {
		var list []map[string]any
		for _, r := range s.Requirements {
			list = append(list, map[string]any{"key": r.Key, "operator": string(r.Operator), "values": r.Values})
		}
		value["labelSelector"] = map[string]any{"requirements": list}
	}
	return value
}
