package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func configMapColumns() *builtin.Columns[*corev1.ConfigMap] {
	return &builtin.Columns[*corev1.ConfigMap]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Data", "string", corev1.ConfigMap{}.SwaggerDoc()["data"]),
			builtin.AgeColumn(),
		},
		Cells: func(configMap *corev1.ConfigMap, now time.Time) []any {
			return []any{configMap.Name, int64(len(configMap.Data) + len(configMap.BinaryData)), builtin.Age(configMap.CreationTimestamp, now)}
		},
	}
}
