package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// This file declares the gated fields of each kind.

func gatedSlice() []builtin.GatedFields[*resourcev1.ResourceSlice] {
	return []builtin.GatedFields[*resourcev1.ResourceSlice]{
		{Gate: feature.DRAConsumableCapacity, Visit: eachDevice(sharedDevice)},
		{Gate: feature.DRADeviceBindingConditions, Visit: eachDevice(boundDevice)},
		{Gate: feature.DRADeviceCompatibilityGroups, Visit: eachDevice(compatibilityGroups)},
		{Gate: feature.DRADeviceTaints, Visit: eachDevice(taintedDevice)},
		{Gate: feature.DRAListTypeAttributes, Visit: eachDevice(listAttributes)},
		{Gate: feature.DRANodeAllocatableResources, Visit: eachDevice(nodeResources)},
		{Gate: feature.DRAOptionalNodeOperations, Visit: skippedOperations},
		{Gate: feature.DRAPartitionableDevices, Visit: partitions},
		{Gate: feature.DRAPartitionableDevicesType, Visit: partitionType},
	}
}

func eachDevice(take func(*builtin.FieldVisitor, *resourcev1.Device)) func(*builtin.FieldVisitor, *resourcev1.ResourceSlice) {
	return func(u *builtin.FieldVisitor, slice *resourcev1.ResourceSlice) {
		for i := range slice.Spec.Devices {
			take(u, &slice.Spec.Devices[i])
		}
	}
}

func sharedDevice(u *builtin.FieldVisitor, device *resourcev1.Device) {
	builtin.VisitField(u, &device.AllowMultipleAllocations)
	for name, capacity := range device.Capacity {
		builtin.VisitField(u, &capacity.RequestPolicy)
		if u.Clears() {
			device.Capacity[name] = capacity
		}
	}
}

func boundDevice(u *builtin.FieldVisitor, device *resourcev1.Device) {
	builtin.VisitField(u, &device.BindsToNode)
	builtin.VisitField(u, &device.BindingConditions)
	builtin.VisitField(u, &device.BindingFailureConditions)
}

func compatibilityGroups(u *builtin.FieldVisitor, device *resourcev1.Device) {
	for i := range device.ConsumesCounters {
		builtin.VisitField(u, &device.ConsumesCounters[i].CompatibilityGroups)
	}
}

func taintedDevice(u *builtin.FieldVisitor, device *resourcev1.Device) {
	builtin.VisitField(u, &device.Taints)
}

func listAttributes(u *builtin.FieldVisitor, device *resourcev1.Device) {
	for name, attribute := range device.Attributes {
		builtin.VisitField(u, &attribute.BoolValues)
		builtin.VisitField(u, &attribute.IntValues)
		builtin.VisitField(u, &attribute.StringValues)
		builtin.VisitField(u, &attribute.VersionValues)
		if u.Clears() {
			device.Attributes[name] = attribute
		}
	}
}

func nodeResources(u *builtin.FieldVisitor, device *resourcev1.Device) {
	builtin.VisitField(u, &device.NodeAllocatableResources)
}

func skippedOperations(u *builtin.FieldVisitor, slice *resourcev1.ResourceSlice) {
	builtin.VisitField(u, &slice.Spec.SkipNodeOperations)
}

func partitions(u *builtin.FieldVisitor, slice *resourcev1.ResourceSlice) {
	builtin.VisitField(u, &slice.Spec.SharedCounters)
	builtin.VisitField(u, &slice.Spec.PerDeviceNodeSelection)
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		builtin.VisitField(u, &device.ConsumesCounters)
		builtin.VisitField(u, &device.NodeName)
		builtin.VisitField(u, &device.NodeSelector)
		builtin.VisitField(u, &device.AllNodes)
	}
}

func partitionType(u *builtin.FieldVisitor, slice *resourcev1.ResourceSlice) {
	builtin.VisitField(u, &slice.Spec.PartitionTypeAttribute)
}

func gatedClaim() []builtin.GatedFields[*resourcev1.ResourceClaim] {
	return []builtin.GatedFields[*resourcev1.ResourceClaim]{
		{Gate: feature.DRAConsumableCapacity, Visit: claimCapacity},
		{Gate: feature.DRADerivedAttributes, Visit: func(u *builtin.FieldVisitor, claim *resourcev1.ResourceClaim) { takeDerived(u, &claim.Spec) }},
		{Gate: feature.DRADeviceBindingConditions, Visit: claimBinding},
		{Gate: feature.DRADeviceTaints, Visit: claimTolerations},
		{Gate: feature.DRAOptionalNodeOperations, Visit: claimSkipped},
	}
}

func gatedClaimTemplate() []builtin.GatedFields[*resourcev1.ResourceClaimTemplate] {
	of := func(take func(*builtin.FieldVisitor, *resourcev1.ResourceClaimSpec)) func(*builtin.FieldVisitor, *resourcev1.ResourceClaimTemplate) {
		return func(u *builtin.FieldVisitor, template *resourcev1.ResourceClaimTemplate) {
			take(u, &template.Spec.Spec)
		}
	}
	return []builtin.GatedFields[*resourcev1.ResourceClaimTemplate]{
		{Gate: feature.DRAConsumableCapacity, Visit: of(wantedCapacity)},
		{Gate: feature.DRADerivedAttributes, Visit: of(takeDerived)},
		{Gate: feature.DRADeviceTaints, Visit: of(tolerations)},
	}
}

func claimCapacity(u *builtin.FieldVisitor, claim *resourcev1.ResourceClaim) {
	wantedCapacity(u, &claim.Spec)
	for i := range claim.Status.Devices {
		builtin.VisitField(u, &claim.Status.Devices[i].ShareID)
	}
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) {
		builtin.VisitField(u, &result.ShareID)
		builtin.VisitField(u, &result.ConsumedCapacity)
	})
}

func wantedCapacity(u *builtin.FieldVisitor, spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Constraints {
		builtin.VisitField(u, &spec.Devices.Constraints[i].DistinctAttribute)
	}
	eachRequest(spec, func(exactly *resourcev1.ExactDeviceRequest) { builtin.VisitField(u, &exactly.Capacity) },
		func(sub *resourcev1.DeviceSubRequest) { builtin.VisitField(u, &sub.Capacity) })
}

func takeDerived(u *builtin.FieldVisitor, spec *resourcev1.ResourceClaimSpec) {
	eachRequest(spec, func(exactly *resourcev1.ExactDeviceRequest) { builtin.VisitField(u, &exactly.DerivedAttributes) },
		func(sub *resourcev1.DeviceSubRequest) { builtin.VisitField(u, &sub.DerivedAttributes) })
}

func claimBinding(u *builtin.FieldVisitor, claim *resourcev1.ResourceClaim) {
	if allocation := claim.Status.Allocation; allocation != nil {
		builtin.VisitField(u, &allocation.AllocationTimestamp)
	}
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) {
		builtin.VisitField(u, &result.BindingConditions)
		builtin.VisitField(u, &result.BindingFailureConditions)
	})
}

func claimTolerations(u *builtin.FieldVisitor, claim *resourcev1.ResourceClaim) {
	tolerations(u, &claim.Spec)
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) { builtin.VisitField(u, &result.Tolerations) })
}

func tolerations(u *builtin.FieldVisitor, spec *resourcev1.ResourceClaimSpec) {
	eachRequest(spec, func(exactly *resourcev1.ExactDeviceRequest) { builtin.VisitField(u, &exactly.Tolerations) },
		func(sub *resourcev1.DeviceSubRequest) { builtin.VisitField(u, &sub.Tolerations) })
}

func claimSkipped(u *builtin.FieldVisitor, claim *resourcev1.ResourceClaim) {
	eachResult(claim, func(result *resourcev1.DeviceRequestAllocationResult) {
		builtin.VisitField(u, &result.SkipNodeOperations)
	})
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
