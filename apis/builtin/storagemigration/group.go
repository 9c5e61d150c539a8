// Package storagemigration declares the resources of storagemigration.k8s.io.
//
// Imports: apis/builtin.
package storagemigration

import (
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is storagemigration.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: storagemigrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[storagemigrationv1.StorageVersionMigration]{
			Name: "storageversionmigrations", Kind: "StorageVersionMigration",
			Status: true, StatusKeeps: []string{"metadata"},
			StorageVersion: storagemigrationv1beta1.SchemeGroupVersion, RequireResourceVersion: true,
		}),
	}}
}
