package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Policy is a Policy of audit.k8s.io/v1. The first matching rule determines which data of a request
// is recorded. A request without a matching rule is not recorded.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Rules []PolicyRule `json:"rules"`
	// OmitStages are stages that are not recorded, in addition to the stages that the matching rule omits.
	OmitStages []Stage `json:"omitStages,omitempty"`
	// OmitManagedFields removes managed fields from bodies, unless the rule overrides it.
	OmitManagedFields bool `json:"omitManagedFields,omitempty"`
}

// PolicyRule matches requests that match all of its fields. An empty field matches all requests.
type PolicyRule struct {
	Level Level `json:"level"`

	Users      []string `json:"users,omitempty"`
	UserGroups []string `json:"userGroups,omitempty"`
	Verbs      []string `json:"verbs,omitempty"`

	Resources []GroupResources `json:"resources,omitempty"`
	// Namespaces are namespace names. An empty string matches cluster-scoped resources.
	Namespaces []string `json:"namespaces,omitempty"`
	// NonResourceURLs are paths. A trailing * matches any suffix.
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`

	OmitStages        []Stage `json:"omitStages,omitempty"`
	OmitManagedFields *bool   `json:"omitManagedFields,omitempty"`
}

// GroupResources matches resources of a group by plural name. pods/log matches the subresource log
// of pods, pods/* matches pods and all subresources of pods, and */scale matches the subresource
// scale of all resources. An empty list matches all resources of the group.
type GroupResources struct {
	Group         string   `json:"group,omitempty"`
	Resources     []string `json:"resources,omitempty"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// ParsePolicy parses and validates a policy in YAML or JSON. As in kube-apiserver, unknown and
// duplicate fields are not errors; they are returned as warnings.
func ParsePolicy(text []byte) (*Policy, []error, error) {
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, nil, fmt.Errorf("failed decoding: %w", err)
	}
	policy := &Policy{}
	warnings, err := kjson.UnmarshalStrict(document, policy)
	if err != nil {
		return nil, nil, fmt.Errorf("failed decoding: %w", err)
	}
	if _, err := yaml.YAMLToJSONStrict(text); err != nil {
		warnings = append(warnings, err)
	}
	switch {
	case policy.Kind == "":
		return nil, nil, errors.New("failed decoding: Object 'Kind' is missing")
	case policy.APIVersion == "":
		return nil, nil, errors.New("failed decoding: Object 'apiVersion' is missing")
	case policy.APIVersion != APIVersion, policy.Kind != "Policy":
		return nil, nil, fmt.Errorf("unknown group version field %s, Kind=%s in policy", policy.APIVersion, policy.Kind)
	}
	if err := policy.validate().ToAggregate(); err != nil {
		return nil, nil, err
	}
	if len(policy.Rules) == 0 {
		return nil, nil, errors.New("loaded illegal policy with 0 rules")
	}
	return policy, warnings, nil
}

// validate returns all errors, with kube-apiserver's messages.
func (p *Policy) validate() field.ErrorList {
	errs := validateStages(field.NewPath("omitStages"), p.OmitStages)
	for i := range p.Rules {
		errs = append(errs, p.Rules[i].validate(field.NewPath("rules").Index(i))...)
	}
	return errs
}

func (r *PolicyRule) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch known := levels(); {
	case r.Level == "":
		errs = append(errs, field.Required(path.Child("level"), ""))
	case !slices.Contains(known, r.Level):
		errs = append(errs, field.NotSupported(path.Child("level"), r.Level, known))
	}
	errs = append(errs, validateURLs(path.Child("nonResourceURLs"), r.NonResourceURLs)...)
	errs = append(errs, validateResources(path.Child("resources"), r.Resources)...)
	errs = append(errs, validateStages(path.Child("omitStages"), r.OmitStages)...)
	if len(r.NonResourceURLs) > 0 && (len(r.Resources) > 0 || len(r.Namespaces) > 0) {
		errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
	}
	return errs
}

func validateURLs(path *field.Path, urls []string) field.ErrorList {
	var errs field.ErrorList
	for i, url := range urls {
		if url == "*" {
			continue
		}
		if !strings.HasPrefix(url, "/") {
			errs = append(errs, field.Invalid(path.Index(i), url, "non-resource URL rules must begin with a '/' character"))
		}
		if url != "" && strings.Contains(url[:len(url)-1], "*") {
			errs = append(errs, field.Invalid(path.Index(i), url, "non-resource URL wildcards '*' must be the final character of the rule"))
		}
	}
	return errs
}

// validateResources validates the resources of a rule. As in kube-apiserver, the field paths of the
// errors do not contain the index of the element.
func validateResources(path *field.Path, resources []GroupResources) field.ErrorList {
	var errs field.ErrorList
	for _, r := range resources {
		if r.Group != "" && r.Group != "*" {
			if problems := apivalidation.NameIsDNSSubdomain(r.Group, false); len(problems) > 0 {
				errs = append(errs, field.Invalid(path.Child("group"), r.Group, strings.Join(problems, ",")))
			}
		}
		if len(r.ResourceNames) > 0 && len(r.Resources) == 0 {
			errs = append(errs, field.Invalid(path.Child("resourceNames"), r.ResourceNames, "using resourceNames requires at least one resource"))
		}
	}
	return errs
}

func validateStages(path *field.Path, omitted []Stage) field.ErrorList {
	var errs field.ErrorList
	known := stages()
	for i, stage := range omitted {
		if !slices.Contains(known, stage) {
			errs = append(errs, field.Invalid(path.Index(i), string(stage),
				"allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"))
		}
	}
	return errs
}

// levels returns all levels. Each level includes the data of the previous levels.
func levels() []Level {
	return []Level{LevelNone, LevelMetadata, LevelRequest, LevelRequestResponse}
}

func stages() []Stage {
	return []Stage{StageRequestReceived, StageResponseStarted, StageResponseComplete, StagePanic}
}
