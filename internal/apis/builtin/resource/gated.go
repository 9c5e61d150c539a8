package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// Fields of features that can be off, by kind.

func gatedSlice() []builtin.Gated[resourcev1.ResourceSlice] {
	return []builtin.Gated[resourcev1.ResourceSlice]{
		{Gate: feature.DRAConsumableCapacity, Fields: eachDevice(sharedDevice)},
		{Gate: feature.DRADeviceBindingConditions, Fields: eachDevice(boundDevice)},
		{Gate: feature.DRADeviceCompatibilityGroups, Fields: eachDevice(compatibilityGroups)},
		{Gate: feature.DRADeviceTaints, Fields: eachDevice(taintedDevice)},
		{Gate: feature.DRAListTypeAttributes, Fields: eachDevice(listAttributes)},
		{Gate: feature.DRANodeAllocatableResources, Fields: eachDevice(nodeResources)},
		{Gate: feature.DRAOptionalNodeOperations, Fields: skippedOperations},
		{Gate: feature.DRAPartitionableDevices, Fields: partitions},
		{Gate: feature.DRAPartitionableDevicesType, Fields: partitionType},
	}
}

func eachDevice(take func(*builtin.Use, *resourcev1.Device)) func(*builtin.Use, *resourcev1.ResourceSlice) {
	return func(u *builtin.Use, slice *resourcev1.ResourceSlice) {
		for i := range slice.Spec.Devices {
			take(u, &slice.Spec.Devices[i])
		}
	}
}

func sharedDevice(u *builtin.Use, device *resourcev1.Device) {
	builtin.Take(u, &device.AllowMultipleAllocations)
	for name, capacity := range device.Capacity {
		builtin.Take(u, &capacity.RequestPolicy)
		if u.Drops() {
			device.Capacity[name] = capacity
		}
	}
}

func boundDevice(u *builtin.Use, device *resourcev1.Device) {
	builtin.Take(u, &device.BindsToNode)
	builtin.Take(u, &device.BindingConditions)
	builtin.Take(u, &device.BindingFailureConditions)
}

func compatibilityGroups(u *builtin.Use, device *resourcev1.Device) {
	for i := range device.ConsumesCounters {
		builtin.Take(u, &device.ConsumesCounters[i].CompatibilityGroups)
	}
}

func taintedDevice(u *builtin.Use, device *resourcev1.Device) { builtin.Take(u, &device.Taints) }

func listAttributes(u *builtin.Use, device *resourcev1.Device) {
	for name, attribute := range device.Attributes {
		builtin.Take(u, &attribute.BoolValues)
		builtin.Take(u, &attribute.IntValues)
		builtin.Take(u, &attribute.StringValues)
		builtin.Take(u, &attribute.VersionValues)
		if u.Drops() {
			device.Attributes[name] = attribute
		}
	}
}

func nodeResources(u *builtin.Use, device *resourcev1.Device) {
	builtin.Take(u, &device.NodeAllocatableResources)
}

func skippedOperations(u *builtin.Use, slice *resourcev1.ResourceSlice) {
	builtin.Take(u, &slice.Spec.SkipNodeOperations)
}

func partitions(u *builtin.Use, slice *resourcev1.ResourceSlice) {
	builtin.Take(u, &slice.Spec.SharedCounters)
	builtin.Take(u, &slice.Spec.PerDeviceNodeSelection)
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		builtin.Take(u, &device.ConsumesCounters)
		builtin.Take(u, &device.NodeName)
		builtin.Take(u, &device.NodeSelector)
		builtin.Take(u, &device.AllNodes)
	}
}

func partitionType(u *builtin.Use, slice *resourcev1.ResourceSlice) {
	builtin.Take(u, &slice.Spec.PartitionTypeAttribute)
}

func gatedClaim() []builtin.Gated[resourcev1.ResourceClaim] {
	return []builtin.Gated[resourcev1.ResourceClaim]{
		{Gate: feature.DRAConsumableCapacity, Fields: claimCapacity},
		{Gate: feature.DRADerivedAttributes, Fields: func(u *builtin.Use, claim *resourcev1.ResourceClaim) { takeDerived(u, &claim.Spec) }},
		{Gate: feature.DRADeviceBindingConditions, Fields: claimBinding},
		{Gate: feature.DRADeviceTaints, Fields: claimTolerations},
		{Gate: feature.DRAOptionalNodeOperations, Fields: claimSkipped},
	}
}

func gatedClaimTemplate() []builtin.Gated[resourcev1.ResourceClaimTemplate] {
	of := func(take func(*builtin.Use, *resourcev1.ResourceClaimSpec)) func(*builtin.Use, *resourcev1.ResourceClaimTemplate) {
		return func(u *builtin.Use, template *resourcev1.ResourceClaimTemplate) { take(u, &template.Spec.Spec) }
	}
	return []builtin.Gated[resourcev1.ResourceClaimTemplate]{
		{Gate: feature.DRAConsumableCapacity, Fields: of(wantedCapacity)},
		{Gate: feature.DRADerivedAttributes, Fields: of(takeDerived)},
		{Gate: feature.DRADeviceTaints, Fields: of(tolerations)},
	}
}

func claimCapacity(u *builtin.Use, claim *resourcev1.ResourceClaim) {
	wantedCapacity(u, &claim.Spec)
	for i := range claim.Status.Devices {
		builtin.Take(u, &claim.Status.Devices[i].ShareID)
	}
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) {
		builtin.Take(u, &result.ShareID)
		builtin.Take(u, &result.ConsumedCapacity)
	})
}

func wantedCapacity(u *builtin.Use, spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Constraints {
		builtin.Take(u, &spec.Devices.Constraints[i].DistinctAttribute)
	}
	eachRequest(spec, func(exactly *resourcev1.ExactDeviceRequest) { builtin.Take(u, &exactly.Capacity) },
		func(sub *resourcev1.DeviceSubRequest) { builtin.Take(u, &sub.Capacity) })
}

func takeDerived(u *builtin.Use, spec *resourcev1.ResourceClaimSpec) {
	eachRequest(spec, func(exactly *resourcev1.ExactDeviceRequest) { builtin.Take(u, &exactly.DerivedAttributes) },
		func(sub *resourcev1.DeviceSubRequest) { builtin.Take(u, &sub.DerivedAttributes) })
}

func claimBinding(u *builtin.Use, claim *resourcev1.ResourceClaim) {
	if allocation := claim.Status.Allocation; allocation != nil {
		builtin.Take(u, &allocation.AllocationTimestamp)
	}
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) {
		builtin.Take(u, &result.BindingConditions)
		builtin.Take(u, &result.BindingFailureConditions)
	})
}

func claimTolerations(u *builtin.Use, claim *resourcev1.ResourceClaim) {
	tolerations(u, &claim.Spec)
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) { builtin.Take(u, &result.Tolerations) })
}

func tolerations(u *builtin.Use, spec *resourcev1.ResourceClaimSpec) {
	eachRequest(spec, func(exactly *resourcev1.ExactDeviceRequest) { builtin.Take(u, &exactly.Tolerations) },
		func(sub *resourcev1.DeviceSubRequest) { builtin.Take(u, &sub.Tolerations) })
}

func claimSkipped(u *builtin.Use, claim *resourcev1.ResourceClaim) {
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) { builtin.Take(u, &result.SkipNodeOperations) })
}

func eachRequest(spec *resourcev1.ResourceClaimSpec, exactly func(*resourcev1.ExactDeviceRequest), sub func(*resourcev1.DeviceSubRequest)) {
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		if request.Exactly != nil {
			exactly(request.Exactly)
		}
		for j := range request.FirstAvailable {
			sub(&request.FirstAvailable[j])
		}
	}
}

func eachResult(claim *resourcev1.ResourceClaim, take func(*resourcev1.DeviceRequestAllocationResult)) {
	if claim.Status.Allocation == nil {
		return
	}
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		take(&results[i])
	}
}
