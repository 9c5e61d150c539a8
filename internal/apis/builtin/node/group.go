// Package node declares RuntimeClass, the resource of node.k8s.io.
package node

import (
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version node.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: nodev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*nodev1.RuntimeClass]{
			Names:       builtin.Names{Plural: "runtimeclasses", Kind: "RuntimeClass"},
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, RequireResourceVersion: true, AllowAnyFinalizer: true},
			Strategy:    builtin.Strategy[*nodev1.RuntimeClass]{Validate: validateRuntimeClass, Warnings: runtimeClassWarnings},
			Columns:     runtimeClassColumns(),
		}),
	}}
}

func runtimeClassColumns() *builtin.Columns[*nodev1.RuntimeClass] {
	return &builtin.Columns[*nodev1.RuntimeClass]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Handler", "string", ""), // as in kube-apiserver, there is no description
			builtin.AgeColumn(),
		},
		Cells: func(class *nodev1.RuntimeClass, now time.Time) []any {
			return []any{class.Name, class.Handler, builtin.Age(class.CreationTimestamp, now)}
		},
	}
}
