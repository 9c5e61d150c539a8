package resource

import (
	"fmt"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// maxValidValues is the maximum length of validValues in a request policy.
const maxValidValues = 10

// Quantities are passed by value in this file, because a comparison may modify a quantity, and validation must
// not modify objects.

// validateCapacities validates the capacities of a device. Only a device that allows multiple allocations may
// have request policies.
func validateCapacities(f validation.Field, device *resourcev1.Device) {
	for name, capacity := range device.Capacity {
		validateQualifiedName(f, name)
		if capacity.RequestPolicy == nil {
			continue
		}
		at := f.Key(shortened(string(name))).Child("requestPolicy")
		if isTrue(device.AllowMultipleAllocations) {
			validateRequestPolicy(at, capacity.RequestPolicy, capacity.Value)
		} else {
			at.Forbidden("allowMultipleAllocations must be true")
		}
	}
}

// validateRequestPolicy validates the list or range of valid quantities, and requires that it contains the
// default.
func validateRequestPolicy(f validation.Field, policy *resourcev1.CapacityRequestPolicy, capacity resource.Quantity) {
	values, valid := policy.ValidValues, policy.ValidRange
	switch {
	case len(values) > 0 && valid != nil:
		f.Forbidden(`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)
	case len(values) > 0 && policy.Default == nil:
		f.Child("default").Required("required when validValues is defined")
	case len(values) > 0:
		validateValidValues(f.Child("validValues"), values, *policy.Default, capacity)
	case valid != nil && policy.Default == nil:
		f.Child("default").Required("required when validRange is defined")
	case valid != nil:
		validateValidRange(f.Child("validRange"), valid, *policy.Default, capacity)
	}
}

func validateValidValues(f validation.Field, values []resource.Quantity, initial, capacity resource.Quantity) {
	for i := 1; i < len(values); i++ {
		if compare(values[i-1], values[i]) > 0 {
			f.Index(i).Invalid(values[i].String(), "values must be sorted in ascending order")
		}
	}
	found := false
	if len(values) > maxValidValues {
		f.TooMany(len(values), maxValidValues)
	} else {
		found = validateEachValue(f, values, initial, capacity)
	}
	if !found {
		f.Invalid(initial.String(), "default value is not valid according to the requestPolicy")
	}
}

// validateEachValue validates the values and reports whether they contain initial, the default.
func validateEachValue(f validation.Field, values []resource.Quantity, initial, capacity resource.Quantity) (found bool) {
	seen := validation.NewDuplicates[string](len(values))
	for i, value := range values {
		if compare(value, capacity) > 0 {
			f.Index(i).Invalid(value.String(), "option is larger than capacity value: "+capacity.String())
		}
		found = found || compare(value, initial) == 0
		amount := strconv.FormatInt(value.Value(), 10)
		if f.Enabled(feature.DRAFractionalCapacityRange) {
			amount = value.AsDec().String()
		}
		if seen.IsDuplicate(amount) {
			f.Index(i).Duplicate(amount)
		}
	}
	return found
}

func validateValidRange(f validation.Field, r *resourcev1.CapacityRequestPolicyRange, initial, capacity resource.Quantity) {
	if r.Min == nil {
		f.Child("min").Required("required when validRange is defined")
		return
	}
	least, size := *r.Min, capacity.String()
	if compare(least, capacity) > 0 {
		f.Child("min").Invalid(least.String(), "min is larger than capacity value: "+size)
	}
	if compare(initial, least) < 0 {
		f.Child("min").Invalid(initial.String(), "default is less than min: "+least.String())
	}
	if r.Max != nil {
		at, most := f.Child("max"), *r.Max
		if compare(least, most) > 0 {
			at.Invalid(least.String(), "min is larger than max: "+most.String())
		}
		if compare(most, capacity) > 0 {
			at.Invalid(most.String(), "max is larger than capacity value: "+size)
		}
		if compare(initial, most) > 0 {
			at.Invalid(initial.String(), "default is more than max: "+most.String())
		}
	}
	count, ok := countOf(f, r, initial)
	if ok && r.Step != nil {
		validateStep(f.Child("step"), r, initial, capacity, count)
	}
}

// countOf returns a function that converts the quantities of a range to integers. The integers are units, or
// thousandths if any of the quantities is a fraction. ok is false if a quantity cannot be represented in
// thousandths.
func countOf(f validation.Field, r *resourcev1.CapacityRequestPolicyRange, initial resource.Quantity) (count func(resource.Quantity) int64, ok bool) {
	whole := func(q resource.Quantity) int64 { return q.Value() }
	if !f.Enabled(feature.DRAFractionalCapacityRange) {
		return whole, true
	}
	amounts := [...]struct {
		name   string
		amount *resource.Quantity
	}{{"default", &initial}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}}
	fractions := false
	for _, a := range amounts {
		fractions = fractions || a.amount != nil && isFraction(*a.amount)
	}
	if !fractions {
		return whole, true
	}
	ok = true
	for _, a := range amounts {
		if a.amount == nil {
			continue
		}
		if q := *a.amount; compare(q, *resource.NewMilliQuantity(q.MilliValue(), q.Format)) != 0 {
			f.Child(a.name).Invalid(q.String(), "value cannot be represented as a milli value")
			ok = false
		}
	}
	return func(q resource.Quantity) int64 { return q.MilliValue() }, ok
}

func isFraction(q resource.Quantity) bool {
	_, exact := q.AsScale(0)
	return !exact
}

// validateStep requires that the default and the maximum are the minimum plus a multiple of the
// step.
func validateStep(f validation.Field, r *resourcev1.CapacityRequestPolicyRange, initial, capacity resource.Quantity, count func(resource.Quantity) int64) {
	least, step := r.Min.DeepCopy(), r.Step.DeepCopy()
	if step.Sign() <= 0 {
		f.Invalid(step.String(), "must be greater than zero")
		return
	}
	next := least.DeepCopy()
	next.Add(step)
	if compare(next, capacity) > 0 {
		f.Invalid(step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", next.String(), capacity.String()))
	}
	amounts := [...]*resource.Quantity{&initial, r.Max}
	for _, amount := range amounts {
		if amount == nil {
			continue
		}
		n := count(step) // may be 0 if the quantity overflows int64
		if n == 0 || (count(*amount)-count(least))%n != 0 {
			f.Invalid(amount.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", step.String(), least.String()))
		}
	}
}

func compare(a, b resource.Quantity) int { return a.Cmp(b) }
