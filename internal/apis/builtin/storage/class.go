package storage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func classColumns() *builtin.Columns[*storagev1.StorageClass] {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return &builtin.Columns[*storagev1.StorageClass]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Provisioner", "string", doc["provisioner"]),
			builtin.Column("ReclaimPolicy", "string", doc["reclaimPolicy"]),
			builtin.Column("VolumeBindingMode", "string", doc["volumeBindingMode"]),
			builtin.Column("AllowVolumeExpansion", "string", doc["allowVolumeExpansion"]),
			builtin.AgeColumn(),
		},
		Cells: func(class *storagev1.StorageClass, now time.Time) []any {
			return []any{
				class.Name, class.Provisioner, string(or(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)),
				string(or(class.VolumeBindingMode, storagev1.VolumeBindingImmediate)), or(class.AllowVolumeExpansion, false),
				builtin.Age(class.CreationTimestamp, now),
			}
		},
		SortRows: markDefault,
	}
}

// Annotations that mark the default class.
const (
	defaultAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// markDefault appends " (default)" to the name of the default class in its row. This is the newest class with a
// default annotation or, if several are equally new, the first of them by name. The order of the rows does not
// change.
func markDefault(classes []*storagev1.StorageClass, rows [][]any) []int {
	order, chosen := make([]int, len(classes)), -1
	for i, class := range classes {
		order[i] = i
		if class.Annotations[defaultAnnotation] != "true" && class.Annotations[betaDefaultAnnotation] != "true" {
			continue
		}
		if chosen < 0 || outranks(class, classes[chosen]) {
			chosen = i
		}
	}
	if chosen >= 0 {
		rows[chosen][0] = classes[chosen].Name + " (default)"
	}
	return order
}

func outranks(a, b *storagev1.StorageClass) bool {
	if at, bt := a.CreationTimestamp, b.CreationTimestamp; !at.Equal(&bt) {
		return bt.Before(&at)
	}
	return a.Name < b.Name
}

func attributesClassColumns() *builtin.Columns[*storagev1.VolumeAttributesClass] {
	return &builtin.Columns[*storagev1.VolumeAttributesClass]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("DriverName", "string", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
			builtin.AgeColumn(),
		},
		Cells: func(class *storagev1.VolumeAttributesClass, now time.Time) []any {
			return []any{class.Name, class.DriverName, builtin.Age(class.CreationTimestamp, now)}
		},
	}
}
