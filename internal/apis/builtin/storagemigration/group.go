// Package storagemigration declares StorageVersionMigration, the resource of storagemigration.k8s.io. Package
// controllers/storagemigration performs the migrations.
package storagemigration

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version storagemigration.k8s.io/v1.
func V1() builtin.Group {
	v1beta1 := schema.GroupVersion{Group: storagemigrationv1.GroupName, Version: "v1beta1"}
	return builtin.Group{GroupVersion: storagemigrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*storagemigrationv1.StorageVersionMigration]{
			Names: builtin.Names{Plural: "storageversionmigrations", Kind: "StorageVersionMigration"}, Gate: feature.StorageVersionMigrator,
			Versions:    builtin.Versions{Others: []builtin.Version{{GroupVersion: v1beta1, Deprecated: 37, Successor: "v1"}}},
			Storage:     builtin.Storage{Version: v1beta1},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true},
			Strategy:    builtin.Strategy[*storagemigrationv1.StorageVersionMigration]{Validate: validateMigration},
			Status: &builtin.Status[*storagemigrationv1.StorageVersionMigration]{
				PreservedMetadata: []string{"metadata"}, Validate: validateMigrationStatus,
			},
			Columns: migrationColumns(),
		}),
	}}
}

func migrationColumns() *builtin.Columns[*storagemigrationv1.StorageVersionMigration] {
	name := builtin.NameColumn()
	name.Format = ""
	return &builtin.Columns[*storagemigrationv1.StorageVersionMigration]{
		Definitions: []metav1.TableColumnDefinition{
			name,
			builtin.Column("Resource", "string", "GroupResource to migrate"),
			builtin.Column("Status", "string", "Status of the migration"),
		},
		Cells: func(m *storagemigrationv1.StorageVersionMigration, _ time.Time) []any {
			resource := schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
			return []any{m.Name, resource.String(), migrationState(m)}
		},
	}
}

// migrationState returns the type of the last condition that is true, or "Unknown".
func migrationState(m *storagemigrationv1.StorageVersionMigration) string {
	state := "Unknown"
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		if c.Status != metav1.ConditionStatus(corev1.ConditionTrue) {
			continue
		}
		switch kind := storagemigrationv1.MigrationConditionType(c.Type); kind {
		case storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationFailed, storagemigrationv1.MigrationSucceeded:
			state = string(kind)
		}
	}
	return state
}
