package policies

import (
	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/cel/policy"
)

// compiled contains the compiled expressions of a policy.
type compiled struct {
	conditions  policy.Conditions
	variables   []policy.Variable
	validations []validation
	annotations []*policy.Program
	mutations   []*policy.Program
}

// validation is a compiled validation of a policy. message is nil if the validation has no message expression.
type validation struct {
	check, message *policy.Program
}

// programs returns the compiled expressions of a policy. The first call compiles them. Compilation errors are
// returned when an expression is evaluated.
func (d *definition) programs(shared *policy.Programs) *compiled {
	d.compile.Do(func() {
		c := policy.Compiler{Variables: len(d.variables) > 0 || d.mutating != nil, Programs: shared}
		sees := policy.Scope{Params: d.paramKind != nil, Authorizer: true}
		conditions := policy.Compiler{Programs: shared}
		d.compiled.conditions = conditions.Conditions(d.conditions, sees)
		for i := range d.variables {
			d.compiled.variables = append(d.compiled.variables, c.Variable(d.variables[i].Name, d.variables[i].Expression, sees))
		}
		if d.validating != nil {
			d.compiled.compileValidations(&c, d.validating, sees)
		} else {
			d.compiled.compileMutations(&c, d.mutating, sees)
		}
	})
	return &d.compiled
}

func (p *compiled) compileValidations(c *policy.Compiler, spec *admissionregistrationv1.ValidatingAdmissionPolicySpec, sees policy.Scope) {
	for i := range spec.Validations {
		v := validation{check: c.Program(spec.Validations[i].Expression, sees, cel.BoolType)}
		if text := spec.Validations[i].MessageExpression; text != "" {
			v.message = c.Program(text, policy.Scope{Params: sees.Params}, cel.StringType)
		}
		p.validations = append(p.validations, v)
	}
	for i := range spec.AuditAnnotations {
		p.annotations = append(p.annotations, c.Program(spec.AuditAnnotations[i].ValueExpression, sees, cel.StringType, cel.NullType))
	}
}

func (p *compiled) compileMutations(c *policy.Compiler, spec *admissionregistrationv1.MutatingAdmissionPolicySpec, sees policy.Scope) {
	sees.Patches = true
	for i := range spec.Mutations {
		switch m := &spec.Mutations[i]; {
		case m.JSONPatch != nil:
			p.mutations = append(p.mutations, c.Program(m.JSONPatch.Expression, sees, policy.PatchesType()))
		case m.ApplyConfiguration != nil:
			p.mutations = append(p.mutations, c.Program(m.ApplyConfiguration.Expression, sees, policy.ObjectType()))
		}
	}
}
