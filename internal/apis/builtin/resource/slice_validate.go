package resource

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidate "k8s.io/apimachinery/pkg/api/validate"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/resource"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateSlice(f validation.Field, slice, old *resourcev1.ResourceSlice) {
	spec, at := &slice.Spec, f.Child("spec")
	podspec.ValidateCSIDriverName(at.Child("driver"), spec.Driver)
	validatePool(at.Child("pool"), &spec.Pool)
	if old != nil {
		validation.Immutable(at.Child("pool").Child("name"), spec.Pool.Name, old.Spec.Pool.Name)
		validation.Immutable(at.Child("driver"), spec.Driver, old.Spec.Driver)
		validation.Immutable(at.Child("nodeName"), spec.NodeName, old.Spec.NodeName)
	}
	validateSliceNodes(at, spec)
	if spec.SharedCounters != nil && spec.Devices != nil {
		at.Invalid("", "only one of `sharedCounters` or `devices` is allowed")
	}
	validateDevices(at.Child("devices"), spec, old)
	if len(spec.SharedCounters) <= resourcev1.ResourceSliceMaxCounterSets {
		for i := range spec.SharedCounters {
			validateCounters(at.Child("sharedCounters").Index(i).Child("counters"), spec.SharedCounters[i].Counters,
				resourcev1.ResourceSliceMaxCountersPerCounterSet)
		}
	}
	validatePartitionType(at, spec)
	validateSkippedOperations(at.Child("skipNodeOperations"), spec.SkipNodeOperations)
	validation.ValidateDeclared(f, declared.Validate_ResourceSlice, slice, old, "")
}

func validatePool(f validation.Field, pool *resourcev1.ResourcePool) {
	validatePoolName(f.Child("name"), pool.Name)
	if pool.ResourceSliceCount <= 0 {
		f.Child("resourceSliceCount").Invalid(pool.ResourceSliceCount, "must be greater than zero")
	}
	if pool.Generation < 0 {
		f.Child("generation").Invalid(pool.Generation, "must be greater than or equal to zero")
	}
}

// validateSliceNodes validates the nodes of a slice. A node selector must have exactly one term, so that the
// selectors of several slices can be combined.
func validateSliceNodes(f validation.Field, spec *resourcev1.ResourceSliceSpec) {
	if spec.NodeName != nil && *spec.NodeName == "" {
		f.Child("nodeName").Invalid("", "must be either unset or set to a non-empty string")
	}
	if selector := spec.NodeSelector; selector != nil {
		at := f.Child("nodeSelector")
		podspec.ValidateNodeSelector(at, selector)
		if len(selector.NodeSelectorTerms) != 1 {
			at.Child("nodeSelectorTerms").Invalid(selector.NodeSelectorTerms, "must have exactly one node selector term")
		}
	}
	const oneOf = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	validateNodes(f, nodes{spec.NodeName, spec.NodeSelector, spec.AllNodes, spec.PerDeviceNodeSelection},
		oneOf, oneOf+", but multiple fields are set")
}

func validateDevices(f validation.Field, spec *resourcev1.ResourceSliceSpec, old *resourcev1.ResourceSlice) {
	if most := maxDevices(spec); len(spec.Devices) > most {
		f.TooMany(len(spec.Devices), most)
		return
	}
	before := devicesOf(old)
	ownNodes := isTrue(spec.PerDeviceNodeSelection)
	names := validation.NewDuplicates[string](len(spec.Devices))
	for i := range spec.Devices {
		device := &spec.Devices[i]
		validateDevice(f.Index(i), device, before[device.Name], ownNodes)
		if names.IsDuplicate(device.Name) {
			f.Index(i).Duplicate(device.Name)
		}
	}
}

// maxDevices returns the maximum number of devices in a slice. It is lower if the slice uses features that make
// allocation slower.
func maxDevices(spec *resourcev1.ResourceSliceSpec) int {
	advanced := func(d resourcev1.Device) bool { return len(d.Taints) > 0 || consumes(d) || hasLists(d) }
	if slices.ContainsFunc(spec.Devices, advanced) {
		return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourcev1.ResourceSliceMaxDevices
}

func hasLists(d resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}

func consumes(d resourcev1.Device) bool { return len(d.ConsumesCounters) > 0 }

// devicesOf returns the devices of a slice by name. If several devices have the same name, it returns the
// first. slice may be nil.
func devicesOf(slice *resourcev1.ResourceSlice) map[string]*resourcev1.Device {
	if slice == nil {
		return nil
	}
	devices := make(map[string]*resourcev1.Device, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if devices[device.Name] == nil {
			devices[device.Name] = device
		}
	}
	return devices
}

// validatePartitionType requires that all partitions have the attribute for the partition type,
// with a string value.
func validatePartitionType(f validation.Field, spec *resourcev1.ResourceSliceSpec) {
	if spec.PartitionTypeAttribute == nil {
		return
	}
	name := string(*spec.PartitionTypeAttribute)
	if !slices.ContainsFunc(spec.Devices, consumes) {
		f.Child("partitionTypeAttribute").Invalid(name, "may only be set on a slice which declares devices that consume counters")
		return
	}
	if len(apivalidate.ResourceFullyQualifiedName(f.Context(), operation.Operation{}, nil, spec.PartitionTypeAttribute, nil)) > 0 {
		return // a +k8s marker rejects the name
	}
	short, _ := strings.CutPrefix(name, spec.Driver+"/") // the driver's own names need no domain
	for i := range spec.Devices {
		device := &spec.Devices[i]
		if !consumes(*device) {
			continue
		}
		attribute, ok := device.Attributes[resourcev1.QualifiedName(name)]
		if !ok {
			attribute, ok = device.Attributes[resourcev1.QualifiedName(short)]
		}
		at := f.Child("devices").Index(i).Child("attributes").Key(name)
		switch {
		case !ok:
			at.Required("device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set")
		case attribute.StringValue == nil:
			at.Invalid(attribute, "must be a string value because `partitionTypeAttribute` names this attribute")
		}
	}
}
