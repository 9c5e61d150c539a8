package plugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bounds is an item of a limit range, with the requests and limits to check against it.
type bounds struct {
	item             *corev1.LimitRangeItem
	requests, limits corev1.ResourceList
}

// check returns the violations of minimums, maximums and ratios, in this order, each sorted by resource name.
func (b bounds) check() []error {
	var errs []error
	for _, name := range sortedNames(b.item.Min) {
		errs = appendError(errs, b.checkMin(name, b.item.Min[name]))
	}
	for _, name := range sortedNames(b.item.Max) {
		errs = appendError(errs, b.checkMax(name, b.item.Max[name]))
	}
	for _, name := range sortedNames(b.item.MaxLimitRequestRatio) {
		errs = appendError(errs, b.checkRatio(name, b.item.MaxLimitRequestRatio[name]))
	}
	return errs
}

// checkRequests is like check, but for objects without limits, such as claims. It checks only the requests.
func (b bounds) checkRequests() []error {
	var errs []error
	for _, name := range sortedNames(b.item.Min) {
		errs = appendError(errs, b.checkMin(name, b.item.Min[name]))
	}
	for _, name := range sortedNames(b.item.Max) {
		errs = appendError(errs, b.checkMaxRequest(name, b.item.Max[name]))
	}
	return errs
}

func appendError(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
}

func (b bounds) checkMin(name corev1.ResourceName, least resource.Quantity) error {
	request, requested := b.requests[name]
	limit, limited := b.limits[name]
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, b.item.Type, &least)
	case request.Cmp(least) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, b.item.Type, &least, &request)
	case limited && limit.Cmp(least) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, b.item.Type, &least, &limit)
	}
	return nil
}

func (b bounds) checkMax(name corev1.ResourceName, most resource.Quantity) error {
	limit, limited := b.limits[name]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, b.item.Type, &most)
	case limit.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, b.item.Type, &most, &limit)
	}
	if _, requested := b.requests[name]; !requested {
		return nil
	}
	return b.checkMaxRequest(name, most)
}

func (b bounds) checkMaxRequest(name corev1.ResourceName, most resource.Quantity) error {
	request, requested := b.requests[name]
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, b.item.Type, &most)
	case request.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.item.Type, &most, &request)
	}
	return nil
}

func (b bounds) checkRatio(name corev1.ResourceName, most resource.Quantity) error {
	request, limit := b.requests[name], b.limits[name]
	switch {
	case request.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, b.item.Type, &most)
	case limit.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, b.item.Type, &most)
	}
	if ratio := ratioOf(limit, request); ratio*1000 > float64(most.MilliValue()) {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, b.item.Type, &most, ratio)
	}
	return nil
}

// ratioOf returns the quotient of two quantities. If both are small enough, it divides their values in
// thousandths, so that the quotient of exact multiples is exact.
func ratioOf(limit, request resource.Quantity) float64 {
	if limit.Value() <= resource.MaxMilliValue && request.Value() <= resource.MaxMilliValue {
		return float64(limit.MilliValue()) / float64(request.MilliValue())
	}
	return float64(limit.Value()) / float64(request.Value())
}
