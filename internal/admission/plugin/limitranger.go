package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// limitRangerAnnotation lists the default values that were set in a pod.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// LimitRanger sets the default requests and limits of containers from the limit ranges of the namespace, and
// rejects pods and claims outside these ranges.
type LimitRanger struct {
	onCreateOrUpdate
	LimitRanges Lister[*corev1.LimitRange]
}

var (
	_ admission.Mutator   = LimitRanger{}
	_ admission.Validator = LimitRanger{}
)

func limitRangerPlugin() Registration {
	return Registration{
		Name: LimitRanger{}.Name(), Description: "applies the default requests and limits of LimitRanges, and rejects pods and claims outside their limits",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return LimitRanger{LimitRanges: cached[*corev1.LimitRange](d, corev1.SchemeGroupVersion, "limitranges")}
		},
	}
}

// Name implements admission.Plugin.
func (LimitRanger) Name() string { return "LimitRanger" }

// Mutate implements admission.Mutator.
func (p LimitRanger) Mutate(ctx context.Context, a *admission.Attributes) error {
	pod := limitedPod(a)
	if pod == nil {
		return nil
	}
	ranges, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, limits := range ranges {
		if err := fillResources(pod, defaultResources(limits)); err != nil {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, field.ErrorList{err})
		}
	}
	a.StoreLookup(p, ranges)
	return nil
}

// Validate implements admission.Validator. If the mutating pass stored its limit ranges, Validate uses them, so
// that a pod is checked against the same ranges from which it received its defaults.
func (p LimitRanger) Validate(ctx context.Context, a *admission.Attributes) error {
	check := limitsOf(a)
	if check == nil {
		return nil
	}
	ranges, ok := a.StoredLookup(p).([]*corev1.LimitRange)
	if !ok {
		var err error
		if ranges, err = p.ranges(ctx, a); err != nil {
			return err
		}
	}
	for _, limits := range ranges {
		if err := check(limits); err != nil {
			return reject(a, err)
		}
	}
	return nil
}

// limitsOf returns the function that checks the request's object against a limit range. It returns nil if limit
// ranges do not apply to the request.
func limitsOf(a *admission.Attributes) func(*corev1.LimitRange) error {
	if pod := limitedPod(a); pod != nil {
		return func(limits *corev1.LimitRange) error { return checkPodLimits(pod, limits) }
	}
	claim, old := objectOf[corev1.PersistentVolumeClaim](a, "", "persistentvolumeclaims"), oldOf[corev1.PersistentVolumeClaim](a)
	if claim == nil || old != nil && old.DeletionTimestamp != nil {
		return nil
	}
	return func(limits *corev1.LimitRange) error { return checkClaimLimits(claim, limits) }
}

// limitedPod returns the pod if the request can change the pod's resources, otherwise nil. The resources of an
// existing pod can change only through the resize subresource.
func limitedPod(a *admission.Attributes) *corev1.Pod {
	subresource := ""
	if a.Operation == admission.Update {
		subresource = "resize"
	}
	pod, _ := a.Object.(*corev1.Pod)
	old := oldOf[corev1.Pod](a)
	if !isFor(a, "", "pods", subresource) || old != nil && old.DeletionTimestamp != nil {
		return nil
	}
	return pod
}

// ranges returns the limit ranges of the request's namespace.
func (p LimitRanger) ranges(ctx context.Context, a *admission.Attributes) ([]*corev1.LimitRange, error) {
	var ranges []*corev1.LimitRange
	for limits, err := range p.LimitRanges.List(ctx, a.Namespace, rest.ListOptions{}) {
		if err != nil {
			return nil, reject(a, fmt.Errorf("unable to %s %s at this time because there was an error enforcing limit ranges", a.Operation, a.Resource.GVR()))
		}
		ranges = append(ranges, limits)
	}
	return ranges, nil
}

// defaultResources returns the default requests and limits of a limit range. A later item overrides
// an earlier one.
func defaultResources(limits *corev1.LimitRange) corev1.ResourceRequirements {
	defaults := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for i := range limits.Spec.Limits {
		if item := &limits.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(defaults.Requests, item.DefaultRequest)
			maps.Copy(defaults.Limits, item.Default)
		}
	}
	return defaults
}

// fillResources adds the defaults to the containers of a pod, and lists the added values in the annotation. It
// returns the error of the validation as soon as the annotation is too long, because each container of a very
// long list can receive a very long list of defaults.
func fillResources(pod *corev1.Pod, defaults corev1.ResourceRequirements) *field.Error {
	var filled []string
	size := 0
	add := func(names []string, what, name string) {
		if len(names) > 0 {
			filled = append(filled, strings.Join(names, ", ")+" "+what+" "+name)
			size += len(filled[len(filled)-1])
		}
	}
	requests, limits := sortedNames(defaults.Requests), sortedNames(defaults.Limits)
	for _, list := range [...]struct {
		containers []corev1.Container
		prefix     string
	}{{pod.Spec.Containers, ""}, {pod.Spec.InitContainers, "init "}} {
		for i := range list.containers {
			c := &list.containers[i]
			filledLimits := fillList(&c.Resources.Limits, limits, defaults.Limits)
			add(fillList(&c.Resources.Requests, requests, defaults.Requests), "request for "+list.prefix+"container", c.Name)
			add(filledLimits, "limit for "+list.prefix+"container", c.Name)
			if size > validation.TotalAnnotationSizeLimitB {
				return field.TooLong(field.NewPath("metadata", "annotations"), "", validation.TotalAnnotationSizeLimitB)
			}
		}
	}
	if len(filled) == 0 {
		return nil
	}
	if pod.Annotations == nil {
		pod.Annotations = make(map[string]string)
	}
	pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(filled, "; ")
	return nil
}

// fillList adds the resources that are missing in a list, and returns the names of the added ones. names contains
// the names of the defaults.
func fillList(list *corev1.ResourceList, names []corev1.ResourceName, defaults corev1.ResourceList) []string {
	var filled []string
	for _, name := range names {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = make(corev1.ResourceList)
		}
		(*list)[name] = defaults[name].DeepCopy()
		filled = append(filled, string(name))
	}
	return filled
}

// maxViolations is the maximum number of reported violations. After that, no further containers are checked. A
// container without violations has as many resources as it is checked for, so the time is bounded by the size of
// the pod.
const maxViolations = 1000

func aggregate(violations []error) error {
	return utilerrors.NewAggregate(violations[:min(len(violations), maxViolations)])
}

// checkPodLimits returns the violations of a limit range by a pod and by its containers.
func checkPodLimits(pod *corev1.Pod, limits *corev1.LimitRange) error {
	var errs []error
	for i := range limits.Spec.Limits {
		switch item := &limits.Spec.Limits[i]; item.Type {
		case corev1.LimitTypeContainer:
			for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for j := range containers {
					if len(errs) >= maxViolations {
						return aggregate(errs)
					}
					errs = append(errs, bounds{item, containers[j].Resources.Requests, containers[j].Resources.Limits}.check()...)
				}
			}
		case corev1.LimitTypePod:
			errs = append(errs, bounds{item, podRequests(&pod.Spec), podLimits(&pod.Spec)}.check()...)
		}
	}
	return aggregate(errs)
}

// checkClaimLimits returns the violations of a limit range by a claim.
func checkClaimLimits(claim *corev1.PersistentVolumeClaim, limits *corev1.LimitRange) error {
	var errs []error
	for i := range limits.Spec.Limits {
		if item := &limits.Spec.Limits[i]; item.Type == corev1.LimitTypePersistentVolumeClaim {
			errs = append(errs, bounds{item, claim.Spec.Resources.Requests, nil}.checkRequests()...)
		}
	}
	return aggregate(errs)
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
