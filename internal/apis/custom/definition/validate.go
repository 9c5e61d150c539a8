package definition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validator collects the errors of one definition.
type validator struct {
	crd *apiextensions.CustomResourceDefinition
	// old is the replaced definition. It is nil if crd is a new definition.
	old  *apiextensionsv1.CustomResourceDefinition
	ctx  context.Context
	errs field.ErrorList
}

func (v *validator) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

// name requires the name plural.group, so that at most one definition defines a resource. Generated
// names are invalid.
func (v *validator) name() {
	want := v.crd.Spec.Names.Plural + "." + v.crd.Spec.Group
	for _, name := range [...]struct{ field, value string }{{"generateName", v.crd.GenerateName}, {"name", v.crd.Name}} {
		if name.value != "" && name.value != want {
			v.add(field.Invalid(field.NewPath("metadata", name.field), name.value, `must be spec.names.plural+"."+spec.group`))
		}
	}
}

// metadata validates the metadata a second time, after the registry, because kube-apiserver returns each
// metadata error twice.
func (v *validator) metadata(meta, old *metav1.ObjectMeta) {
	v.errs = append(v.errs, validation.ValidateObjectMetaUpdate(meta, old, field.NewPath("metadata"))...)
}

func (v *validator) all() {
	v.spec(field.NewPath("spec"))
	if v.old != nil {
		v.immutable(v.old)
	}
	v.names(&v.crd.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
	v.storedVersions(field.NewPath("status", "storedVersions"))
}

func (v *validator) spec(at *field.Path) {
	spec := &v.crd.Spec
	v.group(at.Child("group"))
	v.oneOf(at.Child("scope"), string(spec.Scope), "Cluster", "Namespaced")
	if spec.Validation == nil || spec.Validation.OpenAPIV3Schema == nil {
		for i, version := range spec.Versions {
			if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
				v.add(field.Required(at.Child("versions").Index(i).Child("schema", "openAPIV3Schema"), ""))
			}
		}
	}
	v.versions(at)
	v.requiredNames(at.Child("names"))
	v.names(&spec.Names, at.Child("names"))
	v.schema(spec.Validation, spec.Version, v.anyStatus(), at.Child("validation"))
	v.subresources(spec.Subresources, at.Child("subresources"))
	v.columns(spec.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))
	if len(spec.SelectableFields) > 0 {
		if spec.Validation == nil {
			v.add(field.Invalid(at.Child("selectableFields"), "", "may only be set when validations.schema is included"))
		} else {
			v.selectableFields(spec.SelectableFields, spec.Validation.OpenAPIV3Schema, at.Child("selectableFields"))
		}
	}
	v.conversion(spec.Conversion, at.Child("conversion"))
}

func (v *validator) group(at *field.Path) {
	group := v.crd.Spec.Group
	if group == "" {
		v.add(field.Required(at, ""))
	} else if faults := utilvalidation.IsDNS1123Subdomain(group); len(faults) > 0 {
		v.add(field.Invalid(at, group, strings.Join(faults, ",")))
	} else if !strings.Contains(group, ".") {
		v.add(field.Invalid(at, group, "should be a domain with at least one dot"))
	}
}

// oneOf requires one of the allowed values.
func (v *validator) oneOf(at *field.Path, value string, allowed ...string) {
	if value == "" {
		v.add(field.Required(at, ""))
	} else if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(at, value, allowed))
	}
}

func (v *validator) versions(at *field.Path) {
	spec := &v.crd.Spec
	seen := map[string]bool{}
	stored, unique := 0, true
	for i := range spec.Versions {
		version := &spec.Versions[i]
		if version.Storage {
			stored++
		}
		unique = unique && !seen[version.Name]
		seen[version.Name] = true
		v.version(version, at.Child("versions").Index(i))
	}
	if spec.PreserveUnknownFields == nil || *spec.PreserveUnknownFields {
		if v.anySchema(hasDefault) {
			v.add(field.Invalid(at.Child("preserveUnknownFields"), true, "must be false in order to use defaults in the schema"))
		}
	}
	if !unique {
		v.add(field.Invalid(at.Child("versions"), spec.Versions, "must contain unique version names"))
	}
	if stored != 1 {
		v.add(field.Invalid(at.Child("versions"), spec.Versions, "must have exactly one version marked as storage version"))
	}
	if spec.Version != "" {
		if faults := utilvalidation.IsDNS1035Label(spec.Version); len(faults) > 0 {
			v.add(field.Invalid(at.Child("version"), spec.Version, strings.Join(faults, ",")))
		}
	}
}

func (v *validator) version(version *apiextensions.CustomResourceDefinitionVersion, at *field.Path) {
	if faults := utilvalidation.IsDNS1035Label(version.Name); len(faults) > 0 {
		v.add(field.Invalid(at.Child("name"), version.Name, strings.Join(faults, ",")))
	}
	for _, fault := range deprecationFaults(version) {
		v.add(field.Invalid(at.Child("deprecationWarning"), version.DeprecationWarning, fault))
	}
	v.schema(version.Schema, version.Name, v.hasStatus(version), at.Child("schema"))
	v.subresources(version.Subresources, at.Child("subresources"))
	v.columns(version.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))
	if len(version.SelectableFields) == 0 {
		return
	}
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		v.add(field.Invalid(at.Child("selectableFields"), "", "may only be set when `version.schema.openAPIV3Schema` is not included"))
		return
	}
	v.selectableFields(version.SelectableFields, version.Schema.OpenAPIV3Schema, at.Child("selectableFields"))
}

func deprecationFaults(version *apiextensions.CustomResourceDefinitionVersion) (faults []string) {
	warning := version.DeprecationWarning
	if warning == nil {
		return nil
	}
	if !version.Deprecated {
		return []string{"can only be set for deprecated versions"}
	}
	if len(*warning) > 256 {
		faults = append(faults, "must be <= 256 characters long")
	}
	if *warning == "" {
		faults = append(faults, "must not be an empty string")
	}
	for i, r := range *warning {
		if !unicode.IsPrint(r) {
			faults = append(faults, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
			break
		}
	}
	if !utf8.ValidString(*warning) {
		faults = append(faults, "must only contain printable UTF-8 characters")
	}
	return faults
}

// hasStatus reports whether a version has the status subresource.
func (v *validator) hasStatus(version *apiextensions.CustomResourceDefinitionVersion) bool {
	subresources := version.Subresources
	if subresources == nil {
		subresources = v.crd.Spec.Subresources
	}
	return subresources != nil && subresources.Status != nil
}

func (v *validator) anyStatus() bool {
	return slices.ContainsFunc(v.crd.Spec.Versions, func(version apiextensions.CustomResourceDefinitionVersion) bool {
		return v.hasStatus(&version)
	})
}

func (v *validator) requiredNames(at *field.Path) {
	names := &v.crd.Spec.Names
	for _, name := range []struct{ field, value string }{
		{"plural", names.Plural}, {"singular", names.Singular}, {"kind", names.Kind}, {"listKind", names.ListKind},
	} {
		if name.value == "" {
			v.add(field.Required(at.Child(name.field), ""))
		}
	}
}

func (v *validator) names(names *apiextensions.CustomResourceDefinitionNames, at *field.Path) {
	v.label(at.Child("plural"), names.Plural)
	v.label(at.Child("singular"), names.Singular)
	v.kind(at.Child("kind"), names.Kind)
	v.kind(at.Child("listKind"), names.ListKind)
	for i, name := range names.ShortNames {
		v.requiredLabel(at.Child("shortNames").Index(i), name)
	}
	if names.Kind != "" && names.Kind == names.ListKind {
		v.add(field.Invalid(at.Child("listKind"), names.ListKind, "kind and listKind may not be the same"))
	}
	for i, category := range names.Categories {
		v.requiredLabel(at.Child("categories").Index(i), category)
	}
}

func (v *validator) label(at *field.Path, value string) {
	if value != "" {
		v.requiredLabel(at, value)
	}
}

func (v *validator) requiredLabel(at *field.Path, value string) {
	if faults := utilvalidation.IsDNS1035Label(value); len(faults) > 0 {
		v.add(field.Invalid(at, value, strings.Join(faults, ",")))
	}
}

func (v *validator) kind(at *field.Path, value string) {
	if faults := utilvalidation.IsDNS1035Label(strings.ToLower(value)); value != "" && len(faults) > 0 {
		v.add(field.Invalid(at, value, "may have mixed case, but should otherwise match: "+strings.Join(faults, ",")))
	}
}

// storedVersions requires all versions of status.storedVersions to exist, so that stored
// objects can be read.
func (v *validator) storedVersions(at *field.Path) {
	stored := v.crd.Status.StoredVersions
	if len(stored) == 0 {
		v.add(field.Invalid(at, stored, "must have at least one stored version"))
		return
	}
	missing := map[string]int{}
	for i, name := range stored {
		missing[name] = i
	}
	for _, version := range v.crd.Spec.Versions {
		if _, there := missing[version.Name]; version.Storage && !there {
			v.add(field.Invalid(at, stored, "must have the storage version "+version.Name))
		}
		delete(missing, version.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		v.add(field.Invalid(at.Index(missing[name]), name, fmt.Sprintf("missing from spec.versions; %[1]s was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions", name)))
	}
}

// immutable rejects changes to immutable fields. Scope and kind are immutable once the definition is
// established.
func (v *validator) immutable(old *apiextensionsv1.CustomResourceDefinition) {
	at, spec := field.NewPath("spec"), &v.crd.Spec
	if IsTrue(old, apiextensionsv1.Established) {
		v.errs = append(v.errs, validation.ValidateImmutableField(spec.Scope, apiextensions.ResourceScope(old.Spec.Scope), at.Child("scope"))...)
		v.errs = append(v.errs, validation.ValidateImmutableField(spec.Names.Kind, old.Spec.Names.Kind, at.Child("names", "kind"))...)
	}
	v.errs = append(v.errs, validation.ValidateImmutableField(spec.Group, old.Spec.Group, at.Child("group"))...)
	v.errs = append(v.errs, validation.ValidateImmutableField(spec.Names.Plural, old.Spec.Names.Plural, at.Child("names", "plural"))...)
}

// preserveUnknown rejects spec.preserveUnknownFields, unless it was set before.
func (v *validator) preserveUnknown(old *apiextensionsv1.CustomResourceDefinition) {
	if old != nil && old.Spec.PreserveUnknownFields {
		return
	}
	if p := v.crd.Spec.PreserveUnknownFields; p != nil && *p {
		v.add(field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
}
