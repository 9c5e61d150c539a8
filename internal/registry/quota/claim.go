package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/codec"
)

// classSuffix separates the name of a storage class from the limited resource.
const classSuffix = ".storageclass.storage.k8s.io/"

// isClaimResource reports whether a quota resource limits persistent volume claims.
func isClaimResource(name corev1.ResourceName) bool {
	if name == corev1.ResourceRequestsStorage {
		return true
	}
	_, what, ok := strings.Cut(string(name), classSuffix)
	return ok && (what == string(corev1.ResourceRequestsStorage) || what == string(corev1.ResourcePersistentVolumeClaims))
}

// claimUsage adds the usage of a claim: in total, and for its storage class.
func claimUsage(used corev1.ResourceList, obj codec.Object, _ time.Time) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return
	}
	class := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; !ok && claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	ofClass := func(what corev1.ResourceName, quantity resource.Quantity) {
		if class != "" {
			used[corev1.ResourceName(class+classSuffix)+what] = quantity
		}
	}
	ofClass(corev1.ResourcePersistentVolumeClaims, one())
	storage, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	// While a claim shrinks, it still occupies its allocated size.
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(storage) > 0 {
		storage = allocated
	}
	storage = storage.DeepCopy()
	storage.RoundUp(0) // the status of a quota must have whole bytes
	used[corev1.ResourceRequestsStorage] = storage
	ofClass(corev1.ResourceRequestsStorage, storage)
}

// isDeviceResource reports whether a quota resource limits resource claims.
func isDeviceResource(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// deviceUsage adds the maximum number of devices of each class that a resource claim can use.
func deviceUsage(used corev1.ResourceList, obj codec.Object, _ time.Time) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil {
			add(used, deviceResourceName(request.Exactly.DeviceClassName), devices(request.Exactly.AllocationMode, request.Exactly.Count))
			continue
		}
		most := corev1.ResourceList{}
		for _, or := range request.FirstAvailable {
			name, quantity := deviceResourceName(or.DeviceClassName), devices(or.AllocationMode, or.Count)
			if current, ok := most[name]; !ok || quantity.Cmp(current) > 0 {
				most[name] = quantity
			}
		}
		for name, quantity := range most {
			add(used, name, quantity)
		}
	}
}

func deviceResourceName(class string) corev1.ResourceName {
	return corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
}

// devices returns the maximum number of devices of a request. As in kube-apiserver, an unknown mode
// counts as 0.
func devices(mode resourcev1.DeviceAllocationMode, count int64) resource.Quantity {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return *resource.NewQuantity(count, resource.DecimalSI)
	case resourcev1.DeviceAllocationModeAll:
		return number(resourcev1.AllocationResultsMaxSize)
	}
	return number(0)
}
