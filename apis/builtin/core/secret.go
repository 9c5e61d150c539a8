package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/apis/builtin"
)

func secretFields(secret *corev1.Secret) fields.Set { return fields.Set{"type": string(secret.Type)} }

func secretColumns() *builtin.Columns[corev1.Secret] {
	doc := corev1.Secret{}.SwaggerDoc()
	return &builtin.Columns[corev1.Secret]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Type", "string", doc["type"]),
			builtin.Column("Data", "string", doc["data"]),
			builtin.AgeColumn(),
		},
		Cells: func(secret *corev1.Secret, now time.Time) []any {
			return []any{secret.Name, string(secret.Type), int64(len(secret.Data)), builtin.Age(secret.CreationTimestamp, now)}
		},
	}
}
