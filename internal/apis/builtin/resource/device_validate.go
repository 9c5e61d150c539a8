package resource

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// maxKey is the maximum length of an attribute or capacity name in errors, in bytes. Longer names are shortened
// in the middle.
const maxKey = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength

// validateDevice validates one device of a slice. old is the previous device with this name, or
// nil.
func validateDevice(f validation.Field, device, old *resourcev1.Device, ownNodes bool) {
	f.Child("name").DNSLabel(device.Name)
	validateDeviceSizes(f, device)
	for name, attribute := range device.Attributes {
		at := f.Child("attributes")
		validateQualifiedName(at, name)
		validateAttribute(at.Key(shortened(string(name))), &attribute)
	}
	if old == nil || isTrue(device.AllowMultipleAllocations) != isTrue(old.AllowMultipleAllocations) || validation.Changed(device.Capacity, old.Capacity) {
		validateCapacities(f.Child("capacity"), device)
	}
	if old == nil || validation.Changed(device.Taints, old.Taints) {
		validateTaints(f.Child("taints"), device.Taints)
	}
	if len(device.ConsumesCounters) <= resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice {
		for i := range device.ConsumesCounters {
			validateCounters(f.Child("consumesCounters").Index(i).Child("counters"), device.ConsumesCounters[i].Counters,
				resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption)
		}
	}
	validateDeviceNodes(f, device, ownNodes)
	validateBindingConditions(f, device.BindingConditions, device.BindingFailureConditions)
	validateNodeResources(f.Child("nodeAllocatableResources"), device)
}

// shortened shortens a name to maxKey bytes for use in errors.
func shortened(key string) string {
	if len(key) <= maxKey {
		return key
	}
	const dots = "..."
	kept := maxKey - len(dots)
	return key[:(kept+1)/2] + dots + key[len(key)-kept/2:]
}

// validateDeviceSizes limits the size of a device, because schedulers keep all devices in memory.
func validateDeviceSizes(f validation.Field, device *resourcev1.Device) {
	if n := len(device.Attributes) + len(device.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		f.Invalid(n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d",
			resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice))
	}
	n := 0
	for _, a := range device.Attributes {
		n += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if n > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		f.Invalid(n, fmt.Sprintf("the total number of attribute values must not exceed %d", resourcev1.ResourceSliceMaxAttributeValuesPerDevice))
	}
}

// validateAttribute validates the value of an attribute. A +k8s marker requires exactly one value.
func validateAttribute(f validation.Field, a *resourcev1.DeviceAttribute) {
	if a.StringValue != nil {
		validateText(f.Child("string"), *a.StringValue)
	}
	if a.VersionValue != nil {
		validateVersion(f.Child("version"), *a.VersionValue)
	}
	validateNotEmpty(f.Child("bools"), a.BoolValues)
	validateNotEmpty(f.Child("ints"), a.IntValues)
	validateNotEmpty(f.Child("strings"), a.StringValues)
	validateNotEmpty(f.Child("versions"), a.VersionValues)
	for i := range a.StringValues {
		validateText(f.Child("strings").Index(i), a.StringValues[i])
	}
	for i := range a.VersionValues {
		validateVersion(f.Child("versions").Index(i), a.VersionValues[i])
	}
}

func validateNotEmpty[T any](f validation.Field, list []T) {
	if list != nil && len(list) == 0 {
		f.Invalid(list, "must not be empty if specified")
	}
}

func validateText(f validation.Field, value string) {
	if len(value) > resourcev1.DeviceAttributeMaxValueLength {
		f.TooLong(resourcev1.DeviceAttributeMaxValueLength)
	}
}

func validateVersion(f validation.Field, version string) {
	if !isSemver(version) {
		f.Invalid(version, "must be a string compatible with semver.org spec 2.0.0")
	}
	validateText(f, version)
}

// isSemver reports whether version is a semantic version. Its numbers may have any size.
func isSemver(version string) bool {
	version, build, hasBuild := strings.Cut(version, "+")
	if hasBuild && !all(build, isBuildIdentifier) {
		return false
	}
	version, release, hasRelease := strings.Cut(version, "-")
	if hasRelease && !all(release, isReleaseIdentifier) {
		return false
	}
	return strings.Count(version, ".") == 2 && all(version, isNumber)
}

// all splits a text at dots and reports whether form returns true for all parts.
func all(text string, form func(string) bool) bool {
	for part := range strings.SplitSeq(text, ".") {
		if !form(part) {
			return false
		}
	}
	return true
}

// isNumber reports whether s is a number without leading zeros.
func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, notDigit) && (s[0] != '0' || s == "0")
}

func isBuildIdentifier(s string) bool { return s != "" && !strings.ContainsFunc(s, notIdentifier) }

// isReleaseIdentifier reports whether s is a valid pre-release identifier, in which numbers must not have
// leading zeros.
func isReleaseIdentifier(s string) bool {
	return isBuildIdentifier(s) && (isNumber(s) || strings.ContainsFunc(s, notDigit))
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

func notIdentifier(r rune) bool {
	return notDigit(r) && r != '-' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

func validateTaints(f validation.Field, taints []resourcev1.DeviceTaint) {
	if len(taints) > resourcev1.DeviceTaintsMaxLength {
		f.TooMany(len(taints), resourcev1.DeviceTaintsMaxLength)
		return
	}
	for i := range taints {
		validateTaint(f.Index(i), &taints[i])
	}
}

// validateCounters limits the number of counters. +k8s markers validate their names.
func validateCounters(f validation.Field, counters map[string]resourcev1.Counter, most int) {
	if len(counters) > most {
		f.TooMany(len(counters), most)
	}
}

// validateDeviceNodes validates the nodes of a device. They are specified for the whole slice or,
// if ownNodes is set, for each device.
func validateDeviceNodes(f validation.Field, device *resourcev1.Device, ownNodes bool) {
	if !ownNodes {
		if device.NodeName != nil || device.NodeSelector != nil || device.AllNodes != nil {
			f.Invalid(nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")
		}
		return
	}
	if device.NodeName != nil && *device.NodeName == "" {
		f.Child("nodeName").Invalid("", "must not be empty")
	}
	if device.NodeSelector != nil {
		podspec.ValidateNodeSelector(f.Child("nodeSelector"), device.NodeSelector)
	}
	const oneOf = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	validateNodes(f, nodes{name: device.NodeName, selector: device.NodeSelector, all: device.AllNodes}, oneOf, oneOf)
}

// nodes contains the fields that select the nodes that can use a device. Exactly one field must be set.
type nodes struct {
	name      *string
	selector  *corev1.NodeSelector
	all       *bool
	perDevice *bool
}

// validateNodes requires exactly one field. none is the error message if no field is set, several if more than
// one is set. The caller must reject an empty name.
func validateNodes(f validation.Field, n nodes, none, several string) {
	var ways [4]string
	used := ways[:0]
	if n.name != nil && *n.name != "" {
		used = append(used, "`nodeName`")
		f.Child("nodeName").DNSSubdomain(*n.name)
	}
	if n.selector != nil {
		used = append(used, "`nodeSelector`")
	}
	for _, way := range [...]struct {
		name string
		set  *bool
	}{{"allNodes", n.all}, {"perDeviceNodeSelection", n.perDevice}} {
		if way.set == nil {
			continue
		}
		if *way.set {
			used = append(used, "`"+way.name+"`")
		} else {
			f.Child(way.name).Invalid(false, "must be either unset or set to true")
		}
	}
	switch len(used) {
	case 0:
		f.Required(none)
	case 1:
	default:
		f.Invalid("{"+strings.Join(used, ", ")+"}", several)
	}
}

// validateBindingConditions requires that both or none of the lists have elements, and rejects duplicates.
func validateBindingConditions(f validation.Field, conditions, failures []string) {
	if len(conditions) == 0 && len(failures) == 0 {
		return
	}
	met, failed := f.Child("bindingConditions"), f.Child("bindingFailureConditions")
	validateConditionTypes(met, conditions, resourcev1.BindingConditionsMaxSize)
	validateConditionTypes(failed, failures, resourcev1.BindingFailureConditionsMaxSize)
	seen := validation.NewDuplicates[string](len(conditions))
	for i, condition := range conditions {
		if seen.IsDuplicate(condition) {
			met.Index(i).Duplicate(condition)
		}
	}
	seenFailed := validation.NewDuplicates[string](len(failures))
	for i, condition := range failures {
		if seenFailed.IsDuplicate(condition) {
			failed.Index(i).Duplicate(condition)
		}
		if seen.Has(condition) {
			failed.Index(i).Invalid(condition, "bindingFailureConditions must not overlap with bindingConditions")
		}
	}
	if len(conditions) == 0 {
		met.Invalid(conditions, "bindingConditions are required to use bindingFailureConditions")
	}
	if len(failures) == 0 {
		failed.Invalid(failures, "bindingFailureConditions are required to use bindingConditions")
	}
}

// validateConditionTypes validates condition types. It skips lists that are too long, because a +k8s marker
// rejects them.
func validateConditionTypes(f validation.Field, types []string, most int) {
	if len(types) > most {
		return
	}
	for i := range types {
		f.Index(i).QualifiedName(types[i])
	}
}

// validateSkippedOperations requires that NodeUnprepareResources is skipped if NodePrepareResources is skipped.
func validateSkippedOperations(f validation.Field, skipped []resourcev1.SkipNodeOperation) {
	skips := func(operation resourcev1.SkipNodeOperation) bool { return slices.Contains(skipped, operation) }
	if skips(resourcev1.SkipNodeOperationNodePrepareResources) &&
		!skips(resourcev1.SkipNodeOperationNodeUnprepareResources) && !skips(resourcev1.SkipNodeOperationAll) {
		f.Invalid(skipped, "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped")
	}
}

// validateNodeResources validates the node resources that allocating a device consumes.
func validateNodeResources(f validation.Field, device *resourcev1.Device) {
	for name, resource := range device.NodeAllocatableResources {
		at := f.Key(string(name))
		if !isNodeResource(name) {
			at.Invalid(name, "must be a node allocatable resource name")
		}
		if resource.Mapping == nil && resource.Overhead == nil {
			at.Required("at least one of mapping or overhead must be set")
		}
		if resource.Mapping != nil {
			validateMapping(at.Child("mapping"), resource.Mapping, device.Capacity)
		}
		if resource.Overhead != nil {
			validateOverhead(at.Child("overhead"), resource.Overhead)
		}
	}
}

// isNodeResource reports whether name is a resource that kubelets allocate to pods.
func isNodeResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return podspec.IsHugePages(name)
}

func validateMapping(f validation.Field, m *resourcev1.NodeAllocatableMapping, capacities map[resourcev1.QualifiedName]resourcev1.DeviceCapacity) {
	if m.CapacityKey != nil {
		if _, ok := capacities[*m.CapacityKey]; *m.CapacityKey == "" {
			f.Child("capacityKey").Invalid("", "capacityKey must not be an empty string")
		} else if !ok {
			f.Child("capacityKey").NotFound(*m.CapacityKey)
		}
		if m.CapacityMultiplier == nil {
			f.Child("capacityMultiplier").Required("capacityMultiplier is required when capacityKey is set")
		} else if m.CapacityMultiplier.Sign() <= 0 {
			f.Child("capacityMultiplier").Invalid(m.CapacityMultiplier.String(), "must be positive")
		}
	}
	if m.DeviceMultiplier != nil && m.DeviceMultiplier.Sign() <= 0 {
		f.Child("deviceMultiplier").Invalid(m.DeviceMultiplier.String(), "must be positive")
	}
	if m.CapacityMultiplier != nil && m.CapacityKey == nil {
		f.Child("capacityKey").Required("capacityKey is required when capacityMultiplier is set")
	}
}

func validateOverhead(f validation.Field, overhead *resourcev1.NodeAllocatableOverhead) {
	if overhead.PerPod == nil && overhead.PerContainer == nil {
		f.Invalid("", "at least one of perPod or perContainer must be set")
	}
	if overhead.PerPod != nil && overhead.PerPod.Sign() < 0 {
		f.Child("perPod").Invalid(overhead.PerPod.String(), "must be non-negative")
	}
	if overhead.PerContainer != nil && overhead.PerContainer.Sign() < 0 {
		f.Child("perContainer").Invalid(overhead.PerContainer.String(), "must be non-negative")
	}
}
