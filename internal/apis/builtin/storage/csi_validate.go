package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits on fields of drivers and nodes.
const (
	minAllocatablePeriod = 10 // seconds
	minTokenExpiration   = 600
	maxTokenExpiration   = 1 << 32
	maxNodeID            = 256
)

func validateDriver(f validation.Field, driver, old *storagev1.CSIDriver) {
	f, spec := f.Child("spec"), &driver.Spec
	// The field name attachedRequired is from kube-apiserver. The following four fields have defaults.
	requireSet(f.Child("attachedRequired"), spec.AttachRequired)
	requireSet(f.Child("podInfoOnMount"), spec.PodInfoOnMount)
	requireSet(f.Child("storageCapacity"), spec.StorageCapacity)
	requireSet(f.Child("seLinuxMount"), spec.SELinuxMount)
	if policy := spec.FSGroupPolicy; policy != nil {
		validation.OneOf(f.Child("fsGroupPolicy"), *policy,
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	validateTokenRequests(f, spec)
	for _, mode := range spec.VolumeLifecycleModes {
		validation.OneOf(f.Child("volumeLifecycleModes"), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < minAllocatablePeriod {
		f.Child("nodeAllocatableUpdatePeriodSeconds").Invalid(*period, fmt.Sprintf("must be greater than or equal to %d seconds", minAllocatablePeriod))
	}
	if old != nil {
		validation.Immutable(f.Child("attachedRequired"), spec.AttachRequired, old.Spec.AttachRequired)
		validation.Immutable(f.Child("volumeLifecycleModes"), spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)
	}
}

func requireSet(f validation.Field, value *bool) {
	if value == nil {
		f.Required("")
	}
}

func validateTokenRequests(f validation.Field, spec *storagev1.CSIDriverSpec) {
	audiences := validation.NewDuplicates[string](len(spec.TokenRequests))
	for i := range spec.TokenRequests {
		request, at := &spec.TokenRequests[i], f.Child("tokenRequests").Index(i)
		if audiences.IsDuplicate(request.Audience) {
			at.Child("audience").Duplicate(request.Audience)
			continue
		}
		seconds := request.ExpirationSeconds
		switch {
		case seconds == nil:
		case *seconds < minTokenExpiration:
			at.Child("expirationSeconds").Invalid(*seconds, "may not specify a duration less than 10 minutes")
		case *seconds > maxTokenExpiration:
			at.Child("expirationSeconds").Invalid(*seconds, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if inSecrets := spec.ServiceAccountTokenInSecrets; inSecrets != nil && len(spec.TokenRequests) == 0 {
		f.Child("serviceAccountTokenInSecrets").Invalid(*inSecrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
}

func validateNode(f validation.Field, node, old *storagev1.CSINode) {
	f = f.Child("spec").Child("drivers")
	names := validation.NewDuplicates[string](len(node.Spec.Drivers))
	for i := range node.Spec.Drivers {
		driver, at := &node.Spec.Drivers[i], f.Index(i)
		validateNodeDriver(at, driver)
		if names.IsDuplicate(driver.Name) {
			at.Child("name").Duplicate(driver.Name)
		}
	}
	if old != nil && validation.Changed(node.Spec, old.Spec) {
		validateSameDrivers(f, node.Spec.Drivers, old.Spec.Drivers)
	}
}

func validateNodeDriver(f validation.Field, driver *storagev1.CSINodeDriver) {
	podspec.ValidateCSIDriverName(f.Child("name"), driver.Name)
	if driver.NodeID == "" {
		f.Child("nodeID").Required("")
	}
	if len(driver.NodeID) > maxNodeID {
		f.Child("nodeID").Invalid(driver.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID))
	}
	if a := driver.Allocatable; a != nil && a.Count != nil {
		f.Child("allocatable").Child("count").NonNegative(int64(*a.Count))
	}
	keys := validation.NewDuplicates[string](len(driver.TopologyKeys))
	for _, key := range driver.TopologyKeys { // as in kube-apiserver, errors are reported for the driver
		if key == "" {
			f.Required("")
		}
		if keys.IsDuplicate(key) {
			f.Duplicate(key)
		}
		f.QualifiedName(key)
	}
}

// validateSameDrivers accepts added and removed drivers. In an existing driver, only the field allocatable may
// change.
func validateSameDrivers(f validation.Field, drivers, old []storagev1.CSINodeDriver) {
	before := make(map[string]*storagev1.CSINodeDriver, len(old))
	for i := range old {
		before[old[i].Name] = &old[i]
	}
	for i := range drivers {
		was, ok := before[drivers[i].Name]
		if !ok {
			continue
		}
		driver := drivers[i]
		driver.Allocatable = was.Allocatable
		validation.Immutable(f, driver, *was)
	}
}

func validateCapacity(f validation.Field, capacity, old *storagev1.CSIStorageCapacity) {
	f.Child("storageClassName").DNSSubdomain(capacity.StorageClassName)
	if size := capacity.Capacity; size != nil && size.Sign() < 0 {
		f.Child("capacity").Invalid(size.String(), apivalidation.IsNegativeErrorMsg)
	}
	if old == nil || validation.Changed(capacity.NodeTopology, old.NodeTopology) {
		f.Child("nodeTopology").LabelSelector(capacity.NodeTopology)
	}
	if old != nil {
		validation.Immutable(f.Child("nodeTopology"), capacity.NodeTopology, old.NodeTopology)
		validation.Immutable(f.Child("storageClassName"), capacity.StorageClassName, old.StorageClassName)
	}
}
