package schema

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"encoding/json"
)

// ValidateEmbedded validates the apiVersion, kind and metadata of the resources embedded in a value. base is
// the path of the value in errors.
func (s *Schema) ValidateEmbedded(base *field.Path, value any) field.ErrorList {
	var errs field.ErrorList
	s.embedded(base, value, &errs)
	return errs
}

func (s *Schema) embedded(at *field.Path, value any, errs *field.ErrorList) {
	if s == nil || s.below&hasEmbedded == 0 || len(*errs) >= maxFaults {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		if s.Embedded {
			*errs = append(*errs, ValidateResource(at, value)...)
		}
		for _, name := range sortedKeys(value) {
			if member, declared := s.Properties[name]; declared {
				member.embedded(at.Child(name), value[name], errs)
			} else {
				s.Additional.embedded(at.Key(name), value[name], errs)
			}
		}
	case []any:
		for i := range value {
			s.Items.embedded(at.Index(i), value[i], errs)
		}
	}
}

// ValidateResource validates the apiVersion, kind and metadata of a resource. at is the path of the resource in
// errors.
func ValidateResource(at *field.Path, resource map[string]any) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []string{"apiVersion", "kind"} {
		value, found := resource[name]
		text, isText := value.(string)
		switch {
		case !found:
			errs = append(errs, field.Required(at.Child(name), ""))
		case !isText:
			errs = append(errs, field.Invalid(at.Child(name), value, "must be a string"))
		case text == "":
			errs = append(errs, field.Invalid(at.Child(name), text, "must not be empty"))
		case name == "apiVersion":
			if _, err := runtimeschema.ParseGroupVersion(text); err != nil {
				errs = append(errs, field.Invalid(at.Child(name), text, err.Error()))
			}
		default:
			if faults := utilvalidation.IsDNS1035Label(strings.ToLower(text)); len(faults) > 0 {
				errs = append(errs, field.Invalid(at.Child(name), text, "may have mixed case, but should otherwise match: "+strings.Join(faults, ",")))
			}
		}
	}
	if raw, found := resource["metadata"]; found {
		errs = append(errs, validateMetadata(at.Child("metadata"), raw)...)
	}
	return errs
}

func validateMetadata(at *field.Path, raw any) field.ErrorList {
	var meta metav1.ObjectMeta
	encoded, err := json.Marshal(raw)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(encoded, &meta)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, raw, err.Error())}
	}
	if meta.Name == "" {
		meta.Name = "unnamed" // an embedded resource need not have a name
	}
	return validation.ValidateObjectMeta(&meta, meta.Namespace != "", path.ValidatePathSegmentName, at)
}
