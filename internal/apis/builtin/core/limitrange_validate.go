package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateLimitRange(f validation.Field, limits, _ *corev1.LimitRange) {
	f = f.Child("spec").Child("limits")
	types := validation.NewDuplicates[corev1.LimitType](len(limits.Spec.Limits))
	for i := range limits.Spec.Limits {
		item, at := &limits.Spec.Limits[i], f.Index(i)
		validateLimitType(at.Child("type"), item.Type)
		if types.IsDuplicate(item.Type) {
			at.Child("type").Duplicate(item.Type)
		}
		validateLimitItem(at, item)
	}
}

// validateLimitType validates the type of a limit. Types without a prefix are reserved for
// Kubernetes.
func validateLimitType(f validation.Field, limited corev1.LimitType) {
	switch limited {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return
	}
	before := f.ErrorCount()
	f.QualifiedName(string(limited))
	if f.ErrorCount() == before && !strings.Contains(string(limited), "/") {
		f.Invalid(limited, "must be a standard limit type or fully qualified")
	}
}

func validateLimitItem(f validation.Field, item *corev1.LimitRangeItem) {
	validateLimitNames(f.Child("max"), item.Type, item.Max)
	validateLimitNames(f.Child("min"), item.Type, item.Min)
	validateLimitNames(f.Child("maxLimitRequestRatio"), item.Type, item.MaxLimitRequestRatio)
	limit, request := item.Default, item.DefaultRequest
	if item.Type == corev1.LimitTypePod {
		const notForPods = "may not be specified when `type` is 'Pod'"
		if len(limit) > 0 {
			f.Child("default").Forbidden(notForPods)
		}
		if len(request) > 0 {
			f.Child("defaultRequest").Forbidden(notForPods)
		}
		limit, request = nil, nil
	}
	validateLimitNames(f.Child("default"), item.Type, limit)
	validateLimitNames(f.Child("defaultRequest"), item.Type, request)
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			f.Child("limits").Required("either minimum or maximum storage value is required, but neither was provided")
		}
	}
	validateLimitOrder(f, item, limit, request)
	for name, ratio := range item.MaxLimitRequestRatio {
		validateLimitRatio(f.Child("maxLimitRequestRatio").Key(string(name)), ratio, amountOf(item.Min, name), amountOf(item.Max, name))
	}
}

// amountOf returns the quantity of a resource, or nil if the list does not contain it.
func amountOf(resources corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	if quantity, ok := resources[name]; ok {
		return &quantity
	}
	return nil
}

// validateLimitNames validates resource names. The rules for pods and containers differ from the rules for
// claims.
func validateLimitNames(f validation.Field, limited corev1.LimitType, resources corev1.ResourceList) {
	for name := range resources {
		switch limited {
		case corev1.LimitTypePod, corev1.LimitTypeContainer:
			podspec.ValidateContainerResource(f.Key(string(name)), name)
		default:
			podspec.ValidateResourceName(f.Key(string(name)), name)
		}
	}
}

// validateLimitOrder requires min ≤ defaultRequest ≤ default ≤ max.
func validateLimitOrder(f validation.Field, item *corev1.LimitRangeItem, limit, request corev1.ResourceList) {
	least, most := item.Min, item.Max
	at := f.Child("min")
	validateAtMost(at, least, most, least, "min value %s is greater than max value %s")
	at = f.Child("defaultRequest")
	validateAtMost(at, least, request, request, "min value %s is greater than default request value %s")
	validateAtMost(at, request, most, request, "default request value %s is greater than max value %s")
	validateAtMost(at, request, limit, request, "default request value %s is greater than default limit value %s")
	for name, wanted := range request {
		if given, ok := limit[name]; ok && !podspec.CanOvercommit(name) && given.Cmp(wanted) != 0 {
			at.Key(string(name)).Invalid(wanted.String(),
				fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", given.String(), wanted.String(), name))
		}
	}
	at = f.Child("default")
	validateAtMost(at, least, limit, least, "min value %s is greater than default value %s")
	validateAtMost(at, limit, most, most, "default value %s is greater than max value %s")
}

// validateAtMost requires that each quantity in less is at most the quantity of the same resource
// in more. Errors are reported for the quantity in blamed.
func validateAtMost(f validation.Field, less, more, blamed corev1.ResourceList, words string) {
	for name, least := range less {
		if most, ok := more[name]; ok && least.Cmp(most) > 0 {
			quoted := blamed[name]
			f.Key(string(name)).Invalid(quoted.String(), fmt.Sprintf(words, least.String(), most.String()))
		}
	}
}

// validateLimitRatio requires that the maximum ratio of limit to request is at least 1 and at most the ratio
// of maximum to minimum.
func validateLimitRatio(f validation.Field, ratio resource.Quantity, least, most *resource.Quantity) {
	if ratio.CmpInt64(1) < 0 {
		f.Invalid(ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String()))
	}
	if least == nil || most == nil {
		return
	}
	asked, from, to := float64(ratio.Value()), least.Value(), most.Value()
	if ratio.Value() < resource.MaxMilliValue && from < resource.MaxMilliValue && to < resource.MaxMilliValue {
		asked, from, to = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
	}
	if possible := float64(to) / float64(from); asked > possible {
		f.Invalid(ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), possible))
	}
}
