// Package storage declares the resources of storage.k8s.io, about the storage of pods. The server's
// own storage is in internal/storage.
package storage

import (
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is storage.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: storagev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[storagev1.CSIDriver]{
			Name: "csidrivers", Kind: "CSIDriver", RequireResourceVersion: true, ReturnDeleted: true,
			Gated:   []builtin.Gated[storagev1.CSIDriver]{{Gate: feature.VolumeLimitScaling, Fields: volumeLimits, Default: defaultVolumeLimits}},
			Default: defaultDriver, PrepareUpdate: prepareDriverUpdate, Validate: validateDriver, Warnings: driverWarnings, Columns: driverColumns(),
		}),
		builtin.Resource(builtin.Row[storagev1.CSINode]{
			Name: "csinodes", Kind: "CSINode", RequireResourceVersion: true, ReturnDeleted: true,
			Gated:    []builtin.Gated[storagev1.CSINode]{{Gate: feature.CSIVolumeHealth, Fields: storageHealth}},
			Validate: validateNode, Columns: nodeColumns(),
		}),
		builtin.Resource(builtin.Row[storagev1.CSIStorageCapacity]{
			Name: "csistoragecapacities", Kind: "CSIStorageCapacity", Namespaced: true, RequireResourceVersion: true,
			Validate: validateCapacity, Warnings: capacityWarnings,
		}),
		builtin.Resource(builtin.Row[storagev1.StorageClass]{
			Name: "storageclasses", Kind: "StorageClass", ShortNames: []string{"sc"}, ReturnDeleted: true,
			Default: defaultClass, Validate: validateClass, Warnings: classWarnings, Columns: classColumns(),
		}),
		builtin.Resource(builtin.Row[storagev1.VolumeAttachment]{
			Name: "volumeattachments", Kind: "VolumeAttachment", RequireResourceVersion: true, ReturnDeleted: true,
			Status: true, StatusKeeps: []string{"metadata"},
			Default: defaultAttachment, Validate: validateAttachment, ValidateStatus: validateAttachmentStatus, Columns: attachmentColumns(),
		}),
		builtin.Resource(builtin.Row[storagev1.VolumeAttributesClass]{
			Name: "volumeattributesclasses", Kind: "VolumeAttributesClass", ShortNames: []string{"vac"}, ReturnDeleted: true,
			Validate: validateAttributesClass, Columns: attributesClassColumns(),
		}),
	}}
}
