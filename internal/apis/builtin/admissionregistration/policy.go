package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func policyDefinitions(rules metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		rules,
		builtin.Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
		builtin.AgeColumn(),
	}
}

func mutatingPolicyColumns() *builtin.Columns[*admissionregistrationv1.MutatingAdmissionPolicy] {
	return &builtin.Columns[*admissionregistrationv1.MutatingAdmissionPolicy]{
		Definitions: policyDefinitions(builtin.Column("Mutations", "integer",
			"Mutation indicates the number of mutations rules defined in this configuration")),
		Cells: func(p *admissionregistrationv1.MutatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKindText(p.Spec.ParamKind), builtin.Age(p.CreationTimestamp, now)}
		},
	}
}

func validatingPolicyColumns() *builtin.Columns[*admissionregistrationv1.ValidatingAdmissionPolicy] {
	return &builtin.Columns[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		Definitions: policyDefinitions(builtin.Column("Validations", "integer",
			"Validations indicates the number of validation rules defined in this configuration")),
		Cells: func(p *admissionregistrationv1.ValidatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKindText(p.Spec.ParamKind), builtin.Age(p.CreationTimestamp, now)}
		},
	}
}

func paramKindText(kind *admissionregistrationv1.ParamKind) string {
	if kind == nil {
		return builtin.Unset
	}
	return kind.APIVersion + "/" + kind.Kind
}

func bindingDefinitions() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
		builtin.Column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
		builtin.AgeColumn(),
	}
}

func mutatingBindingColumns() *builtin.Columns[*admissionregistrationv1.MutatingAdmissionPolicyBinding] {
	return &builtin.Columns[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
		Definitions: bindingDefinitions(),
		Cells: func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRefText(b.Spec.ParamRef), builtin.Age(b.CreationTimestamp, now)}
		},
	}
}

func validatingBindingColumns() *builtin.Columns[*admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
	return &builtin.Columns[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
		Definitions: bindingDefinitions(),
		Cells: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRefText(b.Spec.ParamRef), builtin.Age(b.CreationTimestamp, now)}
		},
	}
}

func paramRefText(ref *admissionregistrationv1.ParamRef) string {
	switch {
	case ref == nil:
		return builtin.Unset
	case ref.Name == "":
		return ref.Selector.String() // as in kube-apiserver, this contains the names of Go fields
	case ref.Namespace == "":
		return "*/" + ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}
