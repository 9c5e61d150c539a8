// Package storage declares the resources of storage.k8s.io.
//
// Imports: apis/builtin.
package storage

import (
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is storage.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: storagev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[storagev1.CSIDriver]{
			Name: "csidrivers", Kind: "CSIDriver",
			RequireResourceVersion: true, ReturnDeleted: true,
		}),
		builtin.Resource(builtin.Row[storagev1.CSINode]{
			Name: "csinodes", Kind: "CSINode",
			RequireResourceVersion: true, ReturnDeleted: true,
		}),
		builtin.Resource(builtin.Row[storagev1.CSIStorageCapacity]{
			Name: "csistoragecapacities", Kind: "CSIStorageCapacity", Namespaced: true,
			RequireResourceVersion: true,
		}),
		builtin.Resource(builtin.Row[storagev1.StorageClass]{
			Name: "storageclasses", Kind: "StorageClass", ShortNames: []string{"sc"},
			ReturnDeleted: true,
		}),
		builtin.Resource(builtin.Row[storagev1.VolumeAttachment]{
			Name: "volumeattachments", Kind: "VolumeAttachment",
			Status: true, StatusKeeps: []string{"metadata"}, RequireResourceVersion: true, ReturnDeleted: true,
		}),
		builtin.Resource(builtin.Row[storagev1.VolumeAttributesClass]{
			Name: "volumeattributesclasses", Kind: "VolumeAttributesClass", ShortNames: []string{"vac"},
			ReturnDeleted: true,
		}),
	}}
}
