package scheduling

import (
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/scheduling/v1beta1"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateWorkload validates the tree of templates in a workload. +k8s markers validate the individual
// templates.
func validateWorkload(f validation.Field, workload, old *schedulingv1beta1.Workload) {
	spec, at := &workload.Spec, f.Child("spec")
	validateTemplateNames(at, spec)
	validateTemplateDepth(at.Child("compositePodGroupTemplates"), spec.CompositePodGroupTemplates)
	validatePriorities(at, spec)
	validateChildren(at.Child("compositePodGroupTemplates"), spec.CompositePodGroupTemplates)
	validation.ValidateDeclared(f, declared.Validate_Workload, workload, old, "")
}

// templateNames contains the names in the lists of templates that were validated before. Duplicates within one
// list are rejected by a +k8s marker instead.
type templateNames map[string]bool

func validateTemplateNames(f validation.Field, spec *schedulingv1beta1.WorkloadSpec) {
	if len(spec.CompositePodGroupTemplates) == 0 {
		return
	}
	names := templateNames{}
	for i := range spec.PodGroupTemplates {
		names[spec.PodGroupTemplates[i].Name] = true
	}
	names.validateComposites(f.Child("compositePodGroupTemplates"), spec.CompositePodGroupTemplates)
}

func (n templateNames) validateComposites(f validation.Field, templates []schedulingv1beta1.CompositePodGroupTemplate) {
	for i := range templates {
		n.validateName(f.Index(i), templates[i].Name)
	}
	for i := range templates {
		n[templates[i].Name] = true
	}
	for i := range templates {
		template, at := &templates[i], f.Index(i)
		for j := range template.PodGroupTemplates {
			n.validateName(at.Child("podGroupTemplates").Index(j), template.PodGroupTemplates[j].Name)
		}
		for j := range template.PodGroupTemplates {
			n[template.PodGroupTemplates[j].Name] = true
		}
		n.validateComposites(at.Child("compositePodGroupTemplates"), template.CompositePodGroupTemplates)
	}
}

func (n templateNames) validateName(f validation.Field, name string) {
	if n[name] {
		f.Child("name").Duplicate(name)
	}
}

// validateTemplateDepth limits the number of levels of composite templates.
func validateTemplateDepth(f validation.Field, templates []schedulingv1beta1.CompositePodGroupTemplate) {
	for i := range templates {
		if !shallow(&templates[i], schedulingv1beta1.WorkloadMaxTreeDepth-1) {
			f.Index(i).Invalid(templates[i].CompositePodGroupTemplates,
				fmt.Sprintf("maximum template hierarchy depth is %d", schedulingv1beta1.WorkloadMaxTreeDepth))
		}
	}
}

// shallow reports whether a template has at most the given number of levels.
func shallow(template *schedulingv1beta1.CompositePodGroupTemplate, levels int) bool {
	if levels == 0 {
		return false
	}
	for i := range template.CompositePodGroupTemplates {
		if !shallow(&template.CompositePodGroupTemplates[i], levels-1) {
			return false
		}
	}
	return true
}

// priority contains the priority fields of a template.
type priority struct {
	class string
	value int32
	set   bool
}

func priorityOf(class string, value *int32) priority {
	if value == nil {
		return priority{class: class}
	}
	return priority{class, *value, true}
}

// validatePriorities requires that all templates of a workload have the same priority.
func validatePriorities(f validation.Field, spec *schedulingv1beta1.WorkloadSpec) {
	var first *priority
	same := func(p priority) bool {
		if first == nil {
			first = &p
		}
		return p == *first
	}
	if !samePriorities(spec.PodGroupTemplates, same) {
		f.Invalid(nil, "detected multiple priority configurations")
	} else if !sameInComposites(spec.CompositePodGroupTemplates, same) {
		f.Invalid(nil, "all priority and priorityClassName values must be identical, detected multiple values")
	}
}

func samePriorities(templates []schedulingv1beta1.PodGroupTemplate, same func(priority) bool) bool {
	for i := range templates {
		if !same(priorityOf(templates[i].PriorityClassName, templates[i].Priority)) {
			return false
		}
	}
	return true
}

func sameInComposites(templates []schedulingv1beta1.CompositePodGroupTemplate, same func(priority) bool) bool {
	for i := range templates {
		t := &templates[i]
		if !same(priorityOf(t.PriorityClassName, t.Priority)) ||
			!sameInComposites(t.CompositePodGroupTemplates, same) || !samePriorities(t.PodGroupTemplates, same) {
			return false
		}
	}
	return true
}

// validateChildren requires that composite templates have children.
func validateChildren(f validation.Field, templates []schedulingv1beta1.CompositePodGroupTemplate) {
	for i := range templates {
		t, at := &templates[i], f.Index(i)
		if len(t.PodGroupTemplates) == 0 && len(t.CompositePodGroupTemplates) == 0 {
			at.Invalid(t.Name, "must have at least one child PodGroupTemplate or CompositePodGroupTemplate")
		}
		validateChildren(at.Child("compositePodGroupTemplates"), t.CompositePodGroupTemplates)
	}
}
