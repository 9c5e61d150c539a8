package definition

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/rules"
)

// maxSelectableFields is the maximum number of selectable fields of a version.
const maxSelectableFields = 8

func (v *validator) subresources(subresources *apiextensions.CustomResourceSubresources, at *field.Path) {
	if subresources == nil || subresources.Scale == nil {
		return
	}
	scale := subresources.Scale
	v.replicasPath(at.Child("scale.specReplicasPath"), scale.SpecReplicasPath, ".spec")
	v.replicasPath(at.Child("scale.statusReplicasPath"), scale.StatusReplicasPath, ".status")
	if path := scale.LabelSelectorPath; path != nil && *path != "" {
		at := at.Child("scale.labelSelectorPath")
		if v.simplePath(at, *path) && !strings.HasPrefix(*path, ".spec.") && !strings.HasPrefix(*path, ".status.") {
			v.add(field.Invalid(at, *path, "should be a json path under either .spec or .status"))
		}
	}
}

func (v *validator) replicasPath(at *field.Path, path, under string) {
	if path == "" {
		v.add(field.Required(at, ""))
	} else if v.simplePath(at, path) && !strings.HasPrefix(path, under+".") {
		v.add(field.Invalid(at, path, "should be a json path under "+under))
	}
}

// simplePath reports whether a non-empty path is a simple JSON path. If it is not, simplePath adds an error.
func (v *validator) simplePath(at *field.Path, path string) bool {
	if path[0] == '.' {
		return true
	}
	v.add(field.Invalid(at, path, "must be a simple json path starting with ."))
	return false
}

func (v *validator) columns(columns []apiextensions.CustomResourceColumnDefinition, at *field.Path) {
	types := []string{"boolean", "date", "integer", "number", "string"}
	formats := []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
	for i := range columns {
		column, at := &columns[i], at.Index(i)
		if column.Name == "" {
			v.add(field.Required(at.Child("name"), ""))
		}
		oneOf := "must be one of " + strings.Join(types, ",")
		if column.Type == "" {
			v.add(field.Required(at.Child("type"), oneOf))
		} else if !slices.Contains(types, column.Type) {
			v.add(field.Invalid(at.Child("type"), column.Type, oneOf))
		}
		if column.Format != "" && !slices.Contains(formats, column.Format) {
			v.add(field.Invalid(at.Child("format"), column.Format, "must be one of "+strings.Join(formats, ",")))
		}
		if column.JSONPath == "" {
			v.add(field.Required(at.Child("JSONPath"), ""))
		} else {
			v.simplePath(at.Child("JSONPath"), column.JSONPath)
		}
	}
}

func (v *validator) selectableFields(fields []apiextensions.SelectableField, root *apiextensions.JSONSchemaProps, at *field.Path) {
	seen := map[string]bool{}
	for i, selectable := range fields {
		at, path := at.Index(i).Child("jsonPath"), selectable.JSONPath
		if path == "" {
			v.add(field.Required(at, ""))
			continue
		}
		_, found, err := rules.FieldAt(root, path, false)
		if err != nil {
			v.add(field.Invalid(at, path, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		switch found.Type {
		case "string", "boolean", "integer":
		default:
			v.add(field.Invalid(at, path, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if seen[path] {
			v.add(field.Duplicate(at, path))
		}
		seen[path] = true
	}
	if len(seen) > maxSelectableFields {
		v.add(field.TooMany(at, len(seen), maxSelectableFields))
	}
}

func (v *validator) conversion(conversion *apiextensions.CustomResourceConversion, at *field.Path) {
	if conversion == nil {
		return
	}
	v.oneOf(at.Child("strategy"), string(conversion.Strategy), "None", "Webhook")
	if conversion.Strategy != apiextensions.WebhookConverter {
		const detail = "should not be set when strategy is not set to Webhook"
		if conversion.WebhookClientConfig != nil {
			v.add(field.Forbidden(at.Child("webhookClientConfig"), detail))
		}
		if len(conversion.ConversionReviewVersions) > 0 {
			v.add(field.Forbidden(at.Child("conversionReviewVersions"), detail))
		}
		return
	}
	v.webhook(conversion.WebhookClientConfig, at.Child("webhookClientConfig"))
	v.reviewVersions(conversion.ConversionReviewVersions, at.Child("conversionReviewVersions"))
}

func (v *validator) reviewVersions(versions []string, at *field.Path) {
	if len(versions) == 0 {
		v.add(field.Required(at, ""))
		return
	}
	seen := map[string]bool{}
	for i, version := range versions {
		if seen[version] {
			v.add(field.Invalid(at.Index(i), version, "duplicate version"))
			continue
		}
		seen[version] = true
		for _, fault := range utilvalidation.IsDNS1035Label(version) {
			v.add(field.Invalid(at.Index(i), version, fault))
		}
	}
	if !hasKnownReview(versions) && v.requireKnownReview() {
		v.add(field.Invalid(at, versions, "must include at least one of v1, v1beta1"))
	}
}
