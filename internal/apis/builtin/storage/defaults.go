package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

func defaultClass(class *storagev1.StorageClass) {
	builtin.SetDefault(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	builtin.SetDefault(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultDriver(driver *storagev1.CSIDriver) {
	spec := &driver.Spec
	builtin.SetDefault(&spec.AttachRequired, true)
	builtin.SetDefault(&spec.PodInfoOnMount, false)
	builtin.SetDefault(&spec.StorageCapacity, false)
	builtin.SetDefault(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	builtin.SetDefault(&spec.RequiresRepublish, false)
	builtin.SetDefault(&spec.SELinuxMount, false)
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func defaultAttachment(attachment *storagev1.VolumeAttachment) {
	if inline := attachment.Spec.Source.InlineVolumeSpec; inline != nil {
		podspec.DefaultPersistentVolumeSpec(inline)
	}
}
