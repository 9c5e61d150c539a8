package resource

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/resource"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateClaimStatus validates the status of a claim. The allocation is validated only when it is first set;
// afterwards, a +k8s marker keeps it unchanged.
func validateClaimStatus(f validation.Field, claim, old *resourcev1.ResourceClaim) {
	status, at := &claim.Status, f.Child("status")
	validateConsumers(at.Child("reservedFor"), status.ReservedFor)
	validateDeviceStatuses(at.Child("devices"), claim)
	validateReserved(at.Child("reservedFor"), claim, old)
	if status.Allocation != nil && old.Status.Allocation == nil {
		validateAllocation(at.Child("allocation"), status.Allocation, claim.Spec.Devices.Requests)
	}
	validation.ValidateDeclared(f, declared.Validate_ResourceClaim, claim, old, "status")
}

func validateConsumers(f validation.Field, consumers []resourcev1.ResourceClaimConsumerReference) {
	if len(consumers) > resourcev1.ResourceClaimReservedForMaxSize {
		return // a +k8s marker rejects the list
	}
	for i := range consumers {
		consumer, at := &consumers[i], f.Index(i)
		for _, field := range [...]struct{ name, value string }{
			{"resource", consumer.Resource}, {"name", consumer.Name}, {"uid", string(consumer.UID)},
		} {
			if field.value == "" {
				at.Child(field.name).Required("")
			}
		}
	}
}

// validateReserved rejects reservations of a claim without an allocation, and new reservations of a claim that
// is being deleted.
func validateReserved(f validation.Field, claim, old *resourcev1.ResourceClaim) {
	switch consumers := claim.Status.ReservedFor; {
	case len(consumers) == 0:
	case claim.Status.Allocation == nil:
		f.Forbidden("may not be specified when `allocated` is not set")
	case claim.DeletionTimestamp == nil:
	case slices.ContainsFunc(consumers, func(c resourcev1.ResourceClaimConsumerReference) bool {
		return !slices.Contains(old.Status.ReservedFor, c)
	}):
		f.Forbidden("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
	}
}

// validateDeviceStatuses requires that the devices with a status are allocated.
func validateDeviceStatuses(f validation.Field, claim *resourcev1.ResourceClaim) {
	if len(claim.Status.Devices) == 0 {
		return
	}
	allocated := allocatedDevices(claim)
	for i := range claim.Status.Devices {
		device, at := &claim.Status.Devices[i], f.Index(i)
		podspec.ValidateCSIDriverName(at.Child("driver"), device.Driver)
		validatePoolName(at.Child("pool"), device.Pool)
		at.Child("device").DNSLabel(device.Device)
		if id := reportedDevice(device); !allocated[id] {
			at.Invalid(id, "must be an allocated device in the claim")
		}
		validateConditions(at.Child("conditions"), device.Conditions, resourcev1.AllocatedDeviceStatusMaxConditions)
		if device.Data != nil && len(device.Data.Raw) > 0 {
			validateObject(at.Child("data"), device.Data.Raw, resourcev1.AllocatedDeviceStatusDataMaxLength)
		}
		if device.NetworkData != nil {
			validateInterfaceAddresses(at.Child("networkData").Child("ips"), device.NetworkData.IPs)
		}
	}
}

func validateInterfaceAddresses(f validation.Field, addresses []string) {
	if len(addresses) > resourcev1.NetworkDeviceDataMaxIPs {
		return // a +k8s marker rejects the list
	}
	for i, address := range addresses {
		at := f.Index(i)
		at.Add(utilvalidation.IsValidInterfaceAddress(at.Path(), address)...)
	}
}

func validateAllocation(f validation.Field, allocation *resourcev1.AllocationResult, requests []resourcev1.DeviceRequest) {
	names, devices := namesOf(requests), f.Child("devices")
	if results := allocation.Devices.Results; len(results) <= resourcev1.AllocationResultsMaxSize {
		for i := range results {
			validateResult(devices.Child("results").Index(i), &results[i], &names)
		}
	}
	if configs := allocation.Devices.Config; len(configs) <= 2*resourcev1.DeviceConfigMaxSize { // from the class and from the claim
		for i := range configs {
			at := devices.Child("config").Index(i)
			names.validateRefs(at.Child("requests"), configs[i].Requests)
			validateConfiguration(at, &configs[i].DeviceConfiguration)
		}
	}
	if allocation.NodeSelector != nil {
		podspec.ValidateNodeSelector(f.Child("nodeSelector"), allocation.NodeSelector)
	}
}

func validateResult(f validation.Field, result *resourcev1.DeviceRequestAllocationResult, names *requestNames) {
	names.validateRef(f.Child("request"), result.Request)
	f.Child("device").DNSLabel(result.Device)
	validateBindingConditions(f, result.BindingConditions, result.BindingFailureConditions)
	validateTolerations(f.Child("tolerations"), result.Tolerations)
	validateSkippedOperations(f.Child("skipNodeOperations"), result.SkipNodeOperations)
}

// deviceID identifies an allocated device. Its field names are those of kube-apiserver, because error messages
// contain them.
type deviceID struct{ Driver, Pool, Device, ShareID string }

func reportedDevice(d *resourcev1.AllocatedDeviceStatus) deviceID {
	return deviceID{d.Driver, d.Pool, d.Device, text(d.ShareID)}
}

func allocatedDevices(claim *resourcev1.ResourceClaim) map[deviceID]bool {
	devices := map[deviceID]bool{}
	if claim.Status.Allocation == nil {
		return devices
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		devices[deviceID{result.Driver, result.Pool, result.Device, shareOf(result.ShareID)}] = true
	}
	return devices
}

func shareOf(id *types.UID) string {
	if id == nil {
		return ""
	}
	return string(*id)
}
