// Package storage declares the resources of storage.k8s.io, which describe storage for the volumes of pods. The
// server's own storage is implemented in internal/storage.
package storage

import (
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version storage.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: storagev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*storagev1.CSIDriver]{
			Names:       builtin.Names{Plural: "csidrivers", Kind: "CSIDriver"},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, ReturnDeletedObject: true},
			Strategy: builtin.Strategy[*storagev1.CSIDriver]{
				Default:          defaultDriver,
				GatedFields:      []builtin.GatedFields[*storagev1.CSIDriver]{{Gate: feature.VolumeLimitScaling, Visit: volumeLimits, Default: defaultVolumeLimits}},
				PrepareForUpdate: prepareDriverUpdate,
				Validate:         validateDriver, Warnings: driverWarnings,
			},
			Columns: driverColumns(),
		}),
		builtin.Resource(builtin.Row[*storagev1.CSINode]{
			Names:       builtin.Names{Plural: "csinodes", Kind: "CSINode"},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, ReturnDeletedObject: true},
			Strategy: builtin.Strategy[*storagev1.CSINode]{
				GatedFields: []builtin.GatedFields[*storagev1.CSINode]{{Gate: feature.CSIVolumeHealth, Visit: storageHealth}},
				Validate:    validateNode,
			},
			Columns: nodeColumns(),
		}),
		builtin.Resource(builtin.Row[*storagev1.CSIStorageCapacity]{
			Names: builtin.Names{Plural: "csistoragecapacities", Kind: "CSIStorageCapacity"}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true},
			Strategy:    builtin.Strategy[*storagev1.CSIStorageCapacity]{Validate: validateCapacity, Warnings: capacityWarnings},
		}),
		builtin.Resource(builtin.Row[*storagev1.StorageClass]{
			Names:       builtin.Names{Plural: "storageclasses", Kind: "StorageClass", ShortNames: []string{"sc"}},
			WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true},
			Strategy:    builtin.Strategy[*storagev1.StorageClass]{Default: defaultClass, Validate: validateClass, Warnings: classWarnings},
			Columns:     classColumns(),
		}),
		builtin.Resource(builtin.Row[*storagev1.VolumeAttachment]{
			Names:       builtin.Names{Plural: "volumeattachments", Kind: "VolumeAttachment"},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, ReturnDeletedObject: true},
			Strategy:    builtin.Strategy[*storagev1.VolumeAttachment]{Default: defaultAttachment, Validate: validateAttachment},
			Status:      &builtin.Status[*storagev1.VolumeAttachment]{PreservedMetadata: []string{"metadata"}, Validate: validateAttachmentStatus},
			Columns:     attachmentColumns(),
		}),
		builtin.Resource(builtin.Row[*storagev1.VolumeAttributesClass]{
			Names:       builtin.Names{Plural: "volumeattributesclasses", Kind: "VolumeAttributesClass", ShortNames: []string{"vac"}},
			WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true},
			Strategy:    builtin.Strategy[*storagev1.VolumeAttributesClass]{Validate: validateAttributesClass},
			Columns:     attributesClassColumns(),
		}),
	}}
}
